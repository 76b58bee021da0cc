#pragma once
// What no slice has changed yet, known exactly. Private to scan.
//
// Subtraction gives the state back to rounding only, and some states must be exact: the key sum of a feature that no key has had is 0,
// and a quotient of two such zeros is defined while a quotient of two rounding errors is anything. No tolerance can tell the two apart
// later (what rounding leaves is as large as the final state makes it), so the forward pass notes it: for each row of a state (its last
// axis), the first slice that changed the row. That is one integer for d + 1 elements, once, however many slices there are.
#include <spool/tensor/tensor.h>

namespace spool {

class Untouched {
 public:
  explicit Untouched(const Tensors& initial);
  /// States after slice `slice`, in order of slices.
  void note(const Tensors& states, int64_t slice);
  /// State i at the start of `slice`, with the rows that nothing had changed until then replaced by the initial ones.
  Tensor restore(size_t i, Tensor state, int64_t slice) const;

 private:
  Tensors initial_, first_;  // first_: i32, the first slice that changed a row
};

}  // namespace spool
