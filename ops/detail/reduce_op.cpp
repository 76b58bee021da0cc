#include <spool/ops/detail/axis.h>
#include <spool/ops/detail/reduce_op.h>
#include <spool/ops/expand.h>
#include <spool/ops/reshape.h>
#include <spool/tensor/error.h>

namespace spool::detail {

uint32_t axes_mask(std::string_view op, const Dims& axes, const Shape& shape) {
  if (axes.empty()) return (uint32_t(1) << shape.size()) - 1;
  uint32_t mask = 0;
  for (const int64_t given : axes) {
    const uint32_t bit = uint32_t(1) << as_axis(op, given, shape);
    if (mask & bit) fail<ShapeError>(op, ": axes ", axes, " name an axis of shape ", shape, " twice");
    mask |= bit;
  }
  return mask;
}

Shape reduced_shape(const Shape& shape, uint32_t mask, bool keepdim) {
  Shape out;
  for (int axis = 0; axis < shape.size(); ++axis) {
    if (!(mask >> axis & 1))
      out.push_back(shape[axis]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

void check_not_empty(std::string_view op, const Shape& shape, uint32_t mask) {
  if (numel(shape) == 0 && numel(reduced_shape(shape, mask, false)) > 0)
    fail<ShapeError>(op, ": no elements along the reduced axes of shape ", shape);
}

Tensor reduced_last(const Tensor& x, uint32_t mask) {
  Dims order;
  Shape shape;
  int64_t reduced = 1;
  for (int axis = 0; axis < x.dims(); ++axis) {
    if (mask >> axis & 1) {
      reduced *= x.shape()[axis];
    } else {
      order.push_back(axis);
      shape.push_back(x.shape()[axis]);
    }
  }
  bool moved = false;
  for (int axis = 0; axis < x.dims(); ++axis) {
    if (!(mask >> axis & 1)) continue;
    moved = moved || axis != order.size();
    order.push_back(axis);
  }
  shape.push_back(reduced);
  return reshape(moved ? permute(x, order) : x, shape);
}

Tensor spread(const Tensor& g, const Shape& shape, uint32_t mask) { return expand(reshape(g, reduced_shape(shape, mask, true)), shape); }

std::vector<Sample> reduce_samples(Rng& rng, bool empty_allowed) {
  const auto over = [](Axes axes, bool keepdim = false) { return attrs_ptr(ReduceAttrs{axes, keepdim}); };
  std::vector<Sample> all{{"all", {rng.normal({3, 5})}, over({})},
                          {"last axis", {rng.normal({3, 37})}, over(-1)},
                          {"first axis", {rng.normal({11, 5})}, over(0)},
                          {"middle axis, kept", {rng.normal({2, 7, 3})}, over(1, true)},
                          {"outer axes", {rng.normal({3, 4, 5})}, over({0, 1})},
                          {"first and last", {rng.normal({3, 4, 5})}, over({-1, 0}, true)},
                          {"axes of size 1", {rng.normal({1, 4, 1})}, over({0, 2})},
                          {"several chunks", {rng.normal({33000})}, over(0)},
                          {"several chunks of rows", {rng.normal({3000, 40})}, over(0)},
                          {"0-d", {rng.normal({})}, over({})},
                          {"no outputs", {rng.normal({0, 3})}, over(1)}};
  all[7].check_gradient = all[8].check_gradient = false;
  if (empty_allowed) all.push_back({"of nothing", {rng.normal({2, 0})}, over(1)});
  return all;
}

std::vector<BadSample> reduce_bad(std::string_view op) {
  return {
      {"range", {zeros({2, 3})}, attrs_ptr(ReduceAttrs{2, false}), concat(op, ": axis 2 is out of range for shape [2, 3]")},
      {"twice", {zeros({2, 3})}, attrs_ptr(ReduceAttrs{{1, -1}, false}), concat(op, ": axes [1, -1] name an axis of shape [2, 3] twice")}};
}

}  // namespace spool::detail
