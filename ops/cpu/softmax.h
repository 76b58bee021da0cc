#pragma once
// One row of softmax and its kin. Sums run in 16 lanes, whatever the width of the machine's vectors.
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/cpu/vec_math.h>

#include <limits>

namespace spool::kernels {

/// Largest element of a row and Σ e^(x − largest). A row of −∞ (or of nothing) has top −∞ and sum 0, and NaN as the sum when NaN is in it.
template <class C>
struct Moments {
  C top, sum;
};

template <class C>
SPOOL_INLINE C join_lanes(C* lanes) {
  for (int width = 8; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  return lanes[0];
}

template <class T, class C>
SPOOL_CLONES Moments<C> row_moments(const T* __restrict x, int64_t n) {
  constexpr int lanes = 16;
  constexpr C bottom = -std::numeric_limits<C>::infinity();
  C top[lanes], sum[lanes];
  for (int l = 0; l < lanes; ++l) {
    top[l] = bottom;
    sum[l] = 0;
  }
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int l = 0; l < lanes; ++l) top[l] = C(load(x[i + l])) > top[l] ? C(load(x[i + l])) : top[l];
  for (int l = 0; i < n; ++i, ++l) top[l] = C(load(x[i])) > top[l] ? C(load(x[i])) : top[l];
  C largest = top[0];
  for (int l = 1; l < lanes; ++l) largest = top[l] > largest ? top[l] : largest;
  if (largest == bottom) {
    C nan = 0;
    for (i = 0; i < n; ++i) nan += load(x[i]) != load(x[i]) ? C(load(x[i])) : C(0);
    return {largest, nan};
  }
  for (i = 0; i + lanes <= n; i += lanes)
    for (int l = 0; l < lanes; ++l) sum[l] += vexp(C(load(x[i + l])) - largest);
  for (int l = 0; i < n; ++i, ++l) sum[l] += vexp(C(load(x[i])) - largest);
  return {largest, join_lanes(sum)};
}

template <class T, class C>
SPOOL_CLONES void softmax_row(const T* __restrict x, T* __restrict y, int64_t n, C top, C scale) {
  for (int64_t i = 0; i < n; ++i) y[i] = store<T>(vexp(C(load(x[i])) - top) * scale);
}
/// (x − top) − log_sum: the two are subtracted apart, so that rows of large numbers keep their digits.
template <class T, class C>
SPOOL_CLONES void log_softmax_row(const T* __restrict x, T* __restrict y, int64_t n, C top, C log_sum) {
  for (int64_t i = 0; i < n; ++i) y[i] = store<T>((C(load(x[i])) - top) - log_sum);
}
/// y·(g − Σ g·y)
template <class T, class C>
SPOOL_CLONES void softmax_backward_row(const T* __restrict g, const T* __restrict y, T* __restrict dx, int64_t n) {
  C sum[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) sum[l] += C(load(g[i + l])) * C(load(y[i + l]));
  for (int l = 0; i < n; ++i, ++l) sum[l] += C(load(g[i])) * C(load(y[i]));
  const C dot = join_lanes(sum);
  for (i = 0; i < n; ++i) dx[i] = store<T>(C(load(y[i])) * (C(load(g[i])) - dot));
}
/// g − e^y·Σ g
template <class T, class C>
SPOOL_CLONES void log_softmax_backward_row(const T* __restrict g, const T* __restrict y, T* __restrict dx, int64_t n) {
  C sum[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) sum[l] += C(load(g[i + l]));
  for (int l = 0; i < n; ++i, ++l) sum[l] += C(load(g[i]));
  const C total = join_lanes(sum);
  for (i = 0; i < n; ++i) dx[i] = store<T>(C(load(g[i])) - vexp(C(load(y[i]))) * total);
}
/// g·e^(x − y) for one g and one y.
template <class T, class C>
SPOOL_CLONES void logsumexp_backward_row(C g, const T* __restrict x, C y, T* __restrict dx, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dx[i] = store<T>(g * vexp(C(load(x[i])) - y));
}

}  // namespace spool::kernels
