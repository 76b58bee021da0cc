#pragma once
// Sums and maxima inside of functions that are compiled for several instruction sets. Private to ops/.
#include <spool/ops/cpu/clones.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace spool::kernels {

inline constexpr int64_t lane_run = 512;  ///< Elements that are summed in C before the sum is added to others in double.

/// Lanes of a fold whose step is short: four of the widest vectors, since one alone would wait for its own sum.
template <class C>
inline constexpr int many_lanes = 256 / int(sizeof(C));

template <int width, class C, class Join>
SPOOL_INLINE C join_lanes(C* lane, Join join) {
  for (int l = 0; l < width; ++l) lane[l] = join(lane[l], lane[l + width]);
  if constexpr (width > 1) return join_lanes<width / 2>(lane, join);
  return lane[0];
}

/// Σ f(i) for i in [begin, end), or what `join` makes of them instead of the sum, in vector lanes of C: element begin + i goes to lane i % lanes.
/// f and join are marked always_inline, so that they are compiled for the caller's instructions.
template <int lanes, class C, class F, class Join>
SPOOL_INLINE C lane_fold(int64_t begin, int64_t end, C identity, F f, Join join) {
  C lane[lanes];
  for (int l = 0; l < lanes; ++l) lane[l] = identity;
  int64_t i = begin;
  for (const int64_t whole = begin + (end - begin) / lanes * lanes; i < whole; i += lanes)
    for (int l = 0; l < lanes; ++l) lane[l] = join(lane[l], f(i + l));
  for (int l = 0; i < end; ++i, ++l) lane[l] = join(lane[l], f(i));
  return join_lanes<lanes / 2>(lane, join);
}

template <class C, int lanes = many_lanes<C>, class F>
SPOOL_INLINE C lane_sum(int64_t begin, int64_t end, F f) {
  return lane_fold<lanes>(begin, end, C(0), f, [](C a, C b) __attribute__((always_inline)) { return a + b; });
}
/// The largest; NaN is passed over. -inf of nothing.
template <class C, class F>
SPOOL_INLINE C lane_max(int64_t begin, int64_t end, F f) {
  return lane_fold<many_lanes<C>>(begin, end, -std::numeric_limits<C>::infinity(), f,
                                  [](C a, C b) __attribute__((always_inline)) { return b > a ? b : a; });
}

}  // namespace spool::kernels
