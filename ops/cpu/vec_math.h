#pragma once
// Elementary functions that g++ turns into vector code. The float versions are branch-free polynomials: in a loop inside a SPOOL_CLONES
// function they run eight (AVX2) or sixteen (AVX-512) at a time, at a fraction of the cost of the library's. The double versions call std.
//
// Needs -O3 -fno-trapping-math and forbids -ffast-math, which folds the rounding trick of `vexp` away.
//
// | function     | largest error against the exact value            | extremes                                                                |
// |--------------|--------------------------------------------------|-------------------------------------------------------------------------|
// | vexp         | 1.2e-7 relative (subnormal results: half a step) | exp(-inf) = 0, exp(x > 88.7229) = inf                                   |
// | vexp_flushed | as vexp                                          | 0 instead of subnormal numbers, inf above 88.38: for sums and quotients |
// | vlog         | 1.2e-7 relative                                  | log(±0) = -inf, log(x < 0) = NaN, log(inf) = inf, subnormals exact      |
// | vtanh        | 2e-7 relative, odd to the bit                    | ±1 beyond 9.1, keeps the sign of zero                                   |
// | verf         | 2.2e-7 relative, odd to the bit                  | ±1 beyond 4, keeps the sign of zero                                     |
// | vsigmoid     | 2.5e-7 relative above -87                        | below -88.38 the result is 0, not subnormal                             |
// | vlog1p       | 3e-7 relative                                    | -inf at -1, NaN below, keeps tiny arguments                             |
// | vexpm1       | 5e-7 relative                                    | -1 at -inf, inf above 88.7229, keeps tiny arguments                     |
// NaN gives NaN in all of them. The polynomials are least-maximum-error fits made for these intervals.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <spool/ops/cpu/clones.h>

namespace spool::kernels {

namespace detail {
SPOOL_INLINE float from_bits(uint32_t u) { return std::bit_cast<float>(u); }
SPOOL_INLINE uint32_t to_bits(float x) { return std::bit_cast<uint32_t>(x); }
/// x with the sign bit of `sign`; x must not be negative.
SPOOL_INLINE float with_sign(float x, float sign) { return from_bits(to_bits(x) | (to_bits(sign) & 0x80000000u)); }
SPOOL_INLINE float absolute(float x) { return from_bits(to_bits(x) & 0x7fffffffu); }

/// e^r - 1 for |r| ≤ ½ ln 2, and something in [-1, 0] down to r = -1.
SPOOL_INLINE float expm1_near(float r) {
  const float p = (((1.381314421e-3f * r + 8.369418867e-3f) * r + 4.166845679e-2f) * r + 1.666651479e-1f) * r + 4.999999305e-1f;
  return r + (r * r) * p;
}
/// x - n·ln 2
SPOOL_INLINE float less_ln2(float x, float n) { return (x - n * 0.693145752f) - n * 1.42860677e-6f; }

// Adding 1.5 · 2^23 rounds to an integer, which then stands in the lowest bits. With 127 more these are the exponent of 2^n.
inline constexpr float round_to_exponent = 12582912.0f + 127.0f;
/// e^x for x in [-88, 88], 0 below -87.69.
SPOOL_INLINE float exp_within(float x) {
  const float shifted = x * 1.44269504f + round_to_exponent;
  return (1.0f + expm1_near(less_ln2(x, shifted - round_to_exponent))) * from_bits(to_bits(shifted) << 23);
}
}  // namespace detail

/// e^x = 2^n · e^r with n = round(x / ln 2). The power of two is applied in two halves, so subnormal results and overflow come out right.
SPOOL_INLINE float vexp(float x) {
  constexpr float magic = 12582912.0f + 254.0f;  // see round_to_exponent: twice 127, for two powers
  constexpr auto least = std::bit_cast<int32_t>(magic - 254.0f), most = std::bit_cast<int32_t>(magic + 128.0f);  // the least gives 0 times 0
  auto i = std::bit_cast<int32_t>(x * 1.44269504f + magic);
  i = i < least ? least : i;
  i = i > most ? most : i;
  const float rest = detail::less_ln2(x, std::bit_cast<float>(i) - magic), r = rest < -1.0f ? -1.0f : rest;  // below -1 where x is below -176
  const auto half = static_cast<uint32_t>(i) >> 1;
  return (1.0f + detail::expm1_near(r)) * detail::from_bits(half << 23) * detail::from_bits((static_cast<uint32_t>(i) - half) << 23);
}

/// Natural logarithm: x = 2^e · (1 + f) with 1 + f in [√½, √2).
SPOOL_INLINE float vlog(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t bits = detail::to_bits(tiny ? x * 8388608.0f : x);
  const auto e = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;
  const float f = detail::from_bits(bits - (static_cast<uint32_t>(e) << 23)) - 1.0f;
  const float n = static_cast<float>(e) - (tiny ? 23.0f : 0.0f);
  float p = -7.635644877e-2f * f + 1.276332302e-1f;
  p = p * f - 1.316058446e-1f;
  p = p * f + 1.420155374e-1f;
  p = p * f - 1.662329824e-1f;
  p = p * f + 2.000123335e-1f;
  p = p * f - 2.500082272e-1f;
  p = p * f + 3.333333166e-1f;
  const float f2 = f * f;
  const float low = n * 1.42860677e-6f + (f2 * f * p - 0.5f * f2);
  float y = n * 0.693145752f + (f + low);
  y = x == 0.0f ? -std::numeric_limits<float>::infinity() : y;
  y = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : y;
  return x < std::numeric_limits<float>::infinity() ? y : x;  // inf and NaN return themselves
}

/// u / (u + 2) with u = e^2|x| - 1 = 2^n·(e^r - 1) + (2^n - 1), whose last term is exact.
SPOOL_INLINE float vtanh(float x) {
  const float a = detail::absolute(x), b = a > 10.0f ? 10.0f : a, t = b + b;
  const float shifted = t * 1.44269504f + detail::round_to_exponent, power = detail::from_bits(detail::to_bits(shifted) << 23);
  const float u = power * detail::expm1_near(detail::less_ln2(t, shifted - detail::round_to_exponent)) + (power - 1.0f);
  return detail::with_sign(u / (u + 2.0f), x);
}

/// An odd polynomial below 1; above, 1 - e^q(|x|) with q a polynomial for ln erfc.
SPOOL_INLINE float verf(float x) {
  const float a = detail::absolute(x);
  const float z = a * a;
  float p = 7.889122358e-5f * z - 8.020842126e-4f;
  p = p * z + 5.189535434e-3f;
  p = p * z - 2.685444464e-2f;
  p = p * z + 1.128360018e-1f;
  p = p * z - 3.761262714e-1f;
  const float near = a * 1.128379166f + a * (z * p);
  const float b = a > 4.0f ? 4.0f : a;
  float q = -2.169763559e-5f * b + 4.414729201e-4f;
  q = q * b - 4.205286169e-3f;
  q = q * b + 2.521034384e-2f;
  q = q * b - 1.084221066e-1f;
  q = q * b - 6.332163897e-1f;
  q = q * b - 1.129580315f;
  q = q * b + 1.884687792e-4f;
  const float far = 1.0f - detail::exp_within(q);
  return detail::with_sign(a < 1.0f ? near : far, x);
}

/// e^x, 0 below -87.69 and inf above 88.38. What grows with n is bounded as an integer, and NaN passes by way of r.
SPOOL_INLINE float vexp_flushed(float x) {
  constexpr auto least = std::bit_cast<int32_t>(detail::round_to_exponent - 127.0f), most = std::bit_cast<int32_t>(detail::round_to_exponent + 128.0f);
  auto i = std::bit_cast<int32_t>(x * 1.44269504f + detail::round_to_exponent);
  i = i < least ? least : i;
  i = i > most ? most : i;
  const float rest = detail::less_ln2(x, std::bit_cast<float>(i) - detail::round_to_exponent), r = rest < -1.0f ? -1.0f : rest;
  return (1.0f + detail::expm1_near(r)) * detail::from_bits(static_cast<uint32_t>(i) << 23);
}

SPOOL_INLINE float vsigmoid(float x) { return 1.0f / (1.0f + vexp_flushed(-x)); }

/// log(1 + x): the logarithm of the rounded 1 + x, corrected for that rounding (Kahan). 3e-7 relative, also near 0.
SPOOL_INLINE float vlog1p(float x) {
  const float u = 1.0f + x;
  const float y = vlog(u) * (x / (u - 1.0f));
  const bool direct = (u == 1.0f) | !(u < std::numeric_limits<float>::infinity());  // x below half an ulp of 1, inf or NaN
  return direct ? x : y;
}

/// e^x - 1 from u = e^x and log u, which carries the same rounding (Kahan). 5e-7 relative, also near 0.
SPOOL_INLINE float vexpm1(float x) {
  const float u = vexp(x);
  const float y = (u - 1.0f) * (x / vlog(u));
  const bool far = (x > 17.0f) | (x < -17.0f);  // e^x or -1 alone is exact enough, and log u may be infinite
  const float z = u == 1.0f ? x : y;
  return far ? u - 1.0f : z;
}

SPOOL_INLINE double vexp(double x) { return std::exp(x); }
SPOOL_INLINE double vexp_flushed(double x) { return std::exp(x); }
SPOOL_INLINE double vlog(double x) { return std::log(x); }
SPOOL_INLINE double vlog1p(double x) { return std::log1p(x); }
SPOOL_INLINE double vexpm1(double x) { return std::expm1(x); }
SPOOL_INLINE double vtanh(double x) { return std::tanh(x); }
SPOOL_INLINE double verf(double x) { return std::erf(x); }
SPOOL_INLINE double vsigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace spool::kernels
