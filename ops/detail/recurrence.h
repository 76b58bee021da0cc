#pragma once
// What the gradients of scans are made of. Not for users.
#include <spool/tensor/tensor.h>

namespace spool::detail {

/// linear_recurrence, or, when `late`, the one whose factor is that of the element before: h[i] = a[i-1]·h[i-1] + b[i].
Tensor recurrence(const Tensor& a, const Tensor& b, int axis, bool reverse, bool late);
/// y[i] = x[i-1], or x[i+1] when `reverse`, with `first` where there is none.
Tensor shifted(const Tensor& x, int axis, bool reverse, double first = 0);

}  // namespace spool::detail
