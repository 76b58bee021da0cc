#include <spool/ops/positions.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <cmath>

namespace spool {

Tensor sinusoidal_positions(int64_t count, int64_t dim, int64_t start, Dtype dtype, Device device) {
  if (dim % 2) fail<ShapeError>("sinusoidal_positions: dim must be even, got ", dim);
  const With op(&Ambient::op, "sinusoidal_positions");
  Tensor out = empty({count, dim}, dtype, device);
  if (device.meta) return out;
  visit_float("sinusoidal_positions", dtype, [&]<class T>() {
    T* to = static_cast<T*>(out.raw());
    const int64_t half = dim / 2;
    parallel_range(half, 8, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        const double frequency = std::exp(-2.0 * double(j) * std::log(10000.0) / double(dim));
        for (int64_t i = 0; i < count; ++i) {
          const double angle = double(start + i) * frequency;
          to[i * dim + j] = static_cast<T>(static_cast<accumulate_t<T>>(std::sin(angle)));
          to[i * dim + half + j] = static_cast<T>(static_cast<accumulate_t<T>>(std::cos(angle)));
        }
      }
    });
  });
  return out;
}

}  // namespace spool
