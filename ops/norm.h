#pragma once
// Normalisation over the last axis. Statistics are formed in f32 (f64 for f64) from deviations, never from E[x²] − E[x]².
#include <spool/tensor/tensor.h>

namespace spool {
/// y = (x − mean)/√(var + eps)·weight + bias, var = mean of squared deviations. weight and bias [dim] or undefined. Keeps x, weight and, for
/// each row, mean and 1/√(var + eps). Gradients of weight and bias that are gathered already are added to in place.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// y = x/√(mean(x²) + eps)·weight, eps inside the root. weight [dim] or undefined. Keeps x, weight and 1/√(mean(x²) + eps) of each row.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-5);
}  // namespace spool
