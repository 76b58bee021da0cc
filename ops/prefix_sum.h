#pragma once
// The prefix sum, PS(·) of the SLiM paper.
#include <spool/tensor/tensor.h>

namespace spool {
struct PrefixSumOptions {
  bool reverse = false;    ///< Sum from the end.
  bool exclusive = false;  ///< Leave out the element itself.
};
/// y[i] = Σ_{j ≤ i} x[j] along an axis, in the order of the axis; 16-bit floats add in f32. Float types. Its gradient is the prefix sum of
/// the cotangent in the other direction. Keeps nothing.
Tensor prefix_sum(const Tensor& x, int axis, PrefixSumOptions options = {});
}  // namespace spool
