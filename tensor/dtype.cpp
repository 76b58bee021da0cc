#include <spool/tensor/dtype.h>
#include <spool/tensor/error.h>

namespace spool {

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
