// Reductions, scans and choices along axes.
#include "translate.h"

namespace spool::onnx_test {
namespace {

using V = const Vector&;

/// Axes as an attribute or, in newer nodes, as an input; none means all.
Axes axes_of(V v) {
  const auto given = v.has(1) ? v.numbers(1) : v.attributes.integers("axes");
  return Axes(Dims(std::span(given)));
}
bool keeps(V v) { return v.attributes.integer("keepdims", 1) != 0; }
Translation reduction(Tensor (*f)(const Tensor&, const Axes&, bool)) {
  return [f](V v) {
    const Axes axes = axes_of(v);
    if (axes.empty() && v.attributes.integer("noop_with_empty_axes")) return Tensors{v.in()};
    return Tensors{f(v.in(), axes, keeps(v))};
  };
}
Tensor sum_of_magnitudes(const Tensor& x, const Axes& axes, bool keepdim) { return sum(abs(x), axes, keepdim); }
Tensor sum_of_squares(const Tensor& x, const Axes& axes, bool keepdim) { return sum(square(x), axes, keepdim); }
Tensor log_of_sum(const Tensor& x, const Axes& axes, bool keepdim) { return log(sum(x, axes, keepdim)); }

/// The last of equal ones is the first from the other end.
template <Tensor (*f)(const Tensor&, int, bool)>
Tensors extreme_place(V v) {
  const int axis = axis_of(v, 0);
  if (!v.attributes.integer("select_last_index")) return {f(v.in(), axis, keeps(v))};
  return {rsub_scalar(double(v.in().size(axis) - 1), f(flip(v.in(), axis), axis, keeps(v)))};
}

Tensors prefix(V v) {
  return {prefix_sum(v.in(), int(v.in(1).item()), {.reverse = v.attributes.integer("reverse") != 0, .exclusive = v.attributes.integer("exclusive") != 0})};
}
Tensors top(V v) {
  const auto [values, indices] = topk(v.in(), v.numbers(1).at(0), axis_of(v, -1), v.attributes.integer("largest", 1) != 0);
  return {values, indices};
}
/// 1 at the largest element along an axis.
Tensors hardmax(V v) {
  const int axis = normalize_axis("hardmax", axis_of(v, -1), v.in().shape());
  const Tensor hot = one_hot(argmax(v.in(), axis), v.in().size(axis), v.in().dtype());
  Dims order;
  for (int i = 0; i < hot.dims() - 1; ++i) order.push_back(i);
  order.insert(axis, hot.dims() - 1);
  return {permute(hot, order)};
}

[[maybe_unused]] const bool added = add_translations({
    {"ReduceSum", reduction(sum)},
    {"ReduceMean", reduction(mean)},
    {"ReduceProd", reduction(prod)},
    {"ReduceMax", reduction(amax)},
    {"ReduceMin", reduction(amin)},
    {"ReduceL1", reduction(sum_of_magnitudes)},
    {"ReduceL2", reduction(norm)},
    {"ReduceSumSquare", reduction(sum_of_squares)},
    {"ReduceLogSum", reduction(log_of_sum)},
    {"ReduceLogSumExp", reduction(logsumexp)},
    {"ArgMax", extreme_place<argmax>},
    {"ArgMin", extreme_place<argmin>},
    {"CumSum", prefix},
    {"TopK", top},
    {"Hardmax", hardmax},
    {"Softmax", [](V v) { return Tensors{softmax(v.in(), axis_of(v, -1))}; }},
    {"LogSoftmax", [](V v) { return Tensors{log_softmax(v.in(), axis_of(v, -1))}; }},
    {"GlobalAveragePool", [](V v) { return Tensors{mean(v.in(), {2, 3}, true)}; }},
    {"GlobalMaxPool", [](V v) { return Tensors{amax(v.in(), {2, 3}, true)}; }},
});

}  // namespace
}  // namespace spool::onnx_test
