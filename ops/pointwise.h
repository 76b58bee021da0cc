#pragma once
// Functions of one tensor, element by element. All take any float type (16-bit floats are computed in f32) and any strides, and give a
// contiguous tensor of the same shape. DtypeError on integers unless said otherwise. "Keeps" is what backward reads.
#include <spool/tensor/tensor.h>

namespace spool {

Tensor exp(const Tensor& x);          ///< eˣ. Keeps the output.
Tensor expm1(const Tensor& x);        ///< eˣ − 1, exact near 0. Keeps the output.
Tensor log(const Tensor& x);          ///< Natural logarithm. Keeps the input.
Tensor log1p(const Tensor& x);        ///< log(1 + x), exact near 0. Keeps the input.
Tensor sqrt(const Tensor& x);         ///< Keeps the output.
Tensor rsqrt(const Tensor& x);        ///< 1/√x. Keeps the output.
Tensor square(const Tensor& x);       ///< x². Keeps the input.
Tensor reciprocal(const Tensor& x);   ///< 1/x. Keeps the output.
Tensor sin(const Tensor& x);          ///< Keeps the input.
Tensor cos(const Tensor& x);          ///< Keeps the input.
Tensor tanh(const Tensor& x);         ///< Keeps the output.
Tensor erf(const Tensor& x);          ///< Keeps the input.
Tensor sigmoid(const Tensor& x);      ///< σ(x) = 1/(1 + e⁻ˣ). Keeps the output.
Tensor log_sigmoid(const Tensor& x);  ///< log σ(x), without overflow. Keeps the input.
Tensor softplus(const Tensor& x);     ///< log(1 + eˣ), without overflow. Keeps the input.
Tensor relu(const Tensor& x);         ///< max(x, 0); slope 0 at 0. Keeps the output.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);  ///< x where x > 0, slope·x elsewhere. Keeps the input.
Tensor elu(const Tensor& x, double alpha = 1);            ///< x where x > 0, α(eˣ − 1) elsewhere. Keeps the input.
Tensor silu(const Tensor& x);         ///< x·σ(x). Keeps the input.
Tensor abs(const Tensor& x);          ///< |x|; slope 0 at 0. Keeps the input.
Tensor neg(const Tensor& x);          ///< −x. Keeps nothing.
Tensor sign(const Tensor& x);         ///< −1, 0 or 1; gradient 0. Keeps nothing.
Tensor floor(const Tensor& x);        ///< Gradient 0. Keeps nothing.
Tensor ceil(const Tensor& x);         ///< Gradient 0. Keeps nothing.
Tensor round(const Tensor& x);        ///< To nearest, halves to even; gradient 0. Keeps nothing.
Tensor clamp(const Tensor& x, double low, double high);  ///< min(max(x, low), high); slope 1 inside and on the borders. Keeps the input.

/// The two GELUs differ by up to 4.7e-4; a model must say which one it means.
enum class Gelu {
  erf,   ///< x·Φ(x), exact.
  tanh,  ///< ½x(1 + tanh(√(2/π)(x + 0.044715x³))).
};
Tensor gelu(const Tensor& x, Gelu kind = Gelu::erf);  ///< Ops gelu_erf and gelu_tanh. gelu(−∞) is NaN, as the formula says. Keeps the input.

}  // namespace spool
