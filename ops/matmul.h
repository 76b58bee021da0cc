#pragma once
// The matrix product.
#include <spool/tensor/tensor.h>

namespace spool {
struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;  ///< Use the operand with its last two axes swapped; nothing is copied.
};
/// c[..., m, n] = Σ_k a[..., m, k]·b[..., k, n]. Leading axes broadcast without copies; any strides. One float type (16-bit: products and
/// sums in f32). A 1-d operand is a row (left) or a column (right) and its axis disappears. The same bits for any number of threads. Keeps
/// the operand that the other's gradient needs; a gradient that is gathered already is added to inside the product.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});
}  // namespace spool
