#pragma once
// The pieces that blockwise attention is made of: copies of tiles, products of tiles, and what happens to scores between the products.
// Scores [keys, width] hold a query a column. Of these columns the first `active`, a multiple of 32, are worked on; those beyond the tile's
// queries hold numbers that nobody reads.
#include <spool/ops/cpu/attention.h>
#include <spool/ops/cpu/gemm_kernel.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/cpu/vec_math.h>

#include <algorithm>
#include <limits>

namespace spool::kernels::attention_tile {

/// Queries first … first + count − 1 of `heads` neighbouring query heads: row r is query first + r % count of head head0 + r / count.
struct QueryTile {
  int64_t batch, key_head, head0, heads, first, count;
  int64_t rows() const { return heads * count; }
  int64_t head_of(int64_t r) const { return head0 + r / count; }
  int64_t query_of(int64_t r) const { return first + r % count; }
  int64_t row_of(int64_t r, const AttentionSizes& z) const { return (batch * z.heads + head_of(r)) * z.queries + query_of(r); }
};

/// c[rows, columns] (+)= a[rows, k]·b[k, columns]. a has any strides; rows of b and c are contiguous and hold whole half strips of 16
/// columns, which are read and written.
template <class C>
void multiply(int64_t rows, int64_t columns, int64_t k, const C* a, int64_t a_row, int64_t a_column, const C* b, int64_t b_row, C* c, int64_t c_row, bool add) {
  const auto& set = detail::kernels<C>();
  const detail::TileArgs<C> args{k, a_row, a_column, b_row, c_row, C(1), add};
  for (int64_t j = 0; j < columns; j += set.nr) {
    const auto* tiles = set.tile[0][columns - j > set.nr / 2];
    for (int64_t i = 0; i < rows; i += set.mr) tiles[std::min<int64_t>(set.mr, rows - i)](args, a + i * a_row, b + j, c + i * c_row + j);
  }
}

/// to[n, width] = rows [n, size] · scale, zero-padded. Rows lie a multiple of all heads apart, where no hardware foresees them.
template <class T, class C>
SPOOL_CLONES void copy_rows(const T* from, int64_t stride, int64_t step, int64_t n, int64_t size, C* to, int64_t width, C scale) {
  constexpr int64_t ahead = 12, line = 64 / int64_t(sizeof(T));
  for (int64_t j = 0; j < n; ++j, from += stride, to += width) {
    if (step == 1) {
      for (int64_t i = 0; i < size; i += line) __builtin_prefetch(from + ahead * stride + i);
      for (int64_t i = 0; i < size; ++i) to[i] = load(from[i]) * scale;
    } else {
      for (int64_t i = 0; i < size; ++i) to[i] = load(from[i * step]) * scale;
    }
    for (int64_t i = size; i < width; ++i) to[i] = 0;
  }
}

template <class T>
const T* row_at(const Tensor& x, int64_t batch, int64_t at, int64_t head) {
  const Strides& s = x.strides();
  return static_cast<const T*>(x.raw()) + batch * s[0] + at * s[1] + head * s[2];
}
template <class C>
C at3(const Tensor& x, int64_t a, int64_t b, int64_t c) {
  const Strides& s = x.strides();
  return static_cast<const C*>(x.raw())[a * s[0] + b * s[1] + c * s[2]];
}

/// Rows [n, dim] of a key head from row `at`, `width` elements apart, zero-padded.
template <class T, class C>
void load_keys(const Tensor& x, const QueryTile& tile, int64_t at, int64_t n, C* to, int64_t width) {
  copy_rows<T, C>(row_at<T>(x, tile.batch, at, tile.key_head), x.strides()[1], x.strides()[3], n, x.size(3), to, width, C(1));
}

/// Rows [rows, dim] of a tile of queries, times scale, `width` elements apart, zero-padded.
template <class T, class C>
void load_rows(const Tensor& x, const QueryTile& tile, C* to, int64_t width, int64_t dim, C scale) {
  for (int64_t r = 0; r < tile.rows(); r += tile.count)
    copy_rows<T, C>(row_at<T>(x, tile.batch, tile.first, tile.head_of(r)), x.strides()[1], x.strides()[3], tile.count, dim, to + r * width, width, scale);
}

/// The same transposed: [dim, width], columns beyond the tile 0.
template <class T, class C>
void load_columns(const Tensor& x, const QueryTile& tile, C* to, int64_t width, int64_t dim, C scale) {
  const int64_t rows = tile.rows(), step = x.strides()[3];
  for (int64_t r = 0; r < rows; ++r) {
    const T* from = row_at<T>(x, tile.batch, tile.query_of(r), tile.head_of(r));
    for (int64_t d = 0; d < dim; ++d) to[d * width + r] = load(from[d * step]) * scale;
  }
  for (int64_t d = 0; d < dim; ++d) std::fill(to + d * width + rows, to + (d + 1) * width, C(0));
}

/// x[tile, dim] = rows · (factor of the row, where given) · scale.
template <class T, class C>
void store_rows(const Tensor& x, const QueryTile& tile, const C* from, int64_t width, const C* factor, C scale) {
  const int64_t dim = x.size(3);
  for (int64_t r = 0; r < tile.rows(); ++r) {
    T* to = const_cast<T*>(row_at<T>(x, tile.batch, tile.query_of(r), tile.head_of(r)));
    const C by = factor ? factor[r] * scale : scale;
    for (int64_t d = 0; d < dim; ++d) to[d] = store<T>(from[r * width + d] * by);
  }
}

/// sum[r] = x[tile row r]·rows[r].
template <class T, class C>
void row_products(const Tensor& x, const QueryTile& tile, const C* rows, int64_t width, int64_t dim, C* sum) {
  for (int64_t r = 0; r < tile.rows(); ++r) {
    const T* a = row_at<T>(x, tile.batch, tile.query_of(r), tile.head_of(r));
    C total = 0;
    for (int64_t d = 0; d < dim; ++d) total += load(a[d * x.strides()[3]]) * rows[r * width + d];
    sum[r] = total;
  }
}

/// score = −∞ outside of rows first … last of a column.
template <class C>
SPOOL_CLONES void hide(C* score, int64_t n, int64_t active, int64_t width, const C* first, const C* last) {
  for (int64_t j = 0; j < n; ++j) {
    C* row = score + j * width;
    const C place = static_cast<C>(j);
    for (int64_t c = 0; c < active; ++c) row[c] = (place >= first[c]) & (place <= last[c]) ? row[c] : -std::numeric_limits<C>::infinity();
  }
}

/// One step of the online softmax down the columns: scores become e^{score − largest}, with the largest so far; total is their sum so far;
/// shrink is what earlier results must be multiplied by. Returns whether some shrink is not 1.
template <class C>
SPOOL_CLONES bool softmax_step(C* score, int64_t n, int64_t active, int64_t width, C* largest, C* total, C* shrink) {
  constexpr int lanes = 32;
  constexpr C nothing = -std::numeric_limits<C>::infinity();
  C moved = 0;
  for (int64_t at = 0; at < active; at += lanes) {
    C top[lanes], sum[lanes], base[lanes];
    for (int c = 0; c < lanes; ++c) top[c] = largest[at + c];
    for (int64_t j = 0; j < n; ++j) {
      const C* row = score + j * width + at;
      for (int c = 0; c < lanes; ++c) top[c] = row[c] > top[c] ? row[c] : top[c];
    }
    for (int c = 0; c < lanes; ++c) {
      base[c] = top[c] == nothing ? C(0) : top[c];  // nothing seen yet: every term below is e^{−∞} = 0
      sum[c] = 0;
    }
    for (int64_t j = 0; j < n; ++j) {
      C* row = score + j * width + at;
      for (int c = 0; c < lanes; ++c) {
        const C p = vexp(row[c] - base[c]);
        row[c] = p;
        sum[c] += p;
      }
    }
    for (int c = 0; c < lanes; ++c) {
      const C by = vexp(largest[at + c] - base[c]);
      shrink[at + c] = by;
      total[at + c] = total[at + c] * by + sum[c];
      largest[at + c] = top[c];
      moved += by == C(1) ? C(0) : C(1);
    }
  }
  return moved > 0;
}

/// total becomes log Σ e^score, factor 1 / Σ e^{score − largest}; −∞ and 0 where nothing was seen.
template <class C>
void finish_rows(C* total, const C* largest, C* factor, int64_t rows) {
  for (int64_t c = 0; c < rows; ++c) {
    factor[c] = total[c] == C(0) ? C(0) : C(1) / total[c];
    total[c] = total[c] == C(0) ? -std::numeric_limits<C>::infinity() : largest[c] + std::log(total[c]);
  }
}

template <class C>
SPOOL_CLONES void shrink_rows(C* rows, int64_t n, int64_t width, const C* factor) {
  for (int64_t r = 0; r < n; ++r) {
    const C by = factor[r];
    if (by == C(1)) continue;
    for (int64_t c = 0; c < width; ++c) rows[r * width + c] *= by;
  }
}

/// score = P = e^{score − lse}; dscore = P·(dscore − delta).
template <class C>
SPOOL_CLONES void score_gradient(C* score, C* dscore, int64_t n, int64_t active, int64_t width, const C* lse, const C* delta) {
  for (int64_t j = 0; j < n; ++j) {
    C *p = score + j * width, *d = dscore + j * width;
    for (int64_t c = 0; c < active; ++c) {
      const C value = vexp(p[c] - lse[c]);
      p[c] = value;
      d[c] = value * (d[c] - delta[c]);
    }
  }
}

/// to[n, count], rows to_row apart, += rows.
template <class C>
SPOOL_CLONES void add_rows(const C* rows, int64_t n, int64_t width, int64_t count, C* to, int64_t to_row) {
  for (int64_t j = 0; j < n; ++j)
    for (int64_t c = 0; c < count; ++c) to[j * to_row + c] += rows[j * width + c];
}

/// to[rows, columns] += a[rows, k]·b[k, columns]; by way of `space` where a row holds no whole strips. The same bits either way.
template <class C>
void add_product(int64_t rows, int64_t columns, int64_t k, const C* a, int64_t a_row, const C* b, int64_t b_row, C* space, C* to, int64_t to_row) {
  if (columns == b_row) return multiply<C>(rows, columns, k, a, a_row, 1, b, b_row, to, to_row, true);
  multiply<C>(rows, columns, k, a, a_row, 1, b, b_row, space, b_row, false);
  add_rows(space, rows, b_row, columns, to, to_row);
}

}  // namespace spool::kernels::attention_tile
