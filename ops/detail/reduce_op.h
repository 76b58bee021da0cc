#pragma once
// What reductions share: axes as a bit mask, the shapes of results, and moving reduced axes to the end. Not for users.
#include <spool/autograd/op.h>
#include <spool/ops/reduce.h>

namespace spool::detail {

struct ReduceAttrs {
  Axes axes;
  bool keepdim = false;
};

/// Bit i set: axis i is reduced. No axes: all. Throws ShapeError naming op, axis and shape.
uint32_t axes_mask(std::string_view op, const Dims& axes, const Shape& shape);
/// Shape without the axes of the mask, or with size 1 for them.
Shape reduced_shape(const Shape& shape, uint32_t mask, bool keepdim);
/// Throws ShapeError when an output would be reduced from no elements.
void check_not_empty(std::string_view op, const Shape& shape, uint32_t mask);
/// x as [kept…, reduced]: the axes of the mask moved to the end and merged.
Tensor reduced_last(const Tensor& x, uint32_t mask);
/// Spreads a reduction's cotangent over the input's shape (a view).
Tensor spread(const Tensor& g, const Shape& shape, uint32_t mask);

std::vector<Sample> reduce_samples(Rng& rng, bool empty_allowed);
std::vector<BadSample> reduce_bad(std::string_view op);

}  // namespace spool::detail
