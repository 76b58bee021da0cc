#pragma once
// Choice by a condition.
#include <spool/tensor/tensor.h>

namespace spool {
/// a where `condition` (bool) holds, b elsewhere; the three broadcast together, a and b have one type. The branch that was not taken gets
/// gradient 0 from this op; but 0 times an infinite slope further up is NaN, so mask the argument of a function before it leaves its domain:
/// sqrt(where(x > 0, x, 1)) and then where again. Keeps the condition.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// x where `mask` is false, `value` where it is true.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
}  // namespace spool
