#include <spool/tensor/dtype.h>
#include <spool/tensor/error.h>

namespace spool {

float16::float16(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (u >> 16) & 0x8000, magnitude = u & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    bits = uint16_t(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  } else if (magnitude >= 0x477ff000) {  // rounds to 65536 or more
    bits = uint16_t(sign | 0x7c00);
  } else if (magnitude < 0x38800000) {  // subnormal: let float addition round at the right place
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  } else {
    bits = uint16_t(sign | ((magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13));
  }
}

float16::operator float() const {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0) {
    const float value = float(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  const uint32_t rebased = exponent == 31 ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | (rebased << 23) | (fraction << 13));
}

size_t dtype_size(Dtype dtype) {
  return visit(dtype, []<class T>() { return sizeof(T); });
}

std::string_view dtype_name(Dtype dtype) {
  constexpr std::string_view names[] = {"f32", "f64", "bf16", "f16", "i32", "i64", "u8", "bool"};
  return names[size_t(dtype)];
}

bool is_float(Dtype dtype) { return dtype <= Dtype::f16; }
bool is_integer(Dtype dtype) { return dtype == Dtype::i32 || dtype == Dtype::i64 || dtype == Dtype::u8; }

void fail_not_float(std::string_view op, Dtype dtype) {
  fail<DtypeError>(op, ": needs a float type, got ", dtype_name(dtype), "; convert with cast(x, Dtype::f32)");
}

}  // namespace spool
