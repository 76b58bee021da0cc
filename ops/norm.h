#pragma once
// Normalisation over the last axis, and over groups of channels. Statistics are formed in f32 (f64 for f64) from deviations, never from E[x²] − E[x]².
#include <spool/tensor/tensor.h>

namespace spool {
/// y = (x − mean)/√(var + eps)·weight + bias, var = mean of squared deviations. weight and bias [dim] or undefined. Keeps x, weight and, for
/// each row, mean and 1/√(var + eps). Gradients of weight and bias that are gathered already are added to in place.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// y = x/√(mean(x²) + eps)·weight, eps inside the root. weight [dim] or undefined. Keeps x, weight and 1/√(mean(x²) + eps) of each row.
/// In 16-bit types x/√… is rounded before it is multiplied by weight, as LLaMA's reference codes do.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-5);

/// y = (x − mean)/√(var + eps)·weight + bias for x [batch, channels, ...], with mean and variance of each batch element and group of
/// channels/groups neighbouring channels over all their elements (Wu and He 2018); weight and bias [channels] or undefined. groups = 1
/// normalises each batch element, groups = channels each channel of it. Keeps x, weight and, for each group, mean and 1/√(var + eps).
/// ShapeError when groups do not divide the channels or there is nothing to normalise.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

struct AddedNorm {
  Tensor sum;  ///< x + delta, the residual stream.
  Tensor y;    ///< rms_norm(sum, weight, eps).
};
/// Residual addition and norm in one pass, forward and backward. x and delta of one shape. Keeps sum, weight and 1/√… of each row.
AddedNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& weight, double eps = 1e-5);
}  // namespace spool
