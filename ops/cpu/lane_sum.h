#pragma once
// Sums inside of functions that are compiled for several instruction sets. Private to ops/.
#include <spool/ops/cpu/clones.h>

#include <algorithm>
#include <cstdint>

namespace spool::kernels {

inline constexpr int64_t lane_run = 512;  ///< Elements that are summed in C before the sum is added to others in double.

/// Σ f(i) for i in [begin, end), in 16 vector lanes of C. f is marked always_inline, so that it is compiled for the caller's instructions.
template <class C, class F>
SPOOL_INLINE C lane_sum(int64_t begin, int64_t end, F f) {
  constexpr int lanes = 16;
  C lane[lanes] = {};
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes)
    for (int l = 0; l < lanes; ++l) lane[l] += f(i + l);
  for (; i < end; ++i) lane[i % lanes] += f(i);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

}  // namespace spool::kernels
