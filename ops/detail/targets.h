#pragma once
// What losses over classes share. Private to ops/.
#include <spool/ops/cpu/index.h>

namespace spool::detail {

/// The type of sums and statistics of tensors of this type: f64 for f64, otherwise f32.
inline Dtype statistics_type(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

/// The shape of the targets [...] of `what` [..., classes]; throws when they do not fit.
inline Shape target_rows(std::string_view op, std::string_view what, const Meta& scores, const Meta& targets) {
  if (!is_float(scores.dtype)) fail_not_float(op, scores.dtype);
  kernels::require_index(op, targets.dtype);
  Shape rows = scores.shape;
  if (rows.empty() || rows.back() == 0) fail<ShapeError>(op, ": ", what, " ", scores.shape, " have no classes");
  rows.erase(rows.size() - 1);
  if (targets.shape != rows) fail<ShapeError>(op, ": targets ", targets.shape, " do not fit ", what, " ", scores.shape);
  return rows;
}

/// How many targets are not the ignored value.
inline int64_t count_scored(const Tensor& targets, int64_t ignored) {
  int64_t count = 0;
  kernels::visit_index("targets", targets.dtype(), [&]<class I>() {
    const I* t = static_cast<const I*>(targets.raw());
    for (int64_t i = 0; i < targets.numel(); ++i) count += int64_t(t[i]) != ignored;
  });
  return count;
}

}  // namespace spool::detail
