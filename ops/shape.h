#pragma once
// Other arrangements of the same elements. All but `contiguous`, `concat` and a reshape of scattered elements are views: no bytes move,
// and writes show through. Axes may be negative. Every element type. Nothing is kept for backward.
#include <spool/tensor/tensor.h>

#include <limits>
#include <vector>

namespace spool {

/// The same elements in row-major order under another shape; one size may be −1 and is worked out. ShapeError names both shapes.
Tensor reshape(const Tensor& x, Shape shape);
Tensor flatten(const Tensor& x, int first = 0, int last = -1);  ///< Axes first … last become one.
Tensor squeeze(const Tensor& x, int axis);                      ///< Removes an axis of size 1.
Tensor unsqueeze(const Tensor& x, int axis);                    ///< Adds an axis of size 1 before `axis` (−1: at the end).
/// Repeats axes of size 1 (and new leading axes) to fit `shape`, without copying. Its gradient sums over them.
Tensor expand(const Tensor& x, const Shape& shape);
Tensor permute(const Tensor& x, const std::vector<int>& axes);  ///< Axis i of the result is axis axes[i] of x.
Tensor transpose(const Tensor& x, int a, int b);                ///< Swaps two axes.
/// Elements begin, begin + step, … < end along an axis. Negative bounds count from the end; bounds are clamped, as in Python.
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end = std::numeric_limits<int64_t>::max(), int64_t step = 1);
Tensor narrow(const Tensor& x, int axis, int64_t begin, int64_t length);  ///< slice that must lie inside; ShapeError otherwise.
Tensor select(const Tensor& x, int axis, int64_t index);                  ///< One index of an axis, which disappears.
Tensor flip(const Tensor& x, int axis);                                   ///< Reversed along an axis.
std::vector<Tensor> split(const Tensor& x, int64_t size, int axis = 0);   ///< Pieces of `size`; the last may be shorter.
/// The sum of x over the axes that `expand` to x's shape would repeat: the inverse of expand in shape, its transpose as a map.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace spool
