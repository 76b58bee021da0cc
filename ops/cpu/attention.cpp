#include <spool/ops/cpu/attention.h>
#include <spool/ops/cpu/attention_tile.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

namespace spool::kernels {

using namespace attention_tile;

AttentionSizes attention_sizes(const Shape& q, const Shape& k, const Shape& v) { return {q[0], q[1], k[1], q[2], k[2], q[3], v[3]}; }

namespace {

/// Rows are padded to whole strips of any instruction set.
constexpr int64_t padded(int64_t n) { return (n + 31) / 32 * 32; }

/// Sums over which the queries of one key head are shared out in backward.
constexpr int64_t enough_sums = 8;

/// How the queries are cut: the same for any number of threads.
struct Cut {
  AttentionSizes sizes;
  int64_t query_tile, key_tile;
  int64_t heads_a_tile;  ///< > 1 where a head has few queries.
  int64_t rows_a_tile;   ///< Queries of a head in a tile.

  Cut(const AttentionSizes& z, const AttentionOptions& o) : sizes(z) {
    const int64_t wide = std::max(z.dim, z.value_dim);
    const int64_t fit = wide <= 128 ? 96 : wide <= 256 ? 48 : 24;
    query_tile = o.query_tile > 0 ? o.query_tile : fit;
    key_tile = std::min(o.key_tile > 0 ? o.key_tile : fit, std::max<int64_t>(z.keys, 1));
    rows_a_tile = std::min(query_tile, std::max<int64_t>(z.queries, 1));
    heads_a_tile = std::clamp<int64_t>(query_tile / rows_a_tile, 1, std::max<int64_t>(z.group(), 1));
  }
  int64_t head_tiles() const { return (sizes.group() + heads_a_tile - 1) / heads_a_tile; }
  int64_t row_tiles() const { return (sizes.queries + rows_a_tile - 1) / rows_a_tile; }
  int64_t tiles() const { return head_tiles() * row_tiles(); }  ///< Of one key head.
  int64_t key_heads() const { return sizes.batch * sizes.key_heads; }
  int64_t width() const { return padded(rows_a_tile * heads_a_tile); }
  int64_t sums() const { return std::max<int64_t>(1, std::min((enough_sums + key_heads() - 1) / std::max<int64_t>(key_heads(), 1), tiles())); }

  QueryTile tile(int64_t key_head, int64_t t) const {
    const int64_t head = t / row_tiles() * heads_a_tile, first = t % row_tiles() * rows_a_tile;
    const int64_t in_batch = key_head % sizes.key_heads;
    return {key_head / sizes.key_heads, in_batch, in_batch * sizes.group() + head, std::min(heads_a_tile, sizes.group() - head), first,
            std::min(rows_a_tile, sizes.queries - first)};
  }
};

/// Where the parts of one thread's scratch begin, in elements; each is padded to whole cache lines.
struct Layout {
  int64_t width, dim, value_dim;  // of a tile's rows
  int64_t qt, out, key, value, score, column, q = 0, dot = 0, dscore = 0, dq = 0, product = 0, end = 0;
  Layout(const Cut& cut, bool backward) : width(cut.width()), dim(padded(cut.sizes.dim)), value_dim(padded(cut.sizes.value_dim)) {
    const auto take = [&](int64_t n) { return std::exchange(end, end + n); };
    const int64_t keys = cut.key_tile;
    qt = take(dim * width);
    out = take(width * value_dim);  // backward: dout
    key = take(keys * dim);
    value = take(keys * value_dim);
    score = take(keys * width);
    column = take(5 * width);
    if (!backward) return;
    q = take(width * dim);
    dot = take(value_dim * width);
    dscore = take(keys * width);
    dq = take(width * dim);
    product = take(keys * std::max(dim, value_dim));
  }
};
template <class C>
struct Space {
  int64_t width, dim, value_dim;
  C *qt, *out, *key, *value, *score, *column, *q, *dot, *dscore, *dq, *product;
  Space(const Layout& l, C* base)
      : width(l.width), dim(l.dim), value_dim(l.value_dim), qt(base + l.qt), out(base + l.out), key(base + l.key), value(base + l.value), score(base + l.score), column(base + l.column),
        q(base + l.q), dot(base + l.dot), dscore(base + l.dscore), dq(base + l.dq), product(base + l.product) {}
};

/// Runs f(unit, space) for all units, each thread in a space of its own.
template <class C, class F>
void each_unit(const Cut& cut, int64_t units, bool backward, std::span<std::byte> scratch, double work, F&& f) {
  if (units == 0) return;
  const Layout layout(cut, backward);
  const int64_t lanes = std::min<int64_t>(units, num_threads());
  std::atomic<int64_t> next{0};
  C* base = reinterpret_cast<C*>(scratch.data());
  parallel_blocks(lanes, int64_t(work / double(lanes)) + 1, [&](int64_t lane) {
    const Space<C> space(layout, base + lane * layout.end);
    for (int64_t unit; (unit = next.fetch_add(1, std::memory_order_relaxed)) < units;) f(unit, space);
  });
}

/// The keys that some query of a tile sees, [begin, end), begin at a tile's edge.
struct KeyRange {
  int64_t begin, end;
};
KeyRange keys_seen(const Cut& cut, const QueryTile& t, const AttentionOptions& o) {
  const int64_t low = o.q_offset + t.first - o.k_offset, high = low + t.count - 1;  // query positions, counted from key 0
  int64_t begin = 0, end = cut.sizes.keys;
  if (o.causal) end = std::min(end, high + 1);
  if (o.window > 0) {
    begin = std::max(begin, low - o.window + 1);
    if (!o.causal) end = std::min(end, high + o.window);
  }
  begin = begin / cut.key_tile * cut.key_tile;
  return {begin, std::max(begin, end)};
}

/// Columns' first and last visible row of a tile of keys at `at`, and whether that leaves any pair out.
template <class C>
bool visible_rows(const Cut& cut, const QueryTile& t, const AttentionOptions& o, int64_t at, int64_t n, C* first, C* last) {
  const int64_t low = o.q_offset + t.first - o.k_offset - at, high = low + t.count - 1;
  const bool whole = (!o.causal || n - 1 <= low) && (o.window <= 0 || (high < o.window && (o.causal || n - 1 - low < o.window)));
  if (whole) return false;
  for (int64_t c = 0; c < cut.width(); ++c) {
    const int64_t place = low + (c < t.rows() ? c % t.count : 0);
    const int64_t from = o.window > 0 ? place - o.window + 1 : 0, to = o.causal ? place : o.window > 0 ? place + o.window - 1 : n;
    first[c] = static_cast<C>(std::clamp<int64_t>(from, 0, n));
    last[c] = static_cast<C>(std::clamp<int64_t>(to, -1, n));
  }
  return true;
}

double scale_of(const AttentionSizes& z, const AttentionOptions& o) { return o.scale != 0 ? o.scale : 1 / std::sqrt(double(z.dim)); }

template <class T>
void forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse, const AttentionOptions& o, std::span<std::byte> scratch) {
  using C = compute_t<T>;
  const AttentionSizes z = attention_sizes(q.shape(), k.shape(), v.shape());
  const Cut cut(z, o);
  const C scale = static_cast<C>(scale_of(z, o));
  C* row_lse = static_cast<C*>(lse.raw());
  each_unit<C>(cut, cut.key_heads() * cut.tiles(), false, scratch, 2.0 * visible_pairs(z, o) * double(z.batch * z.heads * (z.dim + z.value_dim)), [&](int64_t unit, const Space<C>& s) {
    // Later queries see more keys when causal: they go first, so that no thread is left with a long one at the end.
    const int64_t t = cut.tiles() - 1 - unit / cut.key_heads();
    const QueryTile tile = cut.tile(unit % cut.key_heads(), t);
    const int64_t rows = tile.rows(), w = s.width, active = padded(rows);
    C *largest = s.column, *total = largest + w, *shrink = total + w, *first = shrink + w, *last = first + w;
    load_columns<T, C>(q, tile, s.qt, w, z.dim, scale);
    std::fill_n(s.out, rows * s.value_dim, C(0));
    std::fill_n(largest, w, -std::numeric_limits<C>::infinity());
    std::fill_n(total, w, C(0));
    const KeyRange keys = keys_seen(cut, tile, o);
    for (int64_t at = keys.begin; at < keys.end; at += cut.key_tile) {
      const int64_t n = std::min(cut.key_tile, keys.end - at);
      load_keys<T, C>(k, tile, at, n, s.key, s.dim);
      load_keys<T, C>(v, tile, at, n, s.value, s.value_dim);
      multiply<C>(n, rows, z.dim, s.key, s.dim, 1, s.qt, w, s.score, w, false);
      if (visible_rows(cut, tile, o, at, n, first, last)) hide(s.score, n, active, w, first, last);
      if (softmax_step(s.score, n, active, w, largest, total, shrink)) shrink_rows(s.out, rows, s.value_dim, shrink);
      multiply<C>(rows, z.value_dim, n, s.score, 1, w, s.value, s.value_dim, s.out, s.value_dim, true);
    }
    finish_rows(total, largest, shrink, rows);  // shrink = 1/total, or 0; total = lse
    for (int64_t r = 0; r < rows; ++r) row_lse[tile.row_of(r, z)] = total[r];
    store_rows<T, C>(out, tile, s.out, s.value_dim, shrink, C(1));
  });
}

template <class T>
void backward(const AttentionGradient& x, const AttentionOptions& o, std::span<std::byte> scratch) {
  using C = compute_t<T>;
  const AttentionSizes z = attention_sizes(x.q.shape(), x.k.shape(), x.v.shape());
  const Cut cut(z, o);
  const C scale = static_cast<C>(scale_of(z, o));
  const int64_t sums = cut.sums(), units = cut.key_heads() * sums;
  constexpr bool direct = std::is_same_v<T, C>;  // the first sum is the result itself
  const int64_t kept = direct ? sums - 1 : sums, row = z.dim + z.value_dim;
  const int64_t lanes = std::min<int64_t>(units, num_threads());
  C* gathered = reinterpret_cast<C*>(scratch.data()) + lanes * Layout(cut, true).end;
  const auto gathered_at = [&](int64_t key_head, int64_t part) { return gathered + (key_head * kept + part) * z.keys * row; };

  each_unit<C>(cut, units, true, scratch, 5.0 * visible_pairs(z, o) * double(z.batch * z.heads * row), [&](int64_t unit, const Space<C>& s) {
    const int64_t key_head = unit / sums, part = unit % sums, w = s.width;
    const int64_t b = key_head / z.key_heads, h = key_head % z.key_heads;
    C *dk, *dv;
    int64_t dk_row, dv_row;
    if (direct && part == 0) {
      dk = static_cast<C*>(x.dk.raw()) + (b * z.keys * z.key_heads + h) * z.dim;
      dv = static_cast<C*>(x.dv.raw()) + (b * z.keys * z.key_heads + h) * z.value_dim;
      dk_row = z.key_heads * z.dim;
      dv_row = z.key_heads * z.value_dim;
    } else {
      dk = gathered_at(key_head, part - (direct ? 1 : 0));
      dv = dk + z.dim;
      dk_row = dv_row = row;
    }
    for (int64_t j = 0; j < z.keys; ++j) {
      std::fill_n(dk + j * dk_row, z.dim, C(0));
      std::fill_n(dv + j * dv_row, z.value_dim, C(0));
    }
    C *lse = s.column, *delta = lse + w, *first = delta + w, *last = first + w, *dout = s.out, *dq = s.dq, *product = s.product;
    for (int64_t t = part; t < cut.tiles(); t += sums) {
      const QueryTile tile = cut.tile(key_head, t);
      const int64_t rows = tile.rows(), active = padded(rows);
      load_columns<T, C>(x.q, tile, s.qt, w, z.dim, scale);
      load_rows<T, C>(x.q, tile, s.q, s.dim, z.dim, scale);
      load_columns<T, C>(x.dout, tile, s.dot, w, z.value_dim, C(1));
      load_rows<T, C>(x.dout, tile, dout, s.value_dim, z.value_dim, C(1));
      for (int64_t r = 0; r < w; ++r) {
        // A query that saw nothing has lse −∞; +∞ makes its probabilities 0.
        const C value = r < rows ? at3<C>(x.lse, tile.batch, tile.head_of(r), tile.query_of(r)) : C(0);
        lse[r] = value == -std::numeric_limits<C>::infinity() ? -value : value;
        delta[r] = 0;
      }
      row_products<T, C>(x.out, tile, dout, s.value_dim, z.value_dim, delta);
      if (x.dlse.defined())
        for (int64_t r = 0; r < rows; ++r) delta[r] -= at3<C>(x.dlse, tile.batch, tile.head_of(r), tile.query_of(r));
      std::fill_n(dq, rows * s.dim, C(0));
      const KeyRange keys = keys_seen(cut, tile, o);
      for (int64_t at = keys.begin; at < keys.end; at += cut.key_tile) {
        const int64_t n = std::min(cut.key_tile, keys.end - at);
        load_keys<T, C>(x.k, tile, at, n, s.key, s.dim);
        load_keys<T, C>(x.v, tile, at, n, s.value, s.value_dim);
        multiply<C>(n, rows, z.dim, s.key, s.dim, 1, s.qt, w, s.score, w, false);
        multiply<C>(n, rows, z.value_dim, s.value, s.value_dim, 1, s.dot, w, s.dscore, w, false);
        if (visible_rows(cut, tile, o, at, n, first, last)) hide(s.score, n, active, w, first, last);
        score_gradient(s.score, s.dscore, n, active, w, lse, delta);
        add_product(n, z.value_dim, rows, s.score, w, dout, s.value_dim, product, dv + at * dv_row, dv_row);
        add_product(n, z.dim, rows, s.dscore, w, s.q, s.dim, product, dk + at * dk_row, dk_row);
        multiply<C>(rows, z.dim, n, s.dscore, 1, w, s.key, s.dim, dq, s.dim, true);
      }
      store_rows<T, C>(x.dq, tile, dq, s.dim, nullptr, scale);
    }
  });

  if (kept == 0 || z.keys == 0) return;
  T *dk = static_cast<T*>(x.dk.raw()), *dv = static_cast<T*>(x.dv.raw());
  parallel_range(cut.key_heads() * z.keys, std::max<int64_t>(1, 16384 / row), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t key_head = i / z.keys, j = i % z.keys;
      const int64_t place = (key_head / z.key_heads * z.keys + j) * z.key_heads + key_head % z.key_heads;
      for (int64_t c = 0; c < row; ++c) {
        T& to = c < z.dim ? dk[place * z.dim + c] : dv[place * z.value_dim + c - z.dim];
        C total = direct ? static_cast<C>(to) : C(0);
        for (int64_t part = 0; part < kept; ++part) total += gathered_at(key_head, part)[j * row + c];
        to = static_cast<T>(total);
      }
    }
  });
}

}  // namespace

double visible_pairs(const AttentionSizes& z, const AttentionOptions& o) {
  double pairs = 0;
  for (int64_t i = 0; i < z.queries; ++i) {
    const int64_t place = o.q_offset + i - o.k_offset;
    int64_t begin = 0, end = z.keys;
    if (o.causal) end = std::min(end, place + 1);
    if (o.window > 0) {
      begin = std::max(begin, place - o.window + 1);
      if (!o.causal) end = std::min(end, place + o.window);
    }
    pairs += double(std::max<int64_t>(end - begin, 0));
  }
  return pairs;
}

int64_t attention_scratch(const AttentionSizes& z, Dtype dtype, const AttentionOptions& o, bool backward) {
  const Cut cut(z, o);
  const int64_t size = dtype == Dtype::f64 ? 8 : 4;
  const int64_t units = backward ? cut.key_heads() * cut.sums() : cut.key_heads() * cut.tiles();
  int64_t elements = std::min<int64_t>(units, num_threads()) * Layout(cut, backward).end;
  if (backward) elements += cut.key_heads() * (dtype == Dtype::f32 || dtype == Dtype::f64 ? cut.sums() - 1 : cut.sums()) * z.keys * (z.dim + z.value_dim);
  return elements * size;
}

void attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse, const AttentionOptions& options, std::span<std::byte> scratch) {
  visit_float("attention", q.dtype(), [&]<class T>() { forward<T>(q, k, v, out, lse, options, scratch); });
}

void attention_backward(const AttentionGradient& x, const AttentionOptions& options, std::span<std::byte> scratch) {
  visit_float("attention_backward", x.q.dtype(), [&]<class T>() { backward<T>(x, options, scratch); });
}

}  // namespace spool::kernels
