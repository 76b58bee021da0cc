#pragma once
// Private to gemm: packing. A matrix X[length, k] (the rows of A, or the columns of B) is cut into strips of W along `length`; strip s is
// stored as [k][W] at target + s·k·W, the last one padded with zeros. The micro-kernel then reads both operands front to back.
// Three cases by stride: contiguous along `length` (copies of W), contiguous along k (4 × 4 transposes in registers), neither (gather).
// 16-bit floats are widened block by block on the stack, then packed like the rest.
#include <cstring>

#include <spool/ops/cpu/gemm_kernel.h>

namespace spool::kernels::detail {

template <class T>
struct Quad {
  typedef T Vector __attribute__((vector_size(4 * sizeof(T))));
};

SPOOL_INLINE float widen(bfloat16 x) { return from_bits(static_cast<uint32_t>(x.bits) << 16); }
/// Scaling by 2^112 rebiases the exponent and makes subnormals exact; infinity and NaN get the full exponent.
SPOOL_INLINE float widen(float16 x) {
  const uint32_t magnitude = x.bits & 0x7fffu;
  const uint32_t scaled = to_bits(from_bits(magnitude << 13) * 5.192296858534828e33f);
  const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return from_bits(scaled | special | static_cast<uint32_t>(x.bits & 0x8000u) << 16);
}

template <class V>
SPOOL_INLINE void transpose(V (&r)[4]) {
  const V s0 = __builtin_shufflevector(r[0], r[2], 0, 4, 1, 5), s1 = __builtin_shufflevector(r[0], r[2], 2, 6, 3, 7);
  const V s2 = __builtin_shufflevector(r[1], r[3], 0, 4, 1, 5), s3 = __builtin_shufflevector(r[1], r[3], 2, 6, 3, 7);
  r[0] = __builtin_shufflevector(s0, s2, 0, 4, 1, 5);
  r[1] = __builtin_shufflevector(s0, s2, 2, 6, 3, 7);
  r[2] = __builtin_shufflevector(s1, s3, 0, 4, 1, 5);
  r[3] = __builtin_shufflevector(s1, s3, 2, 6, 3, 7);
}

/// X[0..rows, 0..4) with k contiguous becomes [4][W] at target; rows is 4, or W % 4 for the last rows of a strip.
template <class T, int Rows, int W>
SPOOL_INLINE void transpose_four(const T* x, int64_t stride, T* target) {
  using V = typename Quad<T>::Vector;
  V rows[4] = {};
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) __builtin_prefetch(x + (Rows + r) * stride);  // the rows that follow; the hardware sees runs too short
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) std::memcpy(&rows[r], x + r * stride, sizeof(V));
  transpose(rows);
#pragma GCC unroll 4
  for (int p = 0; p < 4; ++p) std::memcpy(target + p * W, &rows[p], Rows * sizeof(T));
}

/// One strip with k contiguous. Few rows are read at a time, over a run of k: rows a power of two apart share cache sets.
template <class T, int W>
SPOOL_INLINE void transpose_strip(int64_t k, const T* x, int64_t stride, T* target) {
  static_assert(W % 4 == 0 || W % 4 == 2);
  constexpr int64_t run = 256;
  for (int64_t p0 = 0; p0 < k; p0 += run) {
    const int64_t end = k - p0 < run ? k : p0 + run, quads = p0 + (end - p0) / 4 * 4;
    for (int64_t i = 0; i + 4 <= W; i += 4) {
      for (int64_t p = p0; p < quads; p += 4) transpose_four<T, 4, W>(x + i * stride + p, stride, target + p * W + i);
    }
    if constexpr (W % 4 == 2) {
      for (int64_t p = p0; p < quads; p += 4) transpose_four<T, 2, W>(x + (W - 2) * stride + p, stride, target + p * W + W - 2);
    }
    for (int64_t p = quads; p < end; ++p) {
      for (int64_t i = 0; i < W; ++i) target[p * W + i] = x[p + i * stride];
    }
  }
}

/// `strip` is the distance between strips in the target, so that a block of a larger panel can be packed alone.
template <class T, int W>
SPOOL_INLINE void pack_native(int64_t length, int64_t k, const T* x, int64_t stride, int64_t k_stride, T* target, int64_t strip) {
  const int64_t whole = length / W;
  if (stride == 1) {
    constexpr int64_t group = W * sizeof(T) >= 128 ? 2 : (256 / (W * static_cast<int64_t>(sizeof(T))));
    for (int64_t s = 0; s < whole; s += group) {
      const int64_t end = s + group < whole ? s + group : whole;
      for (int64_t p = 0; p < k; ++p) {
        for (int64_t t = s; t < end; ++t) std::memcpy(target + t * strip + p * W, x + t * W + p * k_stride, W * sizeof(T));
      }
    }
  } else if (k_stride == 1) {
    for (int64_t s = 0; s < whole; ++s) transpose_strip<T, W>(k, x + s * W * stride, stride, target + s * strip);
  } else {
    for (int64_t s = 0; s < whole; ++s) {
      for (int64_t p = 0; p < k; ++p) {
        for (int i = 0; i < W; ++i) target[s * strip + p * W + i] = x[(s * W + i) * stride + p * k_stride];
      }
    }
  }
  if (const int64_t rest = length - whole * W; rest > 0) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < W; ++i) {
        target[whole * strip + p * W + i] = i < rest ? x[(whole * W + i) * stride + p * k_stride] : T(0);
      }
    }
  }
}

template <class In, class T, int W>
SPOOL_INLINE void pack_widened(int64_t length, int64_t k, const In* x, int64_t stride, int64_t k_stride, T* target) {
  constexpr int64_t rows = 96, columns = 32;  // 12 KiB; rows is a multiple of every strip width
  static_assert(rows % W == 0);
  T block[rows * columns];
  for (int64_t i = 0; i < length; i += rows) {
    const int64_t h = length - i < rows ? length - i : rows;
    for (int64_t p = 0; p < k; p += columns) {
      const int64_t w = k - p < columns ? k - p : columns;
      const In* from = x + i * stride + p * k_stride;
      T* to = target + i * k + p * W;
      if (stride == 1) {
        for (int64_t c = 0; c < w; ++c) {
          for (int64_t r = 0; r < h; ++r) block[c * rows + r] = widen(from[r + c * k_stride]);
        }
        pack_native<T, W>(h, w, block, 1, rows, to, k * W);
      } else {
        for (int64_t r = 0; r < h; ++r) {
          if (k_stride == 1) {
            for (int64_t c = 0; c < w; ++c) block[r * columns + c] = widen(from[r * stride + c]);
          } else {
            for (int64_t c = 0; c < w; ++c) block[r * columns + c] = widen(from[r * stride + c * k_stride]);
          }
        }
        pack_native<T, W>(h, w, block, columns, 1, to, k * W);
      }
    }
  }
}

template <class In, class T, int W>
SPOOL_INLINE void pack(int64_t length, int64_t k, const void* source, int64_t stride, int64_t k_stride, T* target) {
  if constexpr (std::is_same_v<In, T>) {
    pack_native<T, W>(length, k, static_cast<const T*>(source), stride, k_stride, target, k * W);
  } else {
    pack_widened<In, T, W>(length, k, static_cast<const In*>(source), stride, k_stride, target);
  }
}

}  // namespace spool::kernels::detail
