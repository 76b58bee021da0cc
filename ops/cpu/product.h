#pragma once
// Matrix products of tensors through `gemm`: strides, batches and 16-bit results sorted out. Private to ops/.
#include <spool/ops/cpu/activations.h>
#include <spool/tensor/tensor.h>

#include <cstddef>
#include <span>

namespace spool::kernels {

struct ProductOptions {
  bool accumulate = false;            ///< c += a·b. Rounded once where c has 16 bits.
  Tensor bias;                        ///< [n] or undefined.
  Activation activation = Activation::none;
  Tensor pre;                         ///< c before the activation, [rows, n] contiguous, or undefined.
};

/// Scratch for c[..., m, n] = a[..., m, k]·b[..., k, n] of one element type.
int64_t product_scratch(const Shape& c, int64_t k, Dtype dtype);

/// c[..., m, n] (contiguous) = a[..., m, k]·b[..., k, n]; a and b have any strides, and the leading sizes of c.
void product(const Tensor& c, const Tensor& a, const Tensor& b, const ProductOptions& options, std::span<std::byte> scratch);

/// target[m, n] += a[m, k]·b[k, n] outside of the dispatcher: allocates its scratch from the ledger, bumps the version, does nothing but
/// that on meta.
void accumulate_product(const Tensor& target, const Tensor& a, const Tensor& b);

/// t with its last two axes swapped, as a view.
Tensor swapped(const Tensor& t);

}  // namespace spool::kernels
