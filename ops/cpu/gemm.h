#pragma once
// The matrix product on the CPU:  C[m,n] = activation(alpha · A[m,k] B[k,n] (+ C) + bias[n]),  batched.
//
// * A and B have arbitrary row and column strides: transposes, heads inside [batch, time, heads, dim] and broadcasts (stride 0) are read
//   where they lie. C has contiguous columns and an arbitrary row stride. C must not overlap A or B.
// * T is float or double. A and B may each be T, and with T = float also bfloat16 or float16: they are widened while being packed, so the
//   arithmetic is that of float.
// * Bits: an element of C depends on its row of A, its column of B, k, alpha, the old C and the instruction-set level — on nothing else.
//   Not on the number of threads, on m, n or the batch, on strides, or on the place in the matrix: rows computed in two calls give the
//   bits of one call. Sums run over k in blocks of `gemm_k_block(k)`, each a chain of fused multiply-adds, added in order. (AVX2 and
//   AVX-512 give the same bits; a machine without FMA gives others.)
// * Never allocates: packed panels live in `scratch`, or on the stack (at most 64 KiB) when they are small.
// * Runs on up to `num_threads()` threads, as many as the scratch holds panels for; small products run on the calling thread. A batch of
//   small products is spread over threads by product, a large product by tiles of C, a small C with a long k by blocks of k.
// * Zero sizes are fine: k = 0 gives AB = 0 and still applies C, bias and activation.
//
// Speed (Zen 3, f32): 80-90 % of the multiply-add peak on large products, whatever the transposes; a row times a transposed matrix is
// the slow case, about half the memory bandwidth.
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <spool/ops/cpu/activations.h>
#include <spool/tensor/dtype.h>
#include <spool/tensor/parallel.h>

namespace spool::kernels {

struct GemmShape {
  int64_t m = 0, n = 0, k = 0, batch = 1;
};

/// A or B. Element (b, i, j) is data[b · batch_stride + i · row_stride + j · col_stride]; strides are in elements and may be 0 or negative.
template <class T>
struct GemmInput {
  const T* data = nullptr;
  int64_t row_stride = 0, col_stride = 1, batch_stride = 0;
};

/// C: columns are contiguous; batches and rows must not overlap.
template <class T>
struct GemmOutput {
  T* data = nullptr;
  int64_t row_stride = 0, batch_stride = 0;
};

template <class T>
struct GemmOptions {
  T alpha = 1;
  bool accumulate = false;  ///< Add to what C holds.
  // The rest is applied once, to finished elements: z = alpha·AB (+ C) + bias, C = activation(z).
  const T* bias = nullptr;  ///< [n], the same for every row and batch, or null.
  Activation activation = Activation::none;
  T* pre = nullptr;  ///< If not null, z is also stored here, laid out like C with the two strides below (for backward).
  int64_t pre_row_stride = 0, pre_batch_stride = 0;
};

/// Bytes that `gemm` wants for a product computed in `compute` (f32 or f64; 16-bit inputs count as f32) on `threads` threads: 0 for small
/// ones, about 1.5 MB a thread for large ones. A multiple of 64. Depends on nothing but the arguments, never on the machine.
size_t gemm_scratch_bytes(const GemmShape& shape, Dtype compute, int threads = num_threads());

/// Length of the blocks in which sums over k are formed: k itself up to 384, then at most 320.
int64_t gemm_k_block(int64_t k);

namespace detail {
struct GemmSource {
  const void* data;
  int kind;  // SourceKind
  int64_t element, row_stride, col_stride, batch_stride;
};
template <class T>
void gemm(const GemmShape& shape, const GemmSource& a, const GemmSource& b, const GemmOutput<T>& c, const GemmOptions<T>& options,
          std::span<std::byte> scratch);
template <class In, class T>
GemmSource gemm_source(const GemmInput<In>& x) {
  static_assert(std::is_same_v<In, T> || (std::is_same_v<T, float> && (std::is_same_v<In, bfloat16> || std::is_same_v<In, float16>)));
  constexpr int kind = std::is_same_v<In, T> ? 0 : std::is_same_v<In, bfloat16> ? 1 : 2;
  return {x.data, kind, sizeof(In), x.row_stride, x.col_stride, x.batch_stride};
}
}  // namespace detail

/// The product. `scratch` is aligned to 64 bytes and holds at least `gemm_scratch_bytes(shape, dtype_of<T>, 1)`; with the bytes for more
/// threads, more threads run. Throws std::invalid_argument when it is smaller or misaligned.
template <class A, class B, class T>
void gemm(const GemmShape& shape, const GemmInput<A>& a, const GemmInput<B>& b, const GemmOutput<T>& c,
          const std::type_identity_t<GemmOptions<T>>& options = {}, std::span<std::byte> scratch = {}) {
  detail::gemm<T>(shape, detail::gemm_source<A, T>(a), detail::gemm_source<B, T>(b), c, options, scratch);
}

}  // namespace spool::kernels
