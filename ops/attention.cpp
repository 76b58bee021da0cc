#include <spool/autograd/saved.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/attention.h>
#include <spool/ops/cast.h>
#include <spool/ops/cpu/attention.h>
#include <spool/ops/expand.h>
#include <spool/ops/matmul.h>
#include <spool/ops/reshape.h>
#include <spool/ops/scalar.h>
#include <spool/ops/softmax.h>
#include <spool/ops/where.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <cmath>

namespace spool {
namespace {

using kernels::attention_sizes;
using kernels::AttentionSizes;

Dtype statistics_type(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

using detail::check_attention;
}  // namespace

void detail::check_attention(std::string_view op, const Metas& in, const AttentionOptions& o) {
  const char* names[] = {"q", "k", "v"};
  for (int i = 0; i < 3; ++i)
    if (in[size_t(i)].shape.size() != 4) fail<ShapeError>(op, ": ", names[i], " must be [batch, length, heads, dim], got ", in[size_t(i)].shape);
  const Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape;
  if (q[3] != k[3] || q[3] == 0) fail<ShapeError>(op, ": q ", q, " and k ", k, " need the same head size, at least 1");
  if (q[0] != k[0] || k[0] != v[0]) fail<ShapeError>(op, ": q ", q, ", k ", k, " and v ", v, " need the same batch");
  if (k[1] != v[1] || k[2] != v[2]) fail<ShapeError>(op, ": k ", k, " and v ", v, " need the same length and heads");
  if (k[2] == 0 || q[2] % k[2] != 0) fail<ShapeError>(op, ": the heads of q ", q, " must be a multiple of those of k ", k);
  if (o.window < 0 || o.query_tile < 0 || o.key_tile < 0) fail<ShapeError>(op, ": window and tiles must be 0 or above, got ", o.window, ", ", o.query_tile, ", ", o.key_tile);
  same_float(op, {in[0], in[1], in[2]});
}

namespace {

Meta out_meta(const Metas& in) { return {Shape{in[0].shape[0], in[0].shape[1], in[0].shape[2], in[2].shape[3]}, in[0].dtype, in[0].device}; }
Meta lse_meta(const Metas& in) { return {Shape{in[0].shape[0], in[0].shape[2], in[0].shape[1]}, statistics_type(in[0].dtype), in[0].device}; }

/// inputs: dout, dlse?, q, k, v, out, lse. outputs: dq, dk, dv.
struct AttentionBackward {
  static constexpr auto name = "attention_backward";
  static constexpr bool strided = true;
  static constexpr auto no_gradient = "it is the fused first derivative of attention";
  using Attrs = AttentionOptions;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Metas qkv{in[2], in[3], in[4]};
    check_attention(name, qkv, attrs);
    const auto expect = [](const char* what, const Meta& got, const Meta& expected) {
      if (got.shape != expected.shape) fail<ShapeError>(name, ": ", what, " must be ", expected, ", got ", got);
      if (got.dtype != expected.dtype) fail<DtypeError>(name, ": ", what, " must be ", expected, ", got ", got);
    };
    expect("the gradient", in[0], out_meta(qkv));
    if (in[1].defined) expect("the gradient of lse", in[1], lse_meta(qkv));
    expect("the result", in[5], out_meta(qkv));
    expect("lse", in[6], lse_meta(qkv));
    return {qkv, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) {
    return kernels::attention_scratch(attention_sizes(in[2].shape, in[3].shape, in[4].shape), in[2].dtype, attrs, true);
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    kernels::attention_backward({k.in(0), k.in(1), k.in(2), k.in(3), k.in(4), k.in(5), k.in(6), k.out(0), k.out(1), k.out(2)}, attrs, k.scratch);
  }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    const AttentionSizes z = attention_sizes(in[2].shape, in[3].shape, in[4].shape);
    return {(6.0 * double(z.dim) + 4.0 * double(z.value_dim)) * double(z.batch * z.heads) * kernels::visible_pairs(z, attrs), 3.0 * double(in[2].nbytes() + in[3].nbytes() + in[4].nbytes())};
  }
  static std::vector<Sample> samples(Rng& rng) {
    const auto sample = [&](const char* label, Shape q, Shape k, const Attrs& attrs, bool dlse) {
      Tensors qkv{rng.normal(q), rng.normal(k), rng.normal(k)};
      const AttentionResult r = attention_with_lse(qkv[0], qkv[1], qkv[2], attrs);
      return Sample{label, {rng.normal(q), dlse ? rng.normal(r.lse.shape()) : Tensor(), qkv[0], qkv[1], qkv[2], r.out, r.lse}, attrs_ptr(attrs), false, true};
    };
    return {sample("causal, grouped", {2, 7, 6, 5}, {2, 7, 3, 5}, {.query_tile = 4, .key_tile = 3}, true), sample("window, offsets", {1, 5, 2, 4}, {1, 9, 1, 4}, {.window = 3, .q_offset = 4}, false),
            sample("full", {1, 3, 4, 2}, {1, 6, 4, 2}, {.causal = false}, true), sample("no queries", {1, 0, 2, 3}, {1, 4, 2, 3}, {}, false)};
  }
  static std::vector<BadSample> bad() {
    const Tensor q = zeros({1, 2, 1, 3}), lse = zeros({1, 1, 2});
    return {{"lse", {q, {}, q, q, q, q, zeros({1, 2, 1})}, {}, "lse must be f32[1, 1, 2], got f32[1, 2, 1]"},
            {"gradient", {zeros({1, 2, 1, 4}), {}, q, q, q, q, lse}, {}, "the gradient must be f32[1, 2, 1, 3], got f32[1, 2, 1, 4]"}};
  }
};
REGISTER_OP(AttentionBackward);

/// inputs: q, k, v. outputs: out, lse.
struct Attention {
  static constexpr auto name = "attention";
  static constexpr bool strided = true;
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = AttentionOptions;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    check_attention(name, in, attrs);
    return {{out_meta(in), lse_meta(in)}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) { return kernels::attention_scratch(attention_sizes(in[0].shape, in[1].shape, in[2].shape), in[0].dtype, attrs, false); }
  static void cpu(const Kernel& k, const Attrs& attrs) { kernels::attention_forward(k.in(0), k.in(1), k.in(2), k.out(0), k.out(1), attrs, k.scratch); }
  static Saves saves(Need) { return Saves().input(0).input(1).input(2).output(0).output(1); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensors all = apply_all<AttentionBackward>({s.grad(0), s.has_grad(1) ? s.grad(1) : Tensor(), s.input(0), s.input(1), s.input(2), s.output(0), s.output(1)}, attrs);
    for (int i = 0; i < 3; ++i)
      if (!s.needs(i)) all[size_t(i)] = {};
    return all;
  }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    const AttentionSizes z = attention_sizes(in[0].shape, in[1].shape, in[2].shape);
    return {2.0 * double(z.dim + z.value_dim) * double(z.batch * z.heads) * kernels::visible_pairs(z, attrs), 2.0 * double(in[0].nbytes()) + double(in[1].nbytes() + in[2].nbytes())};
  }
  static std::vector<Sample> samples(Rng& rng) {
    const auto sample = [&](const char* label, Shape q, Shape k, Shape v, const Attrs& attrs, bool finite = true) {
      return Sample{label, {rng.normal(q), rng.normal(k), rng.normal(v)}, attrs_ptr(attrs), finite, false};  // lse of a query that sees nothing is −∞
    };
    return {sample("causal", {2, 7, 2, 5}, {2, 7, 2, 5}, {2, 7, 2, 5}, {}),
            sample("grouped, small tiles", {1, 9, 6, 4}, {1, 9, 3, 4}, {1, 9, 3, 3}, {.query_tile = 4, .key_tile = 3}),
            sample("full", {1, 4, 4, 5}, {1, 6, 2, 5}, {1, 6, 2, 5}, {.causal = false}),
            sample("window, with a cache", {1, 3, 2, 4}, {1, 8, 2, 4}, {1, 8, 2, 4}, {.window = 4, .q_offset = 5}),
            sample("two-sided window", {1, 8, 2, 7}, {1, 8, 2, 7}, {1, 8, 2, 7}, {.causal = false, .window = 2, .scale = 0.7}),
            sample("queries that see nothing", {1, 4, 2, 3}, {1, 3, 1, 3}, {1, 3, 1, 3}, {.k_offset = 2}, false),
            sample("no keys", {1, 2, 2, 3}, {1, 0, 2, 3}, {1, 0, 2, 3}, {}, false),
            sample("no queries", {1, 0, 2, 3}, {1, 3, 2, 3}, {1, 3, 2, 3}, {})};
  }
  static std::vector<BadSample> bad() {
    const Tensor q = zeros({1, 2, 4, 3});
    return {{"axes", {zeros({2, 3}), q, q}, {}, "q must be [batch, length, heads, dim], got [2, 3]"},
            {"head size", {q, zeros({1, 2, 4, 5}), q}, {}, "q [1, 2, 4, 3] and k [1, 2, 4, 5] need the same head size"},
            {"heads", {q, zeros({1, 2, 3, 3}), zeros({1, 2, 3, 3})}, {}, "must be a multiple of those of k [1, 2, 3, 3]"},
            {"lengths", {q, zeros({1, 3, 4, 3}), q}, {}, "need the same length and heads"},
            {"window", {q, q, q}, attrs_ptr(Attrs{.window = -1}), "window and tiles must be 0 or above, got -1"}};
  }
};
REGISTER_OP(Attention);

}  // namespace

AttentionResult attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  Tensors r = apply_all<Attention>({q, k, v}, options);
  return {std::move(r[0]), std::move(r[1])};
}
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) { return apply<Attention>({q, k, v}, options); }

AttentionResult attention_reference(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  check_attention("attention_reference", {meta_of(q), meta_of(k), meta_of(v)}, o);
  const AttentionSizes z = attention_sizes(q.shape(), k.shape(), v.shape());
  const auto per_query_head = [&](const Tensor& x) {  // [batch, S, key heads, d] -> [batch, heads, S, d]
    const Tensor heads = unsqueeze(permute(x, {0, 2, 1, 3}), 2);
    return reshape(expand(heads, {z.batch, z.key_heads, z.group(), z.keys, x.size(3)}), {z.batch, z.heads, z.keys, x.size(3)});
  };
  std::vector<uint8_t> visible(size_t(z.queries * z.keys));
  for (int64_t i = 0; i < z.queries; ++i)
    for (int64_t j = 0; j < z.keys; ++j) {
      const int64_t ahead = o.k_offset + j - o.q_offset - i;
      visible[size_t(i * z.keys + j)] = (!o.causal || ahead <= 0) && (o.window == 0 || std::abs(ahead) < o.window);
    }
  Tensor mask = empty({z.queries, z.keys}, Dtype::boolean, q.device());
  if (!q.device().meta) std::copy(visible.begin(), visible.end(), static_cast<uint8_t*>(mask.raw()));
  const Shape scores{z.batch, z.heads, z.queries, z.keys};
  const double scale = o.scale != 0 ? o.scale : 1 / std::sqrt(double(z.dim));
  const Tensor s = matmul(permute(q, {0, 2, 1, 3}), per_query_head(k), {.transpose_b = true}) * scale;
  const Tensor hidden = where(expand(mask, scores), s, expand(full({}, -std::numeric_limits<double>::infinity(), s.dtype(), s.device()), scores));
  const Tensor out = permute(matmul(softmax(hidden), per_query_head(v)), {0, 2, 1, 3});
  return {out, logsumexp(hidden)};
}

}  // namespace spool
