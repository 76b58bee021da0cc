#pragma once
// Loops over one, two or three strided operands, elementwise. The functor states the arithmetic of one element; 16-bit floats are computed
// in float. Operands of stride 0 (what `expand` makes) are read once a run, contiguous ones run in vector code.
#include <spool/ops/cpu/clones.h>
#include <spool/tensor/dtype.h>
#include <spool/tensor/strided.h>
#include <spool/tensor/tensor.h>

namespace spool::kernels {

template <class S>
inline constexpr bool is_16_bit = std::is_same_v<S, bfloat16> || std::is_same_v<S, float16>;
/// The type in which elements of S are computed.
template <class S>
using compute_t = std::conditional_t<is_16_bit<S>, float, S>;

template <class S>
SPOOL_INLINE compute_t<S> load(S value) {
  return static_cast<compute_t<S>>(value);
}
template <class R, class C>
SPOOL_INLINE R store(C value) {
  return static_cast<R>(value);
}

template <class F, class S, class R>
SPOOL_CLONES void run1(F f, const S* __restrict x, R* __restrict y, int64_t n, int64_t sx) {
  if (sx == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = store<R>(f(load(x[i])));
  } else if (sx == 0) {
    const R value = store<R>(f(load(x[0])));
    for (int64_t i = 0; i < n; ++i) y[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = store<R>(f(load(x[i * sx])));
  }
}

template <class F, class A, class B, class R>
SPOOL_CLONES void run2(F f, const A* __restrict a, const B* __restrict b, R* __restrict y, int64_t n, int64_t sa, int64_t sb) {
  if (sa == 1 && sb == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = store<R>(f(load(a[i]), load(b[i])));
  } else if (sa == 1 && sb == 0) {
    const auto fixed = load(b[0]);
    for (int64_t i = 0; i < n; ++i) y[i] = store<R>(f(load(a[i]), fixed));
  } else if (sa == 0 && sb == 1) {
    const auto fixed = load(a[0]);
    for (int64_t i = 0; i < n; ++i) y[i] = store<R>(f(fixed, load(b[i])));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = store<R>(f(load(a[i * sa]), load(b[i * sb])));
  }
}

template <class F, class A, class B, class C, class R>
SPOOL_CLONES void run3(F f, const A* __restrict a, const B* __restrict b, const C* __restrict c, R* __restrict y, int64_t n, int64_t sa,
                       int64_t sb, int64_t sc) {
  if (sa == 1 && sb == 1 && sc == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = store<R>(f(load(a[i]), load(b[i]), load(c[i])));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = store<R>(f(load(a[i * sa]), load(b[i * sb]), load(c[i * sc])));
  }
}

/// y[…] = f(x[…]); y is contiguous.
template <class S, class R, class F>
void map1(const Tensor& y, const Tensor& x, F f) {
  if (y.numel() == 0) return;
  R* to = static_cast<R*>(y.raw());
  const S* from = static_cast<const S*>(x.raw());
  StridedLoop<2>(y.shape(), {y.strides(), x.strides()}).run([&](const auto& at, int64_t n, const auto& step) {
    run1<F, S, R>(f, from + at[1], to + at[0], n, step[1]);
  });
}

/// y[…] = f(a[…], b[…]); y is contiguous.
template <class A, class B, class R, class F>
void map2(const Tensor& y, const Tensor& a, const Tensor& b, F f) {
  if (y.numel() == 0) return;
  R* to = static_cast<R*>(y.raw());
  const A* pa = static_cast<const A*>(a.raw());
  const B* pb = static_cast<const B*>(b.raw());
  StridedLoop<3>(y.shape(), {y.strides(), a.strides(), b.strides()}).run([&](const auto& at, int64_t n, const auto& step) {
    run2<F, A, B, R>(f, pa + at[1], pb + at[2], to + at[0], n, step[1], step[2]);
  });
}

/// y[…] = f(a[…], b[…], c[…]); y is contiguous.
template <class A, class B, class C, class R, class F>
void map3(const Tensor& y, const Tensor& a, const Tensor& b, const Tensor& c, F f) {
  if (y.numel() == 0) return;
  R* to = static_cast<R*>(y.raw());
  const A* pa = static_cast<const A*>(a.raw());
  const B* pb = static_cast<const B*>(b.raw());
  const C* pc = static_cast<const C*>(c.raw());
  StridedLoop<4>(y.shape(), {y.strides(), a.strides(), b.strides(), c.strides()}).run([&](const auto& at, int64_t n, const auto& step) {
    run3<F, A, B, C, R>(f, pa + at[1], pb + at[2], pc + at[3], to + at[0], n, step[1], step[2], step[3]);
  });
}

}  // namespace spool::kernels
