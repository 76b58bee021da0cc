#include <spool/autograd/op.h>

namespace spool {
namespace {
template <class Draw>
Tensor filled(const Shape& shape, Dtype dtype, Draw draw) {
  Tensor out = empty(shape, dtype);
  visit(dtype, [&]<class T>() {
    T* to = static_cast<T*>(out.raw());
    for (int64_t i = 0; i < out.numel(); ++i) to[i] = static_cast<T>(draw());
  });
  return out;
}
}  // namespace

Tensor Rng::normal(const Shape& shape, double scale) {
  return filled(shape, Dtype::f64, [&] { return scale * generator_.normal(); });
}
Tensor Rng::uniform(const Shape& shape, double low, double high) {
  return filled(shape, Dtype::f64, [&] { return low + (high - low) * generator_.uniform(); });
}
Tensor Rng::integers(const Shape& shape, int64_t low, int64_t high, Dtype dtype) {
  return filled(shape, dtype, [&] { return generator_.integer(low, high); });
}
Tensor Rng::booleans(const Shape& shape) {
  return filled(shape, Dtype::boolean, [&] { return generator_.integer(0, 2) == 1; });
}

}  // namespace spool
