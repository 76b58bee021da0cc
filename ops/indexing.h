#pragma once
// Elements chosen by index tensors. Indices are u8, i32 or i64 (DtypeError); each must be in [0, size of the axis), and negative ones are
// refused: IndexError names the index, its position among the indices and the size. Sums over repeated indices are formed in the order of
// the indices, bf16 and f16 in f32, so the result is the same for any number of threads. An axis out of range throws ShapeError.
#include <spool/ops/values_and_indices.h>
#include <spool/tensor/tensor.h>

namespace spool {

/// y[… i …] = x[… index[… i …] …] along the axis, all types. The index has as many axes as x and the shape of the result; along the other
/// axes it may be shorter (ShapeError). Keeps the index.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
/// The same by NumPy's name and order; the other axes of x and index broadcast.
Tensor take_along(const Tensor& x, const Tensor& index, int axis);
/// x with y[… index[… i …] …] += source[… i …] along the axis. Source and index have one shape, which may be shorter than x along the other
/// axes (ShapeError). Floats and integers; source has the type of x (DtypeError). Keeps the index if source wants a gradient.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source);

/// The slices of x at these positions of the axis, in their order: the axis becomes as long as the index, which has one axis. All types.
/// Keeps the index.
Tensor index_select(const Tensor& x, int axis, const Tensor& index);
/// x with slice i of source added at position index[i] of the axis. Source has the shape of x but for the axis, which is as long as the
/// index (ShapeError). Floats and integers of one type (DtypeError). Keeps the index if source wants a gradient.
Tensor index_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source);

/// The elements along the axis in ascending (descending) order and their positions (i64). Equal ones keep their order; NaN counts as
/// largest. All types. The gradient goes back to the positions. Keeps the indices.
ValuesAndIndices sort(const Tensor& x, int axis = -1, bool descending = false);
/// The positions alone.
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);
/// The k largest (smallest) elements along the axis, in order, and their positions (i64); of equal ones the first come first, and NaN
/// counts as largest. All types. The gradient goes back to the positions. Keeps the indices. Throws ShapeError unless 0 ≤ k ≤ size.
ValuesAndIndices topk(const Tensor& x, int64_t k, int axis = -1, bool largest = true);

}  // namespace spool
