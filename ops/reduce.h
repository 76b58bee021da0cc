#pragma once
// Reductions over any axes (none given: all). `keepdim` leaves reduced axes with size 1. Sums run in f64 for f32 and f64, in f32 for 16-bit
// floats, in blocks that do not depend on the number of threads.
#include <spool/tensor/tensor.h>

#include <vector>

namespace spool {

Tensor sum(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);   ///< Float types. Keeps nothing. Of nothing: 0.
Tensor mean(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);  ///< Keeps nothing. Of nothing: NaN.
/// Product; its gradient does not divide, so zeros are fine. Keeps the input.
Tensor prod(const Tensor& x, int axis, bool keepdim = false);
/// Largest / smallest. Ties share the gradient equally. Keeps the input and the output. Of nothing: ShapeError.
Tensor amax(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);
/// Mean squared deviation, two passes; divided by n − correction.
Tensor var(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false, double correction = 1);
/// Index (i64) of the first largest / smallest element along an axis; NaN counts as largest. No gradient.
Tensor argmax(const Tensor& x, int axis, bool keepdim = false);
Tensor argmin(const Tensor& x, int axis, bool keepdim = false);

}  // namespace spool
