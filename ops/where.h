#pragma once
// Choice by a condition.
#include <spool/tensor/tensor.h>

namespace spool {

/// a where condition (bool) is true, b elsewhere; the three broadcast, a and b have one type. Keeps the condition.
/// The gradient of the side that was not taken is exactly 0 here, but an op before it may still make NaN of that 0: its rule multiplies
/// 0 by an infinite slope. Mask the argument instead: `where(x > 0, sqrt(where(x > 0, x, one)), x)` has finite gradients everywhere.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, double b);
Tensor where(const Tensor& condition, double a, const Tensor& b);

/// x with `value` where mask (bool, broadcast to x) is true. Keeps the mask.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

}  // namespace spool
