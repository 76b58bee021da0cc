#pragma once
// The linear map of a neural network, with bias and activation in the same pass.
#include <spool/tensor/tensor.h>

namespace spool {

enum class Activation : uint8_t { none, relu, gelu_erf, gelu_tanh, silu };

/// y[..., out] = activation(x[..., in]·weightᵀ + bias). weight [out, in] and bias [out] as in PyTorch; bias may be undefined. One float
/// type. Keeps x, weight, and the value before the activation when there is one. Gradients of weight and bias that are gathered already
/// are added to in place.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Activation activation = Activation::none);

}  // namespace spool
