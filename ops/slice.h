#pragma once
// Parts of a tensor along one axis, as views. They keep nothing. In backward the gradients of several slices of one tensor are gathered in
// place in one buffer, so that walking over n slices costs one pass over the tensor and not n.
#include <spool/tensor/tensor.h>

#include <limits>

namespace spool {

inline constexpr int64_t slice_end = std::numeric_limits<int64_t>::max();

/// Elements begin, begin + step, … before `end` along `axis`, as x[begin:end:step] in Python: negative positions count from the end, and
/// positions outside are moved to the nearest edge. A negative step goes down to the element after `end`, with slice_end to the first one:
/// slice(x, 0, -1, slice_end, -2) is x[::-2]. Throws ShapeError when step is 0.
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end = slice_end, int64_t step = 1);
/// `length` elements from `start`. Throws ShapeError when they leave the axis.
Tensor narrow(const Tensor& x, int axis, int64_t start, int64_t length);
/// Element `index` along `axis`, without that axis; negative counts from the end. Throws IndexError outside.
Tensor select(const Tensor& x, int axis, int64_t index);
/// Consecutive slices of `size` elements, the last one shorter where it does not divide; none of an empty axis.
Tensors split(const Tensor& x, int64_t size, int axis = 0);
/// Consecutive slices of these sizes, which must add up to the axis (ShapeError).
Tensors split(const Tensor& x, const Dims& sizes, int axis = 0);
/// At most `count` consecutive slices of one size, the last one shorter where it does not divide: 5 elements in 4 are 2, 2 and 1, as in
/// PyTorch. Throws ShapeError when count < 1.
Tensors chunk(const Tensor& x, int64_t count, int axis = 0);

}  // namespace spool
