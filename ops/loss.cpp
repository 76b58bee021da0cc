#include <spool/autograd/op.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/loss.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/reduce.h>
#include <spool/ops/where.h>
#include <spool/tensor/error.h>

#include <limits>

namespace spool {
namespace {

void check_pair(std::string_view op, const Tensor& a, const Tensor& b) {
  same_float(op, {meta_of(a), meta_of(b)});
  if (a.shape() != b.shape()) fail<ShapeError>(op, ": shapes ", a.shape(), " and ", b.shape(), " differ; nothing broadcasts here");
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

}  // namespace

Tensor mse_loss(const Tensor& a, const Tensor& b, Reduction reduction) {
  check_pair("mse_loss", a, b);
  return reduced(square(a - b), reduction);
}

Tensor l1_loss(const Tensor& a, const Tensor& b, Reduction reduction) {
  check_pair("l1_loss", a, b);
  return reduced(abs(a - b), reduction);
}

Tensor huber_loss(const Tensor& a, const Tensor& b, double delta, Reduction reduction) {
  check_pair("huber_loss", a, b);
  if (!(delta > 0)) fail<ConfigError>("huber_loss: delta must be above 0, got ", delta);
  const Tensor d = abs(a - b);
  constexpr double f32_max = std::numeric_limits<float>::max(), f64_max = std::numeric_limits<double>::max();
  if (delta > (a.dtype() == Dtype::f64 ? f64_max : f32_max)) return reduced(0.5 * square(d), reduction);  // no |a − b| is beyond, and 0·∞ would be NaN
  const Tensor near = clamp(d, 0, delta);  // one of the terms below is constant wherever the other is not
  return reduced(0.5 * square(near) + delta * (d - near), reduction);
}

Tensor smooth_l1_loss(const Tensor& a, const Tensor& b, double beta, Reduction reduction) {
  check_pair("smooth_l1_loss", a, b);
  if (!(beta > 0)) fail<ConfigError>("smooth_l1_loss: beta must be above 0, got ", beta, "; l1_loss is its limit at 0");
  return huber_loss(a, b, beta, reduction) / beta;
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets, Reduction reduction) {
  check_pair("binary_cross_entropy_with_logits", logits, targets);
  return reduced((1.0 - targets) * logits - log_sigmoid(logits), reduction);
}

Tensor kl_div(const Tensor& log_probs, const Tensor& targets, Reduction reduction) {
  check_pair("kl_div", log_probs, targets);
  const Tensor some = not_equal(targets, 0);  // NaN and what is below 0 give NaN
  return reduced(where(some, targets * (log(where(some, targets, 1.0)) - where(some, log_probs, 0.0)), 0.0), reduction);
}

}  // namespace spool
