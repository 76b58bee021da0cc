#include <spool/nn/detail/schedule.h>
#include <spool/nn/estimate.h>
#include <spool/tensor/error.h>

namespace spool::nn {

int64_t optimizer_bytes(OptimizerState kind, int64_t elements, Dtype dtype) {
  const bool half = dtype == Dtype::bf16 || dtype == Dtype::f16;
  const int64_t each = half ? 4 : int64_t(dtype_size(dtype)), moments = kind == OptimizerState::adam ? 2 : kind == OptimizerState::momentum ? 1 : 0;
  return elements * (each * moments + (half ? 4 : 0));
}

CategoryBytes Estimate::at_peak() const {
  CategoryBytes out;
  out[Category::parameter] = parameter_bytes;
  out[Category::gradient] = peak.gradients;
  out[Category::optimizer] = optimizer_bytes;
  out[Category::scratch] = peak.scratch;
  out[Category::saved] = peak.bytes - out.total();
  return out;
}

Estimate detail::state_estimate(int64_t parameters, int64_t buffers, const StepSizes& sizes) {
  if (sizes.loss.feed_forward_chunk < 0) fail<ConfigError>("estimate: feed_forward_chunk must be 0 or above, got ", sizes.loss.feed_forward_chunk);
  if (sizes.batch < 1 || sizes.length < 1) fail<ConfigError>("estimate: batch and length must be at least 1, got ", sizes.batch, " and ", sizes.length);
  if (sizes.accumulate < 1) fail<ConfigError>("estimate: accumulate must be at least 1, got ", sizes.accumulate);
  Estimate out;
  out.parameters = parameters;
  out.gradient_bytes = parameters * int64_t(dtype_size(sizes.dtype));
  out.parameter_bytes = out.gradient_bytes + buffers * int64_t(dtype_size(sizes.dtype));
  out.optimizer_bytes = optimizer_bytes(sizes.optimizer, parameters, sizes.dtype);
  return out;
}

}  // namespace spool::nn
