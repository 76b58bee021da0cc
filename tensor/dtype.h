#pragma once
// Element types: the enumeration, the two 16-bit floats, and `visit`, which turns a Dtype back into a C++ type.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace spool {

/// Element type of a tensor. Everything can be stored; f32 and f64 are computed everywhere, bf16 and f16 are computed in f32.
enum class Dtype : uint8_t { f32, f64, bf16, f16, i32, i64, u8, boolean };

/// The upper half of an f32: 8 exponent bits, 7 fraction bits. Rounds to nearest even; NaN stays NaN.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  bfloat16(float x) {  // NOLINT: the conversion is meant to be silent, as between float and double
    const auto u = std::bit_cast<uint32_t>(x);
    bits = x != x ? uint16_t((u >> 16) | 0x40) : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

/// IEEE binary16: 5 exponent bits, 10 fraction bits, largest value 65504. Rounds to nearest even; NaN stays NaN. Both conversions are free
/// of branches, so that loops over them run in vector code.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  float16(float x) {  // NOLINT
    const auto u = std::bit_cast<uint32_t>(x);
    const uint32_t sign = (u >> 16) & 0x8000, magnitude = u & 0x7fffffff;
    const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13;
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;  // the addition rounds at the right place
    const uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
    const uint32_t number = magnitude >= 0x477ff000 ? 0x7c00 : finite;  // what rounds to 65536 or more is infinite
    bits = uint16_t(sign | (magnitude > 0x7f800000 ? 0x7e00 | ((magnitude >> 13) & 0x3ff) : number));
  }
  operator float() const {
    const uint32_t magnitude = bits & 0x7fffu;
    const auto scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);  // rebases the exponent; subnormals are exact
    const uint32_t special = magnitude >= 0x7c00 ? 0x7f800000 : 0;
    return std::bit_cast<float>(scaled | special | uint32_t(bits & 0x8000u) << 16);
  }
};

size_t dtype_size(Dtype dtype);            ///< Bytes of one element.
std::string_view dtype_name(Dtype dtype);  ///< "f32", "bf16", "bool", …
bool is_float(Dtype dtype);                ///< f32, f64, bf16 or f16.
bool is_integer(Dtype dtype);              ///< i32, i64 or u8 (bool is neither).

template <class T>
struct dtype_tag;
template <> struct dtype_tag<float> { static constexpr Dtype value = Dtype::f32; };
template <> struct dtype_tag<double> { static constexpr Dtype value = Dtype::f64; };
template <> struct dtype_tag<bfloat16> { static constexpr Dtype value = Dtype::bf16; };
template <> struct dtype_tag<float16> { static constexpr Dtype value = Dtype::f16; };
template <> struct dtype_tag<int32_t> { static constexpr Dtype value = Dtype::i32; };
template <> struct dtype_tag<int64_t> { static constexpr Dtype value = Dtype::i64; };
template <> struct dtype_tag<uint8_t> { static constexpr Dtype value = Dtype::u8; };
template <> struct dtype_tag<bool> { static constexpr Dtype value = Dtype::boolean; };
/// The Dtype of a C++ type: `dtype_of<float> == Dtype::f32`.
template <class T>
inline constexpr Dtype dtype_of = dtype_tag<std::remove_cv_t<T>>::value;

/// The type in which sums over T are formed: double stays double, the other floats use float, integers int64.
template <class T>
using accumulate_t = std::conditional_t<std::is_same_v<T, double>, double,
                                        std::conditional_t<std::is_same_v<T, float> || std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, float, int64_t>>;

/// Calls `f.template operator()<T>()` with the C++ type of `dtype` and returns what it returns.
template <class F>
decltype(auto) visit(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::f32: return f.template operator()<float>();
    case Dtype::f64: return f.template operator()<double>();
    case Dtype::bf16: return f.template operator()<bfloat16>();
    case Dtype::f16: return f.template operator()<float16>();
    case Dtype::i32: return f.template operator()<int32_t>();
    case Dtype::i64: return f.template operator()<int64_t>();
    case Dtype::u8: return f.template operator()<uint8_t>();
    case Dtype::boolean: break;
  }
  return f.template operator()<bool>();
}

/// `visit` over the float types only; another type throws DtypeError naming `op`.
[[noreturn]] void fail_not_float(std::string_view op, Dtype dtype);
template <class F>
decltype(auto) visit_float(std::string_view op, Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::f32: return f.template operator()<float>();
    case Dtype::f64: return f.template operator()<double>();
    case Dtype::bf16: return f.template operator()<bfloat16>();
    case Dtype::f16: return f.template operator()<float16>();
    default: fail_not_float(op, dtype);
  }
}

}  // namespace spool
