#include <spool/autograd/saved.h>
#include <spool/ops/detail/linear_attention.h>
#include <spool/ops/linear_attention.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

using namespace linear_attention_detail;

/// inputs: k, v, end?. output: the sum, or end − the sum.
struct LinearAttentionSum {
  static constexpr auto name = "linear_attention_sum";
  static constexpr bool strided = true;
  static constexpr auto no_gradient = "it reconstructs a state in backward";
  using Attrs = AttentionAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, {in[0], in[1]});
    check_inputs(name, {in[0], in[0], in[1]}, false);
    const Meta state = state_meta(name, in[0], in[1], attrs);
    if (in[2].defined) check_state(name, in[2], state);
    return {{state}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) { return scratch_bytes(sizes_of(in[0].shape, in[1].shape), attrs.state_for(in[0].dtype)); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      visit_feature(attrs.feature, [&]<Feature F>() {
        if (attrs.state_for(k.in(0).dtype()) == Dtype::f64) run<F, T, double>(k);
        else if constexpr (!std::is_same_v<T, double>) run<F, T, float>(k);
      });
    });
  }
  template <Feature F, class T, class S>
  static void run(const Kernel& k) {
    const Sizes z = sizes_of(k.in(0).shape(), k.in(1).shape());
    const int64_t m = z.features, d = z.dim, state_size = m * (d + 1);
    each_task<S>(z, k.scratch, [&](int64_t task, S* space) {
      const Head<const T> key(k.in(0), task, z.heads), v(k.in(1), task, z.heads);
      const Blocks<S> x(space, m, d);
      S* to = static_cast<S*>(k.out().raw()) + task * state_size;
      sum_slice<F>(key, v, z.length, m, d, x);
      if (const StateView end = head_state(k, 2, task, z); end.tensor) combine_state<-1>(end, x.r, x.s, to, m, d);
      else store_state(to, x.r, x.s, m, d);
    });
  }
  static Cost cost(const Metas& in, const Attrs&) {
    const Sizes z = sizes_of(in[0].shape, in[1].shape);
    return {2.0 * double(z.tasks() * z.length * z.features) * double(z.dim), double(in[0].nbytes() + in[1].nbytes())};
  }
  static std::vector<Sample> samples(Rng& rng) {
    const auto attrs = attrs_ptr(Attrs{Feature::sqr});
    return {{"sqr", {rng.normal({2, 7, 3, 5}), rng.normal({2, 7, 3, 4}), Tensor()}, attrs},
            {"no tokens", {rng.normal({2, 0, 3, 5}), rng.normal({2, 0, 3, 4}), rng.normal({2, 3, 5, 5})}, attrs, true, true},
            {"from the end", {rng.normal({2, 7, 3, 5}), rng.normal({2, 7, 3, 4}), rng.normal({2, 3, 5, 5})}, attrs, true, true}};
  }
  static std::vector<BadSample> bad() {
    return {{"lengths", {zeros({1, 2, 1, 3}), zeros({1, 3, 1, 3}), {}}, {}, "must be [batch, length, heads, size]"},
            {"state", {zeros({1, 2, 1, 3}), zeros({1, 2, 1, 4}), zeros({1, 1, 3, 4})}, {}, "the state ([batch, heads, M, d + 1]) must be f32[1, 1, 3, 5]"}};
  }
};
REGISTER_OP(LinearAttentionSum);

}  // namespace

Tensor linear_attention_sum(const Tensor& k, const Tensor& v, const LinearAttentionOptions& options) {
  return apply<LinearAttentionSum>({k, v, {}}, {options.feature, options.eps, options.state_dtype});
}

Tensor linear_attention_start(const Tensor& end, const Tensor& k, const Tensor& v, const LinearAttentionOptions& options) {
  return apply<LinearAttentionSum>({k, v, end}, {options.feature, options.eps, end.dtype()});
}

}  // namespace spool
