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

/// Asks for the lines of `next` while a pass over as many elements runs from the first-level cache: most rows come from further away. A pass
/// calls it before each `count` elements; null asks for nothing.
template <class T>
struct Fetch {
  const T* next = nullptr;
  template <int count>
  SPOOL_INLINE void ahead(int64_t i) const {
    if (next)
      for (int at = 0; at < count; at += std::max(1, 64 / int(sizeof(T)))) __builtin_prefetch(next + i + at);
  }
};

/// Σ f(i) for i in [begin, end), or what `join` makes of them instead of the sum, in vector lanes of C: element begin + i goes to lane i % lanes.
/// f and join are marked always_inline, so that they are compiled for the caller's instructions.
template <int lanes, class C, class F, class Join, class T = C>
SPOOL_INLINE C lane_fold(int64_t begin, int64_t end, C identity, F f, Join join, Fetch<T> fetch = {}) {
  C lane[lanes];
  for (int l = 0; l < lanes; ++l) lane[l] = identity;
  int64_t i = begin;
  for (const int64_t whole = begin + (end - begin) / lanes * lanes; i < whole; i += lanes) {
    fetch.template ahead<lanes>(i);
    for (int l = 0; l < lanes; ++l) lane[l] = join(lane[l], f(i + l));
  }
  for (int l = 0; i < end; ++i, ++l) lane[l] = join(lane[l], f(i));
  return join_lanes<lanes / 2>(lane, join);
}

template <class C, int lanes = many_lanes<C>, class F, class T = C>
SPOOL_INLINE C lane_sum(int64_t begin, int64_t end, F f, Fetch<T> fetch = {}) {
  return lane_fold<lanes>(begin, end, C(0), f, [](C a, C b) __attribute__((always_inline)) { return a + b; }, fetch);
}
/// The largest; NaN is passed over. -inf of nothing.
template <class C, class F>
SPOOL_INLINE C lane_max(int64_t begin, int64_t end, F f) {
  return lane_fold<many_lanes<C>>(begin, end, -std::numeric_limits<C>::infinity(), f,
                                  [](C a, C b) __attribute__((always_inline)) { return b > a ? b : a; });
}

/// f(i) for i in [0, n), fetching `next` meanwhile.
template <class T, class F>
SPOOL_INLINE void each(int64_t n, F f, Fetch<T> fetch, Fetch<T> other = {}) {
  constexpr int block = 64;
  int64_t i = 0;
  for (const int64_t whole = n / block * block; i < whole; i += block) {
    fetch.template ahead<block>(i);
    other.template ahead<block>(i);
    for (int l = 0; l < block; ++l) f(i + l);
  }
  for (; i < n; ++i) f(i);
}

}  // namespace spool::kernels
