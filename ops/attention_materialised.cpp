#include <spool/autograd/saved.h>
#include <spool/ops/attention.h>
#include <spool/ops/cpu/attention_materialised.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

using kernels::attention_sizes;
using kernels::AttentionSizes;

Meta out_meta(const Metas& in) { return {Shape{in[0].shape[0], in[0].shape[1], in[0].shape[2], in[2].shape[3]}, in[0].dtype, in[0].device}; }
Meta weights_meta(const Metas& in) { return {Shape{in[0].shape[0], in[0].shape[2], in[0].shape[1], in[1].shape[1]}, in[0].dtype, in[0].device}; }
double products(const Metas& in) {
  const AttentionSizes z = attention_sizes(in[0].shape, in[1].shape, in[2].shape);
  return 2.0 * double(z.dim + z.value_dim) * double(z.batch * z.heads) * double(z.queries) * double(z.keys);
}

/// inputs: dout, q, k, v, weights. outputs: dq, dk, dv.
struct MaterialisedBackward {
  static constexpr auto name = "attention_materialised_backward";
  static constexpr bool strided = true;
  static constexpr auto no_gradient = "it is the fused first derivative of attention_materialised";
  using Attrs = AttentionOptions;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Metas qkv{in[1], in[2], in[3]};
    detail::check_attention(name, qkv, attrs);
    const auto expect = [](const char* what, const Meta& got, const Meta& expected) {
      if (got.shape != expected.shape) fail<ShapeError>(name, ": ", what, " must be ", expected, ", got ", got);
      if (got.dtype != expected.dtype) fail<DtypeError>(name, ": ", what, " must be ", expected, ", got ", got);
    };
    expect("the gradient", in[0], out_meta(qkv));
    expect("the weights", in[4], weights_meta(qkv));
    return {qkv, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs&) { return kernels::materialised_scratch(attention_sizes(in[1].shape, in[2].shape, in[3].shape), in[1].dtype, true); }
  static void cpu(const Kernel& k, const Attrs& attrs) { kernels::materialised_backward({k.in(0), k.in(1), k.in(2), k.in(3), k.in(4), k.out(0), k.out(1), k.out(2)}, attrs, k.scratch); }
  static Cost cost(const Metas& in, const Attrs&) {
    return {2 * products({in[1], in[2], in[3]}), 2.0 * double(in[4].nbytes()) + 3.0 * double(in[1].nbytes() + in[2].nbytes() + in[3].nbytes())};
  }
  static std::vector<Sample> samples(Rng& rng) {
    const auto sample = [&](const char* label, Shape q, Shape k, const Attrs& attrs) {
      return Sample{label, {rng.normal(q), rng.normal(q), rng.normal(k), rng.normal(k), rng.uniform({q[0], q[2], q[1], k[1]}, 0, 1)}, attrs_ptr(attrs), false, true};
    };
    return {sample("grouped", {2, 7, 6, 5}, {2, 7, 3, 5}, {}), sample("full", {1, 3, 4, 2}, {1, 6, 4, 2}, {.causal = false, .scale = 0.3}), sample("no queries", {1, 0, 2, 3}, {1, 4, 2, 3}, {})};
  }
  static std::vector<BadSample> bad() {
    const Tensor q = zeros({1, 2, 1, 3});
    return {{"weights", {q, q, q, q, zeros({1, 1, 2, 3})}, {}, "the weights must be f32[1, 1, 2, 2], got f32[1, 1, 2, 3]"},
            {"gradient", {zeros({1, 2, 1, 4}), q, q, q, zeros({1, 1, 2, 2})}, {}, "the gradient must be f32[1, 2, 1, 3], got f32[1, 2, 1, 4]"}};
  }
};
REGISTER_OP(MaterialisedBackward);

/// inputs: q, k, v. residual: weights.
struct Materialised {
  static constexpr auto name = "attention_materialised";
  static constexpr bool strided = true;
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = AttentionOptions;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    detail::check_attention(name, in, attrs);
    return {{out_meta(in)}, {weights_meta(in)}};
  }
  static int64_t scratch(const Metas& in, const Attrs&) { return kernels::materialised_scratch(attention_sizes(in[0].shape, in[1].shape, in[2].shape), in[0].dtype, false); }
  static void cpu(const Kernel& k, const Attrs& attrs) { kernels::materialised_forward(k.in(0), k.in(1), k.in(2), k.out(), k.residual(0), attrs, k.scratch); }
  static Saves saves(Need) { return Saves().input(0).input(1).input(2).residual(0); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensors all = apply_all<MaterialisedBackward>({s.grad(0), s.input(0), s.input(1), s.input(2), s.residual(0)}, attrs);
    for (int i = 0; i < 3; ++i)
      if (!s.needs(i)) all[size_t(i)] = {};
    return all;
  }
  static Cost cost(const Metas& in, const Attrs&) { return {products(in), 2.0 * double(weights_meta(in).nbytes()) + 2.0 * double(in[0].nbytes()) + double(in[1].nbytes() + in[2].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    const auto sample = [&](const char* label, Shape q, Shape k, Shape v, const Attrs& attrs) { return Sample{label, {rng.normal(q), rng.normal(k), rng.normal(v)}, attrs_ptr(attrs)}; };
    return {sample("causal", {2, 7, 2, 5}, {2, 7, 2, 5}, {2, 7, 2, 5}, {}), sample("grouped", {1, 9, 6, 4}, {1, 9, 3, 4}, {1, 9, 3, 3}, {}),
            sample("full", {1, 4, 4, 2}, {1, 6, 1, 2}, {1, 6, 1, 2}, {.causal = false}), sample("window, with a cache", {1, 3, 2, 4}, {1, 8, 2, 4}, {1, 8, 2, 4}, {.window = 4, .q_offset = 5}),
            sample("queries that see nothing", {1, 4, 2, 3}, {1, 3, 1, 3}, {1, 3, 1, 3}, {.k_offset = 2}), sample("no keys", {1, 2, 2, 3}, {1, 0, 2, 3}, {1, 0, 2, 3}, {}),
            sample("no queries", {1, 0, 2, 3}, {1, 3, 2, 3}, {1, 3, 2, 3}, {})};
  }
  static std::vector<BadSample> bad() {
    const Tensor q = zeros({1, 2, 4, 3});
    return {{"axes", {zeros({2, 3}), q, q}, {}, "q must be [batch, length, heads, dim], got [2, 3]"}, {"head size", {q, zeros({1, 2, 4, 5}), q}, {}, "q [1, 2, 4, 3] and k [1, 2, 4, 5] need the same head size"}};
  }
};
REGISTER_OP(Materialised);

}  // namespace

Tensor attention_materialised(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) { return apply<Materialised>({q, k, v}, options); }

}  // namespace spool
