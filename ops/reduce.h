#pragma once
// Reductions over any axes. Float sums are formed in blocks of vector lanes that are joined in double, in an order fixed by the shape: the
// result is the same for any number of threads. bf16 and f16 accumulate in f32 or better.
#include <spool/ops/values_and_indices.h>
#include <spool/tensor/tensor.h>

#include <vector>

namespace spool {

/// The axes that a reduction removes: none given means all, `2`, `-1` or `{0, 2}` name them. Out of range or named twice throws ShapeError.
struct Axes : Dims {
  Axes() = default;
  Axes(int axis) : Dims{int64_t(axis)} {}  // NOLINT: sum(x, 1) is meant to work
  Axes(std::initializer_list<int64_t> axes) : Dims(axes) {}
  explicit Axes(const Dims& axes) : Dims(axes) {}
  Axes(const std::vector<int>& axes) {
    for (const int axis : axes) push_back(axis);
  }  // NOLINT
};

// With keepdim the removed axes stay, with size 1. Without axes the result has shape [].

Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);   ///< Integers and bool give i64. Of nothing: 0. Keeps nothing.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);  ///< Float types. Of nothing: NaN. Keeps nothing.
/// The largest element; NaN if one is. Ties share the gradient equally. Of nothing: ShapeError. Keeps x and the result.
Tensor amax(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// The smallest element; NaN if one is. Ties share the gradient equally. Of nothing: ShapeError. Keeps x and the result.
Tensor amin(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// The product, float types. Its gradient divides by nothing, so zeros among the factors are fine. Of nothing: 1. Keeps x.
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
/// Σ (x - mean)² / (n - correction), float types, formed in two passes. Of n ≤ correction elements: NaN or inf. Keeps x.
Tensor var(const Tensor& x, const Axes& axes = {}, bool keepdim = false, double correction = 1);
/// √var, with gradient 0 where it is 0. Keeps x, the result and where it is 0.
Tensor stddev(const Tensor& x, const Axes& axes = {}, bool keepdim = false, double correction = 1);
/// √Σx², float types, with gradient 0 where the norm is 0. Keeps x and the result.
Tensor norm(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdim = false);  ///< bool: whether one is true. Of nothing: false.
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdim = false);  ///< bool: whether all are true. Of nothing: true.

/// i64 position of the largest (smallest) element along an axis: the first of equal ones; NaN counts as largest (smallest). Of nothing:
/// ShapeError.
Tensor argmax(const Tensor& x, int axis = -1, bool keepdim = false);
Tensor argmin(const Tensor& x, int axis = -1, bool keepdim = false);
/// The largest (smallest) element along an axis and its position, as argmax (argmin) chooses it. All of the gradient goes to that position,
/// while amax shares it among equals. Keeps the indices. Of nothing: ShapeError.
ValuesAndIndices max(const Tensor& x, int axis = -1, bool keepdim = false);
ValuesAndIndices min(const Tensor& x, int axis = -1, bool keepdim = false);

}  // namespace spool
