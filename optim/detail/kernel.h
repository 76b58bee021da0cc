#pragma once
// Shared by the update rules: the weight of an element where a master copy may stand behind it, and the walk over a parameter in blocks.
// Private to the optimizers.
#include <spool/ops/cpu/clones.h>
#include <spool/tensor/dtype.h>
#include <spool/tensor/parallel.h>
#include <spool/tensor/tensor.h>

#include <cstdint>
#include <type_traits>

namespace spool::detail {

template <class P>
inline constexpr bool has_master = sizeof(P) == 2;
/// Type of state and arithmetic for parameters of type P.
template <class P>
using state_t = std::conditional_t<std::is_same_v<P, double>, double, float>;

/// The exact weight. A parameter that is not the rounding of its master was written by someone else, and then it is what counts.
template <class P>
SPOOL_INLINE state_t<P> weight(P parameter, state_t<P> master) {
  if constexpr (has_master<P>) {
    const auto value = static_cast<float>(parameter);
    return P(master).bits == parameter.bits ? master : value;
  } else {
    return parameter;
  }
}

inline constexpr int64_t block = 16384;  ///< Elements that one task updates.

/// Calls f.template operator()<P, G>(begin, end) over blocks of a parameter of type P with gradients of type G.
template <class F>
void for_blocks(const char* op, const Tensor& parameter, const Tensor& gradient, F&& f) {
  visit_float(op, parameter.dtype(), [&]<class P>() {
    parallel_range(parameter.numel(), block, [&](int64_t begin, int64_t end) {
      if constexpr (has_master<P>) {
        if (gradient.dtype() == Dtype::f32) return f.template operator()<P, float>(begin, end);
      }
      f.template operator()<P, P>(begin, end);
    });
  });
}

/// Pointer to element `begin` of a contiguous tensor, null when it is undefined.
template <class T>
T* at(const Tensor& t, int64_t begin) {
  return t.defined() ? static_cast<T*>(t.raw()) + begin : nullptr;
}

}  // namespace spool::detail
