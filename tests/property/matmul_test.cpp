// The matrix product against loops in f64: any strides, transposes, batch axes that broadcast, 1-d operands; gradients too.
#include "property.h"

#include <cmath>

namespace spool::property {
namespace {

struct Operand {
  Tensor tensor, matrices;  ///< As given, and with its last two axes in the order rows, columns.
};

/// Batch axes of `whole`, some of them 1 or left out, then a matrix of these sizes.
Operand operand(const Shape& whole, int64_t rows, int64_t columns, bool transposed, Dtype dtype) {
  Shape s;
  for (int axis = int(integer(0, whole.size())); axis < whole.size(); ++axis) s.push_back(coin() ? whole[axis] : 1);
  s.push_back(transposed ? columns : rows);
  s.push_back(transposed ? rows : columns);
  const Tensor t = strided(s, dtype);
  return {t, transposed ? transpose(t) : t};
}

struct Sums {
  std::vector<double> values, sizes;  ///< Σ a·b and Σ |a·b|.
};

/// c[…, m, n] = Σ a[…, m, k]·b[…, k, n] over the broadcast batch `result`.
Sums product(const Shape& result, const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  Sums sums{std::vector<double>(size_t(numel(result))), std::vector<double>(size_t(numel(result)))};
  const int64_t depth = a.size(-1);
  each_index(result, [&](size_t i, const Shape& at) {
    Shape at_a = at, at_b = at;
    for (int64_t k = 0; k < depth; ++k) {
      at_a[at.size() - 1] = k;
      at_b[at.size() - 2] = k;
      const double term = x[broadcast_place(a.shape(), at_a)] * y[broadcast_place(b.shape(), at_b)];
      sums.values[i] += term;
      sums.sizes[i] += std::fabs(term);
    }
  });
  return sums;
}

void near(const Tensor& got, const Sums& expected, double eps) {
  const auto values = got.to_vector<double>();
  RC_ASSERT(values.size() == expected.values.size());
  for (size_t i = 0; i < values.size(); ++i) RC_ASSERT(std::fabs(values[i] - expected.values[i]) <= eps * expected.sizes[i]);
}

/// Sizes around the edges of the kernels' tiles now and then.
int64_t size() { return integer(0, 7) ? integer(1, 9) : integer(10, 70); }

RC_GTEST_PROP(Matmul, AgreesWithALoopOverAnyStrides, ()) {
  const Dtype dtype = coin() ? Dtype::f64 : Dtype::f32;
  const double eps = dtype == Dtype::f64 ? 1e-14 : 1e-5;
  const Shape batch = shape(int(integer(0, 3)));
  const int64_t m = size(), n = size(), k = integer(0, 19) ? size() : 0;
  const MatmulOptions options{.transpose_a = coin(), .transpose_b = coin()};
  const Operand a = operand(batch, m, k, options.transpose_a, dtype), b = operand(batch, k, n, options.transpose_b, dtype);
  a.tensor.requires_grad(true);
  b.tensor.requires_grad(true);
  Tape tape;
  const Tensor c = matmul(a.tensor, b.tensor, options);
  RC_ASSERT(c.size(-2) == m && c.size(-1) == n);
  near(c, product(c.shape(), a.matrices, b.matrices), eps);
  const Tensor g = strided(c.shape(), dtype);
  tape.backward({c}, {g});
  // dA = G·Bᵀ over the whole batch, added up where A was broadcast
  const auto gradient = [&](const Operand& of, const Tensor& left, const Tensor& right, bool transposed) {
    Shape full = c.shape();
    full[full.size() - 2] = of.matrices.size(-2);
    full[full.size() - 1] = of.matrices.size(-1);
    const Sums whole = product(full, left, right);
    Sums added{std::vector<double>(size_t(of.matrices.numel())), std::vector<double>(size_t(of.matrices.numel()))};
    each_index(full, [&](size_t i, const Shape& at) {
      added.values[broadcast_place(of.matrices.shape(), at)] += whole.values[i];
      added.sizes[broadcast_place(of.matrices.shape(), at)] += whole.sizes[i];
    });
    RC_ASSERT(of.tensor.grad().shape() == of.tensor.shape());
    near(transposed ? transpose(of.tensor.grad()) : of.tensor.grad(), added, eps);
  };
  gradient(a, g, transpose(b.matrices), options.transpose_a);
  gradient(b, transpose(a.matrices), g, options.transpose_b);
}

RC_GTEST_PROP(Matmul, OperandsOfOneAxisAreRowsAndColumns, ()) {
  const int64_t m = size(), k = size();
  const Tensor a = strided({m, k}), v = strided({k}), w = strided({m});
  near(matmul(a, v), product({m, 1}, a, reshape(v, {k, 1})), 1e-14);
  near(matmul(w, a), product({1, k}, reshape(w, {1, m}), a), 1e-14);
  RC_ASSERT(matmul(a, v).shape() == Shape{m});
  RC_ASSERT(matmul(w, a).shape() == Shape{k});
  RC_ASSERT(matmul(v, v).shape() == Shape{});
}

}  // namespace
}  // namespace spool::property
