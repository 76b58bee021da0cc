#pragma once
// Activations and their derivatives, once, for the pointwise ops and for the epilogue of the matrix product. T is float or double; the
// float versions vectorise (vec_math.h). With Φ and φ the distribution and density of the standard normal:
//   gelu_erf   x Φ(x)                                        derivative Φ(x) + x φ(x)
//   gelu_tanh  x σ(2u), u = √(2/π) (x + 0.044715 x³)         equal to ½ x (1 + tanh u), the usual form
//   silu       x σ(x)                                        derivative σ(x) (1 + x (1 - σ(x)))
// At x = -inf the three give NaN (an infinity times zero), as the formulas do.
#include <cstdint>

#include <spool/ops/cpu/vec_math.h>

namespace spool::kernels {

enum class Activation : uint8_t { none, relu, gelu_erf, gelu_tanh, silu };

/// x above 0, else 0; and the rest, with x = positive_part + negative_part. By the sign bit: a comparison here keeps g++ from vectorising.
SPOOL_INLINE float positive_part(float x) {
  const auto u = std::bit_cast<int32_t>(x);
  return std::bit_cast<float>(u & ~(u >> 31));
}
SPOOL_INLINE float negative_part(float x) {
  const auto u = std::bit_cast<int32_t>(x);
  return std::bit_cast<float>(u & (u >> 31));
}
SPOOL_INLINE double positive_part(double x) { return x < 0 ? 0 : x; }
SPOOL_INLINE double negative_part(double x) { return x < 0 ? x : 0; }

template <class T>
SPOOL_INLINE T relu(T x) {
  return x < T(0) ? T(0) : x;
}  ///< NaN stays NaN.
template <class T>
SPOOL_INLINE T relu_derivative(T x) {
  return x > T(0) ? T(1) : T(0);
}  ///< 0 at 0.

/// Φ(x) = ½ erfc(-x/√2). The float one is e^Q(|x|) below 0 and 1 - e^Q(|x|) above, with Q a polynomial for ln Φ(-|x|) that goes on falling
/// where it no longer fits: within 1e-7 everywhere.
SPOOL_INLINE float normal_cdf(float x) {
  const float a = detail::absolute(x);
  float q = -1.166120155e-6f * a + 1.814705263e-5f;
  q = q * a - 8.783141838e-5f;
  q = q * a - 1.883850523e-4f;
  q = q * a + 5.009161599e-3f;
  q = q * a - 3.645912293e-2f;
  q = q * a - 3.182775045e-1f;
  q = q * a - 7.978876979e-1f;
  q = q * a - 6.931471326e-1f;
  const float tail = detail::exp_within(q < -88.0f ? -88.0f : q);
  return x < 0.0f ? tail : 1.0f - tail;
}
SPOOL_INLINE double normal_cdf(double x) { return 0.5 * std::erfc(x * -0.70710678118654752440); }

template <class T>
SPOOL_INLINE T gelu_erf(T x) {
  return x * normal_cdf(x);
}
/// φ(x) = e^(-x²/2)/√(2π)
SPOOL_INLINE float normal_density(float x) {
  const float e = -0.5f * x * x;
  return 0.398942280f * detail::exp_within(e < -88.0f ? -88.0f : e);
}
SPOOL_INLINE double normal_density(double x) { return 0.39894228040143267794 * std::exp(-0.5 * x * x); }
template <class T>
SPOOL_INLINE T gelu_erf_derivative(T x) {
  return normal_cdf(x) + x * normal_density(x);
}

namespace detail {
inline constexpr double gelu_scale = 2 * 0.79788456080286535588;  // 2 √(2/π)
inline constexpr double gelu_cubic = 0.044715;
template <class T>
SPOOL_INLINE T gelu_gate(T x) {
  return vsigmoid(T(gelu_scale) * x * (T(1) + T(gelu_cubic) * x * x));
}
}  // namespace detail

template <class T>
SPOOL_INLINE T gelu_tanh(T x) {
  return x * detail::gelu_gate(x);
}
template <class T>
SPOOL_INLINE T gelu_tanh_derivative(T x) {
  const T s = detail::gelu_gate(x);
  return s + x * (s * (T(1) - s)) * (T(detail::gelu_scale) * (T(1) + T(3 * detail::gelu_cubic) * x * x));
}

template <class T>
SPOOL_INLINE T silu(T x) {
  return x * vsigmoid(x);
}
template <class T>
SPOOL_INLINE T silu_derivative(T x) {
  const T s = vsigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}

/// One activation chosen when the loop is compiled: `activate<Activation::silu>(x)`.
template <Activation A, class T>
SPOOL_INLINE T activate(T x) {
  if constexpr (A == Activation::relu) return relu(x);
  if constexpr (A == Activation::gelu_erf) return gelu_erf(x);
  if constexpr (A == Activation::gelu_tanh) return gelu_tanh(x);
  if constexpr (A == Activation::silu) return silu(x);
  return x;
}
template <Activation A, class T>
SPOOL_INLINE T activate_derivative(T x) {
  if constexpr (A == Activation::relu) return relu_derivative(x);
  if constexpr (A == Activation::gelu_erf) return gelu_erf_derivative(x);
  if constexpr (A == Activation::gelu_tanh) return gelu_tanh_derivative(x);
  if constexpr (A == Activation::silu) return silu_derivative(x);
  return T(1);
}

}  // namespace spool::kernels
