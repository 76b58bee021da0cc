#include <spool/ops/arithmetic.h>
#include <spool/ops/favor.h>
#include <spool/ops/matmul.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/reduce.h>
#include <spool/ops/shape.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/error.h>

#include <cmath>
#include <vector>

namespace spool {
namespace {

/// A random orthogonal matrix by Gram–Schmidt on Gaussian rows, each made orthogonal twice (once is not enough in floating point).
std::vector<double> orthogonal(int64_t dim, Generator& random) {
  std::vector<double> rows(size_t(dim * dim));
  for (double& value : rows) value = random.normal();
  for (int64_t i = 0; i < dim; ++i) {
    double* row = rows.data() + i * dim;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < i; ++j) {
        const double* other = rows.data() + j * dim;
        double dot = 0;
        for (int64_t c = 0; c < dim; ++c) dot += row[c] * other[c];
        for (int64_t c = 0; c < dim; ++c) row[c] -= dot * other[c];
      }
      double norm = 0;
      for (int64_t c = 0; c < dim; ++c) norm += row[c] * row[c];
      for (int64_t c = 0; c < dim; ++c) row[c] /= std::sqrt(norm);
    }
  }
  return rows;
}

}  // namespace

Tensor favor_omega(int64_t heads, int64_t dim, int64_t blocks, RandomKey key, Dtype dtype, Device device) {
  const With op(&Ambient::op, "favor_omega");
  Tensor out = empty({heads, blocks * dim, dim}, dtype, device);
  if (device.meta) return out;
  visit_float("favor_omega", dtype, [&]<class T>() {
    T* to = static_cast<T*>(out.raw());
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t b = 0; b < blocks; ++b) {
        Generator random(key.fold(uint64_t(h)).fold(uint64_t(b)));
        for (double value : orthogonal(dim, random)) *to++ = static_cast<T>(static_cast<float>(value * std::sqrt(double(dim))));
      }
    }
  });
  return out;
}

Tensor favor_features(const Tensor& x, const Tensor& omega) {
  if (x.dims() != 4 || omega.dims() != 3 || x.size(2) != omega.size(0) || x.size(3) != omega.size(2))
    fail<ShapeError>("favor_features: x ", x.shape(), " ([batch, length, heads, d]) does not fit omega ", omega.shape(), " ([heads, M, d])");
  const Tensor scaled = x * std::pow(double(x.size(3)), -0.25);
  const Tensor half_norm = sum(square(scaled), {3}, true) * 0.5;
  const Tensor projected = matmul(permute(scaled, {0, 2, 1, 3}), omega, {.transpose_b = true});
  return exp(permute(projected, {0, 2, 1, 3}) - half_norm);
}

}  // namespace spool
