#include <spool/ops/cpu/attention_materialised.h>
#include <spool/ops/cpu/gemm.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace spool::kernels {
namespace {

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
bool is_half(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::f16; }
Dtype compute_type(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

/// Products of one head, for their scratch.
std::vector<GemmShape> products(const AttentionSizes& z, bool backward) {
  if (!backward) return {{z.queries, z.keys, z.dim}, {z.queries, z.value_dim, z.keys}};
  return {{z.queries, z.keys, z.value_dim}, {z.keys, z.value_dim, z.queries}, {z.queries, z.dim, z.keys}, {z.keys, z.dim, z.queries}};
}

/// Parts of the scratch, in bytes.
struct Parts {
  int64_t scores, rows, keys, values, products = 0;
  Parts(const AttentionSizes& z, Dtype dtype, bool backward) {
    const int64_t size = int64_t(dtype_size(compute_type(dtype)));
    scores = rounded(z.queries * z.keys * size);
    rows = is_half(dtype) ? rounded(z.queries * std::max(z.dim, z.value_dim) * size) : 0;
    keys = is_half(dtype) && backward ? rounded(z.keys * z.dim * size) : 0;
    values = is_half(dtype) && backward ? rounded(z.keys * z.value_dim * size) : 0;
    for (const GemmShape& shape : kernels::products(z, backward)) products = std::max(products, int64_t(gemm_scratch_bytes(shape, compute_type(dtype))));
  }
  int64_t total() const { return scores + rows + keys + values + products; }
};

/// One head of a tensor [batch, length, heads, dim] as a matrix.
template <class T>
GemmInput<T> head_of(const Tensor& t, int64_t b, int64_t h) {
  return {static_cast<const T*>(t.raw()) + b * t.strides()[0] + h * t.strides()[2], t.strides()[1], t.strides()[3], 0};
}
template <class T>
GemmInput<T> turned(const GemmInput<T>& m) { return {m.data, m.col_stride, m.row_stride, 0}; }

/// Where a product's rows go: into the tensor itself, or into f32 and rounded afterwards.
template <class T, class C>
struct Target {
  T* data;
  C* wide;
  int64_t rows, columns, stride;
  Target(const Tensor& t, int64_t b, int64_t h, std::byte* scratch)
      : data(static_cast<T*>(t.raw()) + b * t.strides()[0] + h * t.strides()[2]), wide(reinterpret_cast<C*>(scratch)), rows(t.size(1)), columns(t.size(3)), stride(t.strides()[1]) {}
  GemmOutput<C> output() const {
    if constexpr (std::is_same_v<T, C>) return {data, stride, 0};
    else return {wide, columns, 0};
  }
  void finish() const {
    if constexpr (!std::is_same_v<T, C>)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) data[i * stride + j] = static_cast<T>(wide[i * columns + j]);
  }
};

/// Keys [first, last) that query i sees.
struct Range {
  int64_t first, last;
};
Range visible_keys(const AttentionSizes& z, const AttentionOptions& o, int64_t i) {
  const int64_t place = o.q_offset + i - o.k_offset;
  Range r{0, z.keys};
  if (o.causal) r.last = std::min(r.last, place + 1);
  if (o.window) {
    r.first = std::max(r.first, place - o.window + 1);
    r.last = std::min(r.last, place + o.window);
  }
  r.first = std::clamp<int64_t>(r.first, 0, z.keys);
  r.last = std::clamp<int64_t>(r.last, r.first, z.keys);
  return r;
}

/// Softmax of a row of scores in place, 0 where nothing is seen, rounded to T.
template <class T, class C>
void softmax_row(C* scores, int64_t keys, Range seen) {
  C highest = -std::numeric_limits<C>::infinity(), total = 0;
  for (int64_t j = seen.first; j < seen.last; ++j) highest = std::max(highest, scores[j]);
  for (int64_t j = seen.first; j < seen.last; ++j) total += scores[j] = std::exp(scores[j] - highest);
  for (int64_t j = 0; j < keys; ++j) scores[j] = j < seen.first || j >= seen.last ? C(0) : static_cast<C>(static_cast<T>(scores[j] / total));
}

double scale_of(const AttentionSizes& z, const AttentionOptions& o) { return o.scale != 0 ? o.scale : 1 / std::sqrt(double(z.dim)); }

}  // namespace

int64_t materialised_scratch(const AttentionSizes& sizes, Dtype dtype, bool backward) { return Parts(sizes, dtype, backward).total(); }

void materialised_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& weights, const AttentionOptions& options, std::span<std::byte> scratch) {
  const AttentionSizes z = attention_sizes(q.shape(), k.shape(), v.shape());
  if (out.numel() == 0) return;
  visit_float("attention_materialised", q.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const Parts parts(z, q.dtype(), false);
    C* scores = reinterpret_cast<C*>(scratch.data());
    const std::span<std::byte> rest = scratch.subspan(size_t(parts.scores + parts.rows));
    for (int64_t b = 0; b < z.batch; ++b)
      for (int64_t h = 0; h < z.heads; ++h) {
        const GemmInput<T> keys = head_of<T>(k, b, h / z.group()), values = head_of<T>(v, b, h / z.group());
        gemm({z.queries, z.keys, z.dim}, head_of<T>(q, b, h), turned(keys), GemmOutput<C>{scores, z.keys, 0}, {.alpha = C(scale_of(z, options))}, rest);
        T* kept = weights.defined() ? static_cast<T*>(weights.raw()) + (b * z.heads + h) * z.queries * z.keys : nullptr;
        parallel_range(z.queries, std::max<int64_t>(1, 4096 / std::max<int64_t>(z.keys, 1)), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            softmax_row<T>(scores + i * z.keys, z.keys, visible_keys(z, options, i));
            if (kept) std::transform(scores + i * z.keys, scores + (i + 1) * z.keys, kept + i * z.keys, [](C p) { return static_cast<T>(p); });
          }
        });
        const Target<T, C> target(out, b, h, scratch.data() + parts.scores);
        gemm({z.queries, z.value_dim, z.keys}, GemmInput<C>{scores, z.keys, 1, 0}, values, target.output(), {}, rest);
        target.finish();
      }
  });
}

void materialised_backward(const MaterialisedGradient& x, const AttentionOptions& options, std::span<std::byte> scratch) {
  const AttentionSizes z = attention_sizes(x.q.shape(), x.k.shape(), x.v.shape());
  visit_float("attention_materialised_backward", x.q.dtype(), [&]<class T>() {
    using C = compute_t<T>;
    const Parts parts(z, x.q.dtype(), true);
    C* scores = reinterpret_cast<C*>(scratch.data());
    std::byte *rows = scratch.data() + parts.scores, *keys = rows + parts.rows, *values = keys + parts.keys;
    const std::span<std::byte> rest = scratch.subspan(size_t(parts.scores + parts.rows + parts.keys + parts.values));
    const C scale = C(scale_of(z, options));
    if (z.heads == 0) {  // keys that no head reads
      fill(x.dk, 0);
      fill(x.dv, 0);
    }
    for (int64_t b = 0; b < z.batch; ++b)
      for (int64_t h = 0; h < z.heads; ++h) {
        const int64_t kh = h / z.group();
        const bool first = h % z.group() == 0;
        const GemmInput<T> dout = head_of<T>(x.dout, b, h), q = head_of<T>(x.q, b, h), k = head_of<T>(x.k, b, kh), v = head_of<T>(x.v, b, kh);
        const Strides& ws = x.weights.strides();
        const GemmInput<T> p{static_cast<const T*>(x.weights.raw()) + b * ws[0] + h * ws[1], ws[2], ws[3], 0};
        const Target<T, C> dq(x.dq, b, h, rows), dk(x.dk, b, kh, keys), dv(x.dv, b, kh, values);
        gemm({z.keys, z.value_dim, z.queries}, turned(p), dout, dv.output(), {.accumulate = !first}, rest);
        gemm({z.queries, z.keys, z.value_dim}, dout, turned(v), GemmOutput<C>{scores, z.keys, 0}, {}, rest);
        parallel_range(z.queries, std::max<int64_t>(1, 4096 / std::max<int64_t>(z.keys, 1)), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            C* ds = scores + i * z.keys;
            const auto w = [row = p.data + i * p.row_stride, step = p.col_stride](int64_t j) { return static_cast<C>(row[j * step]); };
            C mean = 0;
            for (int64_t j = 0; j < z.keys; ++j)
              if (w(j) != 0) mean += ds[j] * w(j);  // nothing comes from what is not seen, whatever its values
            for (int64_t j = 0; j < z.keys; ++j) ds[j] = w(j) == 0 ? C(0) : w(j) * (ds[j] - mean) * scale;
          }
        });
        const GemmInput<C> ds{scores, z.keys, 1, 0};
        gemm({z.queries, z.dim, z.keys}, ds, k, dq.output(), {}, rest);
        gemm({z.keys, z.dim, z.queries}, turned(ds), q, dk.output(), {.accumulate = !first}, rest);
        dq.finish();
        if (h % z.group() != z.group() - 1) continue;
        dk.finish();
        dv.finish();
      }
  });
}

}  // namespace spool::kernels
