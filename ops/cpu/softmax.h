#pragma once
// One row of softmax and its kin. Sums run in a fixed number of lanes, whatever the width of the machine's vectors.
#include <spool/ops/cpu/lane_sum.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/cpu/vec_math.h>

#include <limits>

namespace spool::kernels {

/// Largest element of a row and Σ e^(x − largest). A row of −∞ (or of nothing) has top −∞ and sum 0, and NaN as the sum when NaN is in it.
template <class C>
struct Moments {
  C top, sum;
};

/// Σ e^(x − top), and e^(x − top) itself where y is given. What is below 1.2e-38 of the largest counts as 0.
template <class T, class C>
SPOOL_CLONES C exponentials(const T* __restrict x, int64_t n, C top, Fetch<T> fetch = {}) {
  return lane_sum<C, 16>(
      0, n, [=](int64_t i) __attribute__((always_inline)) { return vexp_flushed(C(load(x[i])) - top); }, fetch);
}
template <class C>
SPOOL_CLONES C exponentials(const C* __restrict x, C* __restrict y, int64_t n, C top, Fetch<C> fetch) {
  return lane_sum<C, 16>(
      0, n, [=](int64_t i) __attribute__((always_inline)) { return y[i] = vexp_flushed(x[i] - top); }, fetch);
}

template <class T, class C>
SPOOL_CLONES C row_max(const T* __restrict x, int64_t n) {
  return lane_max<C>(0, n, [=](int64_t i) __attribute__((always_inline)) { return C(load(x[i])); });
}

template <class T, class C>
Moments<C> row_moments(const T* x, int64_t n, Fetch<T> fetch = {}) {
  const C top = row_max<T, C>(x, n);
  if (top != -std::numeric_limits<C>::infinity()) return {top, exponentials<T, C>(x, n, top, fetch)};
  C nan = 0;
  for (int64_t i = 0; i < n; ++i) nan += load(x[i]) != load(x[i]) ? C(load(x[i])) : C(0);
  return {top, nan};
}

template <class T, class C>
SPOOL_CLONES void scale_row(const T* x, T* y, int64_t n, C top, C scale) {
  if constexpr (std::is_same_v<T, C>) {
    for (int64_t i = 0; i < n; ++i) y[i] *= scale;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = store<T>(vexp_flushed(C(load(x[i])) - top) * scale);
  }
}
template <class T, class C>
void softmax_row(const T* x, T* y, int64_t n, Fetch<T> fetch) {
  const C top = row_max<T, C>(x, n);
  if (top == -std::numeric_limits<C>::infinity()) return void(std::fill_n(y, n, static_cast<T>(row_moments<T, C>(x, n).sum)));
  C sum;
  if constexpr (std::is_same_v<T, C>)
    sum = exponentials<C>(x, y, n, top, fetch);
  else
    sum = exponentials<T, C>(x, n, top, fetch);
  scale_row<T, C>(x, y, n, top, C(1) / sum);
}
/// (x − top) − log_sum: the two are subtracted apart, so that rows of large numbers keep their digits.
template <class T, class C>
SPOOL_CLONES void log_softmax_row(const T* __restrict x, T* __restrict y, int64_t n, C top, C log_sum) {
  for (int64_t i = 0; i < n; ++i) y[i] = store<T>((C(load(x[i])) - top) - log_sum);
}
/// y·(g − Σ g·y)
template <class T, class C>
SPOOL_CLONES void softmax_backward_row(const T* __restrict g, const T* __restrict y, T* __restrict dx, int64_t n, Fetch<T> next_g, Fetch<T> next_y) {
  const C dot = lane_sum<C>(0, n, [=](int64_t i) __attribute__((always_inline)) { return C(load(g[i])) * C(load(y[i])); });
  each(n, [=](int64_t i) __attribute__((always_inline)) { dx[i] = store<T>(C(load(y[i])) * (C(load(g[i])) - dot)); }, next_g, next_y);
}
/// g − e^y·Σ g
template <class T, class C>
SPOOL_CLONES void log_softmax_backward_row(const T* __restrict g, const T* __restrict y, T* __restrict dx, int64_t n, Fetch<T> next_g, Fetch<T> next_y) {
  const C total = lane_sum<C>(0, n, [=](int64_t i) __attribute__((always_inline)) { return C(load(g[i])); });
  each(n, [=](int64_t i) __attribute__((always_inline)) { dx[i] = store<T>(C(load(g[i])) - vexp_flushed(C(load(y[i]))) * total); }, next_g, next_y);
}
/// g·e^(x − y) for one g and one y.
template <class T, class C>
SPOOL_CLONES void logsumexp_backward_row(C g, const T* __restrict x, C y, T* __restrict dx, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dx[i] = store<T>(g * vexp_flushed(C(load(x[i])) - y));
}

}  // namespace spool::kernels
