#pragma once
// The same elements under another shape. All keep nothing, and are views unless noted.
#include <spool/tensor/tensor.h>

namespace spool {

/// The elements of x in row-major order under another shape; one size may be -1 and is worked out. A view when the strides allow it
/// (always for contiguous x), otherwise a copy. Throws ShapeError naming both shapes when the numbers of elements differ.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Axes first … last (inclusive) made into one: flatten of [2, 3, 4] is [24], flatten(x, 1) is [2, 12]. A 0-d tensor becomes [1].
Tensor flatten(const Tensor& x, int first = 0, int last = -1);
/// Without axis `axis`, whose size must be 1 (ShapeError).
Tensor squeeze(const Tensor& x, int axis);
/// Without any axis of size 1.
Tensor squeeze(const Tensor& x);
/// With a new axis of size 1 at `axis` of the result: unsqueeze of [3] at 0 is [1, 3], at -1 is [3, 1].
Tensor unsqueeze(const Tensor& x, int axis);
/// x itself when it is contiguous, otherwise a contiguous copy. Known to the tape (`contiguous_copy` of tensor/copy.h is not).
Tensor contiguous(const Tensor& x);

/// Axes in another order: axis i of the result is axis order[i] of x. Negative axes count from the end. ShapeError unless each axis occurs
/// once.
Tensor permute(const Tensor& x, const Dims& order);
/// Axes a and b exchanged.
Tensor transpose(const Tensor& x, int a = -2, int b = -1);
/// The elements along an axis in the opposite order.
Tensor flip(const Tensor& x, int axis);
/// The same along several axes.
Tensor flip(const Tensor& x, const Dims& axes);

}  // namespace spool
