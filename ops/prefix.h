#pragma once
// Scans along an axis: element i of the result is made from elements 0 … i. They run in the order of the axis, in O(n), forward and
// backward; bf16 and f16 are accumulated in f32. The result has the shape of x. A 0-d tensor or an axis out of range throws ShapeError.
#include <spool/tensor/tensor.h>

namespace spool {

struct PrefixOptions {
  bool reverse = false;    ///< From the end: element i is made from elements i … n-1.
  bool exclusive = false;  ///< Leave out the element itself; the first one is then the identity of the operation.
};

/// y[i] = Σ_{j ≤ i} x[j], PS(·) of the SLiM paper. Integers and bool give i64. Its gradient is the prefix sum of the cotangent in the other
/// direction. Keeps nothing.
Tensor prefix_sum(const Tensor& x, int axis, PrefixOptions options = {});
/// y[i] = Π_{j ≤ i} x[j]. Integers and bool give i64. Its gradient divides by nothing, so zeros among the factors are fine. Keeps x.
Tensor prefix_prod(const Tensor& x, int axis, PrefixOptions options = {});
/// y[i] = log Σ_{j ≤ i} e^x[j], float types. Nothing overflows. Where all of x[0 … i] is −∞ (a masked prefix), or there is none, it is −∞
/// and passes no gradient. Keeps x, and the result unless exclusive.
Tensor logcumsumexp(const Tensor& x, int axis, PrefixOptions options = {});
/// y[i] = max_{j ≤ i} x[j], all types; NaN from the first NaN on. Of nothing: −∞, or the lowest integer. The gradient of y[i] goes to the
/// first element, in the direction of the scan, that has this value. Keeps the positions (i64).
Tensor prefix_max(const Tensor& x, int axis, PrefixOptions options = {});
/// y[i] = min_{j ≤ i} x[j], all types; NaN from the first NaN on. Of nothing: ∞, or the highest integer. Gradient as for prefix_max. Keeps
/// the positions (i64).
Tensor prefix_min(const Tensor& x, int axis, PrefixOptions options = {});

/// h[i] = a[i]·h[i-1] + b[i] with h[-1] = 0; from the end (h[i] = a[i]·h[i+1] + b[i]) when `reverse`. a and b have one shape and float type
/// (ShapeError, DtypeError). Keeps a, and the result if a wants a gradient.
Tensor linear_recurrence(const Tensor& a, const Tensor& b, int axis, bool reverse = false);

}  // namespace spool
