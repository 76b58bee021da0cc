#pragma once
// The inner loop of linear attention: a running sum of outer products that is updated and read in one pass. Private to ops/.
//
//   for each token t in order:   R += a_t b_tᵀ ;   o_t = c_tᵀ R          R [rows, width], a, c [rows], b, o [width]
//
// Every use of it (outputs, and the gradients of q, k and v) is this loop with other roles. R is walked in tiles of columns that stay in
// L1; a few tokens are taken through a tile at a time, so that an element of R is loaded and stored once for all of them. The sums of an
// element run over tokens, and those of an output over rows, one by one: bits depend neither on tiles nor on how the tokens are cut into blocks.
#include <spool/ops/cpu/clones.h>

#include <cstdint>

namespace spool::kernels {

/// `width` is a multiple of these columns (rows of R, b and o are padded with zeros), whatever the registers hold.
template <class S>
inline constexpr int64_t scan_lanes = 32 / int64_t(sizeof(S));

template <class S, int bytes>
struct ScanVector {
  typedef S type __attribute__((vector_size(bytes), aligned(alignof(S)), may_alias));
};

/// `tokens` tokens through `tiles` registers of columns starting at `column`.
template <class S, int bytes, int tokens, int tiles>
SPOOL_INLINE void scan_tile(const S* a, const S* b, const S* c, S* r, S* o, int64_t rows, int64_t width, int64_t column) {
  using V = typename ScanVector<S, bytes>::type;
  constexpr int64_t lanes = bytes / int64_t(sizeof(S));
  V sum[tokens][tiles], add[tokens][tiles];
  for (int t = 0; t < tokens; ++t)
    for (int i = 0; i < tiles; ++i) {
      sum[t][i] = V{};
      add[t][i] = *reinterpret_cast<const V*>(b + t * width + column + i * lanes);
    }
  for (int64_t m = 0; m < rows; ++m) {
    S* row = r + m * width + column;
    V now[tiles];
    for (int i = 0; i < tiles; ++i) now[i] = *reinterpret_cast<const V*>(row + i * lanes);
    for (int t = 0; t < tokens; ++t) {
      const S key = a[t * rows + m], query = c[t * rows + m];
      for (int i = 0; i < tiles; ++i) {
        now[i] += key * add[t][i];
        sum[t][i] += query * now[i];
      }
    }
    for (int i = 0; i < tiles; ++i) *reinterpret_cast<V*>(row + i * lanes) = now[i];
  }
  for (int t = 0; t < tokens; ++t)
    for (int i = 0; i < tiles; ++i) *reinterpret_cast<V*>(o + t * width + column + i * lanes) = sum[t][i];
}

/// All tokens through `tiles` registers of columns, `tokens` at a time.
template <class S, int bytes, int tokens, int tiles>
SPOOL_INLINE void scan_columns(const S* a, const S* b, const S* c, S* r, S* o, int64_t n, int64_t rows, int64_t width, int64_t column) {
  int64_t t = 0;
  for (; t + tokens <= n; t += tokens) scan_tile<S, bytes, tokens, tiles>(a + t * rows, b + t * width, c + t * rows, r, o + t * width, rows, width, column);
  for (; t < n; ++t) scan_tile<S, bytes, 1, tiles>(a + t * rows, b + t * width, c + t * rows, r, o + t * width, rows, width, column);
}

/// The columns from `column` on, in registers of 32 bytes.
template <class S>
SPOOL_INLINE void scan_rest(const S* a, const S* b, const S* c, S* r, S* o, int64_t n, int64_t rows, int64_t width, int64_t column) {
  constexpr int64_t lanes = scan_lanes<S>;
  for (; column + 2 * lanes <= width; column += 2 * lanes) scan_columns<S, 32, 3, 2>(a, b, c, r, o, n, rows, width, column);
  if (column < width) scan_columns<S, 32, 4, 1>(a, b, c, r, o, n, rows, width, column);
}

/// A block of the update: `count` rows of R from `m`, `tiles` registers of columns, all tokens.
template <class S, int bytes, int count, int tiles>
SPOOL_INLINE void add_tile(const S* a, const S* b, S* r, int64_t n, int64_t rows, int64_t width, int64_t m, int64_t column) {
  using V = typename ScanVector<S, bytes>::type;
  constexpr int64_t lanes = bytes / int64_t(sizeof(S));
  V sum[count][tiles];
  for (int k = 0; k < count; ++k)
    for (int i = 0; i < tiles; ++i) sum[k][i] = *reinterpret_cast<const V*>(r + (m + k) * width + column + i * lanes);
  for (int64_t t = 0; t < n; ++t) {
    V add[tiles];
    for (int i = 0; i < tiles; ++i) add[i] = *reinterpret_cast<const V*>(b + t * width + column + i * lanes);
    for (int k = 0; k < count; ++k) {
      const S key = a[t * rows + m + k];
      for (int i = 0; i < tiles; ++i) sum[k][i] += key * add[i];
    }
  }
  for (int k = 0; k < count; ++k)
    for (int i = 0; i < tiles; ++i) *reinterpret_cast<V*>(r + (m + k) * width + column + i * lanes) = sum[k][i];
}

template <class S, int bytes, int count, int tiles>
SPOOL_INLINE void add_columns(const S* a, const S* b, S* r, int64_t n, int64_t rows, int64_t width, int64_t column) {
  int64_t m = 0;
  for (; m + count <= rows; m += count) add_tile<S, bytes, count, tiles>(a, b, r, n, rows, width, m, column);
  for (; m < rows; ++m) add_tile<S, bytes, 1, tiles>(a, b, r, n, rows, width, m, column);
}

template <class S>
SPOOL_INLINE void add_rest(const S* a, const S* b, S* r, int64_t n, int64_t rows, int64_t width, int64_t column) {
  constexpr int64_t lanes = scan_lanes<S>;
  for (; column + 2 * lanes <= width; column += 2 * lanes) add_columns<S, 32, 4, 2>(a, b, r, n, rows, width, column);
  if (column < width) add_columns<S, 32, 4, 1>(a, b, r, n, rows, width, column);
}

template <class S>
SPOOL_CLONES void scan_block_narrow(const S* a, const S* b, const S* c, S* r, S* o, int64_t n, int64_t rows, int64_t width) {
  scan_rest(a, b, c, r, o, n, rows, width, 0);
}
template <class S>
SPOOL_CLONES void scan_add_narrow(const S* a, const S* b, S* r, int64_t n, int64_t rows, int64_t width) {
  add_rest(a, b, r, n, rows, width, 0);
}

#if SPOOL_HAS_ISA_LEVELS
template <class S>
SPOOL_V4 void scan_block_wide(const S* a, const S* b, const S* c, S* r, S* o, int64_t n, int64_t rows, int64_t width) {
  constexpr int64_t lanes = 2 * scan_lanes<S>;
  int64_t column = 0;
  for (; column + 2 * lanes <= width; column += 2 * lanes) scan_columns<S, 64, 6, 2>(a, b, c, r, o, n, rows, width, column);
  scan_rest(a, b, c, r, o, n, rows, width, column);
}
template <class S>
SPOOL_V4 void scan_add_wide(const S* a, const S* b, S* r, int64_t n, int64_t rows, int64_t width) {
  constexpr int64_t lanes = 2 * scan_lanes<S>;
  int64_t column = 0;
  for (; column + 2 * lanes <= width; column += 2 * lanes) add_columns<S, 64, 8, 2>(a, b, r, n, rows, width, column);
  add_rest(a, b, r, n, rows, width, column);
}
#endif

/// The loop above for n tokens: a, c [n, rows], b, o [n, width], R [rows, width].
template <class S>
void scan_block(const S* a, const S* b, const S* c, S* r, S* o, int64_t n, int64_t rows, int64_t width) {
#if SPOOL_HAS_ISA_LEVELS
  if (runs_v4()) return scan_block_wide(a, b, c, r, o, n, rows, width);
#endif
  scan_block_narrow(a, b, c, r, o, n, rows, width);
}

/// The update alone: R += a_t b_tᵀ for n tokens.
template <class S>
void scan_add(const S* a, const S* b, S* r, int64_t n, int64_t rows, int64_t width) {
#if SPOOL_HAS_ISA_LEVELS
  if (runs_v4()) return scan_add_wide(a, b, r, n, rows, width);
#endif
  scan_add_narrow(a, b, r, n, rows, width);
}

/// Key sums: s += k_t, then den_t = q_t·s, for n tokens of `rows` features; 8 lanes whatever the vector width.
template <class S>
SPOOL_CLONES void scan_denominator(const S* k, const S* q, S* s, S* den, int64_t n, int64_t rows) {
  for (int64_t t = 0; t < n; ++t) {
    S lane[8] = {};
    int64_t m = 0;
    for (; m + 8 <= rows; m += 8)
      for (int l = 0; l < 8; ++l) {
        s[m + l] += k[t * rows + m + l];
        lane[l] += q[t * rows + m + l] * s[m + l];
      }
    for (; m < rows; ++m) {
      s[m] += k[t * rows + m];
      lane[0] += q[t * rows + m] * s[m];
    }
    den[t] = ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
  }
}

/// s += x_t·u_t, then y_t += s, for n tokens of `rows` elements (the key sum's share of a gradient; `scale` is u, or per-token 1).
template <class S>
SPOOL_CLONES void scan_shift(const S* x, const S* u, S* s, S* y, const S* w, int64_t n, int64_t rows) {
  for (int64_t t = 0; t < n; ++t) {
    const S in = u ? u[t] : S(1), out = w ? w[t] : S(1);
    for (int64_t m = 0; m < rows; ++m) {
      s[m] += in * x[t * rows + m];
      y[t * rows + m] += out * s[m];
    }
  }
}

}  // namespace spool::kernels
