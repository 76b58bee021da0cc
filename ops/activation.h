#pragma once
// Activation functions, elementwise. Float types only; bf16 and f16 are computed in f32. Each has a fused backward pass.
#include <spool/tensor/tensor.h>

namespace spool {

/// Which GELU: `erf` is x·Φ(x) (Hendrycks & Gimpel 2016, exact), `tanh` the approximation of the same paper. They differ by up to 4.7e-4:
/// weights trained with one are not exact with the other, so models store which one they use.
enum class Gelu : uint8_t { erf, tanh };

Tensor relu(const Tensor& x);                                      ///< max(x, 0), slope 0 at 0. Keeps the result.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);  ///< x above 0, negative_slope·x below. Keeps x.
Tensor elu(const Tensor& x, double alpha = 1);                     ///< x above 0, alpha·(eˣ - 1) below. Keeps x.
Tensor sigmoid(const Tensor& x);                                   ///< 1/(1 + e^-x). Keeps the result.
Tensor log_sigmoid(const Tensor& x);                               ///< log sigmoid(x) without overflow. Keeps x.
Tensor softplus(const Tensor& x);                                  ///< log(1 + eˣ) without overflow. Keeps x.
Tensor silu(const Tensor& x);                                      ///< x·sigmoid(x), also called swish. Keeps x.
Tensor gelu(const Tensor& x, Gelu kind = Gelu::erf);               ///< Keeps x. NaN at -inf, as the formula gives.

}  // namespace spool
