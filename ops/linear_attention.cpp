#include <spool/autograd/saved.h>
#include <spool/ops/detail/linear_attention.h>
#include <spool/ops/linear_attention.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

using namespace linear_attention_detail;

/// inputs: dout, dstate?, q, k, v, state?, out, den. outputs: dq, dk, dv, dstate0.
struct LinearAttentionBackward {
  static constexpr auto name = "linear_attention_backward";
  static constexpr bool strided = true;
  static constexpr auto no_gradient = "it is the fused first derivative of linear_attention";
  using Attrs = AttentionAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, {in[0], in[2], in[3], in[4], in[6]});
    check_inputs(name, {in[2], in[3], in[4]}, true);
    const Meta state = state_meta(name, in[3], in[4], attrs);
    check_same(name, "gradient", in[0], in[4]);
    check_same(name, "result", in[6], in[4]);
    check_same(name, "denominators", in[7], {Shape{state.shape[0], state.shape[1], in[3].shape[1]}, state.dtype, state.device});
    if (in[1].defined) check_same(name, "state's gradient", in[1], state);
    if (in[5].defined) check_state(name, in[5], state);
    return {{in[2], in[3], in[4], state}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) { return scratch_bytes(sizes_of(in[3].shape, in[4].shape), attrs.state_for(in[3].dtype)); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(2).dtype(), [&]<class T>() {
      visit_feature(attrs.feature, [&]<Feature F>() {
        if (attrs.state_for(k.in(0).dtype()) == Dtype::f64) run<F, T, double>(k, attrs);
        else if constexpr (!std::is_same_v<T, double>) run<F, T, float>(k, attrs);
      });
    });
  }
  template <Feature F, class T, class S>
  static void run(const Kernel& k, const Attrs& attrs) {
    const Sizes z = sizes_of(k.in(3).shape(), k.in(4).shape());
    const int64_t m = z.features, d = z.dim, wm = padded<S>(m), wd = padded<S>(d), state_size = m * (d + 1);
    S* dstart = static_cast<S*>(k.out(3).raw());
    each_task<S>(z, k.scratch, [&](int64_t task, S* space) {
      const Head<const T> dout(k.in(0), task, z.heads), q(k.in(2), task, z.heads), key(k.in(3), task, z.heads), v(k.in(4), task, z.heads), out(k.in(6), task, z.heads);
      const Head<T> dq(k.out(0), task, z.heads), dk(k.out(1), task, z.heads), dv(k.out(2), task, z.heads);
      const Strides& den_strides = k.in(7).strides();
      const S* den = static_cast<const S*>(k.in(7).raw()) + task / z.heads * den_strides[0] + task % z.heads * den_strides[1];
      const Blocks<S> x(space, m, d);
      const auto cotangents = [&](int64_t at, int64_t n, int64_t step) {  // x.b = dnum, x.u = dden of rows at, at + step, …; dout may be one element with strides 0
        gather_cotangents<T, S>(dout.row(at), step * dout.stride, dout.step, out.row(at), step * out.stride, out.step, den + at * den_strides[2], step * den_strides[2], S(attrs.eps), n, d, wd,
                                x.b, x.u);
      };
      const auto rows_of = [](const S* from, int64_t n, int64_t size, int64_t width, S* to) {  // drops padding
        for (int64_t t = 0; t < n; ++t) std::copy_n(from + t * width, size, to + t * size);
      };
      // Forwards, R transposed: dq_l = R_l·dnum_l + S_l·dden_l.
      load_state(head_state(k, 5, task, z), x.r, x.s, m, d, true);
      for (int64_t at = 0; at < z.length; at += token_block) {
        const int64_t n = std::min(token_block, z.length - at);
        cotangents(at, n, 1);
        rows_of(x.b, n, d, wd, x.c);                                                          // c = dnum [n, d]
        gather_rows<Feature::identity>(v.row(at), v.stride, v.step, n, d, d, x.a);                    // a = v [n, d]
        gather_rows<F>(key.row(at), key.stride, key.step, n, m, wm, x.b);                               // b = g(k) [n, wm]
        kernels::scan_block(x.a, x.b, x.c, x.r, x.o, n, d, wm);                               // o = Rᵀ… [n, wm]
        rows_of(x.o, n, m, wm, x.e);
        gather_rows<F>(key.row(at), key.stride, key.step, n, m, m, x.c);
        kernels::scan_shift<S>(x.c, nullptr, x.s, x.e, x.u, n, m);
        scatter_gradient<F>(x.e, q.row(at), q.stride, q.step, dq.row(at), dq.stride, n, m, m);
      }
      // In reverse: dv_l = dR_lᵀ·g(k_l).
      load_state(head_state(k, 1, task, z), x.r, x.s, m, d, false);
      for (int64_t done = 0; done < z.length; done += token_block) {
        const int64_t n = std::min(token_block, z.length - done), at = z.length - 1 - done;
        cotangents(at, n, -1);
        gather_rows<F>(q.row(at), -q.stride, q.step, n, m, m, x.a);
        gather_rows<F>(key.row(at), -key.stride, key.step, n, m, m, x.c);
        kernels::scan_block(x.a, x.b, x.c, x.r, x.o, n, m, wd);
        scatter_gradient<Feature::identity>(x.o, v.row(at), -v.stride, v.step, dv.row(at), -dv.stride, n, d, wd);
        kernels::scan_shift<S>(x.a, x.u, x.s, x.e, nullptr, n, m);  // only the key sum's cotangent is wanted here
      }
      store_state(dstart + task * state_size, x.r, x.s, m, d);
      // In reverse, dR transposed: dk_l = dR_l·v_l + dS_l.
      load_state(head_state(k, 1, task, z), x.r, x.s, m, d, true);
      for (int64_t done = 0; done < z.length; done += token_block) {
        const int64_t n = std::min(token_block, z.length - done), at = z.length - 1 - done;
        cotangents(at, n, -1);
        rows_of(x.b, n, d, wd, x.a);
        gather_rows<F>(q.row(at), -q.stride, q.step, n, m, wm, x.b);
        gather_rows<Feature::identity>(v.row(at), -v.stride, v.step, n, d, d, x.c);
        kernels::scan_block(x.a, x.b, x.c, x.r, x.o, n, d, wm);
        rows_of(x.o, n, m, wm, x.e);
        gather_rows<F>(q.row(at), -q.stride, q.step, n, m, m, x.c);
        kernels::scan_shift<S>(x.c, x.u, x.s, x.e, nullptr, n, m);
        scatter_gradient<F>(x.e, key.row(at), -key.stride, key.step, dk.row(at), -dk.stride, n, m, m);
      }
    });
  }
  static Cost cost(const Metas& in, const Attrs&) {
    const Sizes z = sizes_of(in[3].shape, in[4].shape);
    return {12.0 * double(z.tasks() * z.length * z.features) * double(z.dim), 4.0 * double(in[2].nbytes() + in[4].nbytes())};
  }
  static std::vector<Sample> samples(Rng& rng) {
    const Tensor q = rng.uniform({2, 5, 3, 4}, 0.1, 1), k = rng.uniform({2, 5, 3, 4}, 0.1, 1), v = rng.normal({2, 5, 3, 2});
    return {{"f64 state", {rng.normal({2, 5, 3, 2}), rng.normal({2, 3, 4, 3}), q, k, v, rng.uniform({2, 3, 4, 3}, 0, 1), rng.normal({2, 5, 3, 2}), rng.uniform({2, 3, 5}, 1, 2)},
             attrs_ptr(Attrs{Feature::sqr}), false, true},
            {"no state, f64", {rng.normal({2, 5, 3, 2}), {}, q, k, v, {}, rng.normal({2, 5, 3, 2}), rng.uniform({2, 3, 5}, 1, 2)}, attrs_ptr(Attrs{Feature::elu1, 1e-16, Dtype::f64}), false, true},
            {"no tokens", {rng.normal({2, 0, 3, 2}), rng.normal({2, 3, 4, 3}), rng.normal({2, 0, 3, 4}), rng.normal({2, 0, 3, 4}), rng.normal({2, 0, 3, 2}), {}, rng.normal({2, 0, 3, 2}), rng.normal({2, 3, 0})}, {}, false, true}};
  }
  static std::vector<BadSample> bad() {
    const Tensor q = zeros({1, 2, 1, 3}), v = zeros({1, 2, 1, 4});
    return {{"denominators", {v, {}, q, q, v, {}, v, zeros({1, 2, 1})}, {}, "the denominators must be f32[1, 1, 2], got f32[1, 2, 1]"},
            {"state", {v, {}, q, q, v, zeros({1, 1, 3, 5}, Dtype::f64), v, zeros({1, 1, 2})}, {}, "must be f32[1, 1, 3, 5], got f64[1, 1, 3, 5]"}};
  }
};
REGISTER_OP(LinearAttentionBackward);

struct LinearAttention {
  static constexpr auto name = "linear_attention";
  static constexpr bool strided = true;
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = AttentionAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, {in[0], in[1], in[2]});
    check_inputs(name, in, true);
    const Meta state = state_meta(name, in[1], in[2], attrs);
    if (in[3].defined) check_state(name, in[3], state);
    return {{in[2], state}, {Meta{Shape{state.shape[0], state.shape[1], in[1].shape[1]}, state.dtype, state.device}}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) { return scratch_bytes(sizes_of(in[1].shape, in[2].shape), attrs.state_for(in[1].dtype)); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      visit_feature(attrs.feature, [&]<Feature F>() {
        if (attrs.state_for(k.in(0).dtype()) == Dtype::f64) run<F, T, double>(k, attrs);
        else if constexpr (!std::is_same_v<T, double>) run<F, T, float>(k, attrs);
      });
    });
  }
  template <Feature F, class T, class S>
  static void run(const Kernel& k, const Attrs& attrs) {
    const Sizes z = sizes_of(k.in(1).shape(), k.in(2).shape());
    const int64_t m = z.features, d = z.dim, wd = padded<S>(d), state_size = m * (d + 1);
    S* den = k.wants(0) ? static_cast<S*>(k.residual(0).raw()) : nullptr;
    each_task<S>(z, k.scratch, [&](int64_t task, S* space) {
      const Head<const T> q(k.in(0), task, z.heads), key(k.in(1), task, z.heads), v(k.in(2), task, z.heads);
      const Head<T> out(k.out(0), task, z.heads);
      const Blocks<S> x(space, m, d);
      load_state(head_state(k, 3, task, z), x.r, x.s, m, d, false);
      for (int64_t at = 0; at < z.length; at += token_block) {
        const int64_t n = std::min(token_block, z.length - at);
        gather_rows<F>(key.row(at), key.stride, key.step, n, m, m, x.a);
        gather_rows<F>(q.row(at), q.stride, q.step, n, m, m, x.c);
        gather_rows<Feature::identity>(v.row(at), v.stride, v.step, n, d, wd, x.b);
        kernels::scan_block(x.a, x.b, x.c, x.r, x.o, n, m, wd);
        kernels::scan_denominator(x.a, x.c, x.s, x.den, n, m);
        for (int64_t t = 0; t < n; ++t) {
          const S scale = x.den[t] <= S(attrs.eps) ? S(0) : S(1) / (x.den[t] + S(attrs.eps));
          T* to = out.row(at + t);
          for (int64_t j = 0; j < d; ++j) to[j] = static_cast<T>(static_cast<compute_t<T>>(x.o[t * wd + j] * scale));
        }
        if (den) std::copy_n(x.den, n, den + task * z.length + at);
      }
      S* end = static_cast<S*>(k.out(1).raw()) + task * state_size;
      const StateView start = head_state(k, 3, task, z);
      if (start.tensor) {
        // start + (what the slice adds), rounded once: subtracting the same sum again then gives the start back exactly, but for the few
        // times that an element enters another binade. The running sum above has a rounding a token, which nothing undoes.
        sum_slice<F>(key, v, z.length, m, d, x);
        combine_state<+1>(start, x.r, x.s, end, m, d);
      } else {
        store_state(end, x.r, x.s, m, d);
      }
    });
  }
  static Saves saves(Need) { return Saves().input(0).input(1).input(2).input(3).output(0).residual(0); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Tensor dstate = s.has_grad(1) ? s.grad(1) : Tensor();
    Tensors all = apply_all<LinearAttentionBackward>({s.grad(0), dstate, s.input(0), s.input(1), s.input(2), s.input(3), s.output(0), s.residual(0)}, attrs);
    for (int i = 0; i < 4; ++i) if (!s.needs(i)) all[size_t(i)] = {};
    return all;
  }
  static Cost cost(const Metas& in, const Attrs&) {
    const Sizes z = sizes_of(in[1].shape, in[2].shape);
    return {4.0 * double(z.tasks() * z.length * z.features) * double(z.dim), double(in[0].nbytes() + in[1].nbytes()) + 2.0 * double(in[2].nbytes())};
  }
  static std::vector<Sample> samples(Rng& rng) {
    std::vector<Sample> out;
    const auto add = [&](const char* label, Feature f, Shape k, int64_t d, bool state) {
      Shape v = k;
      v[3] = d;
      Tensors in{rng.uniform(k, 0.2, 1), rng.uniform(k, 0.2, 1), rng.normal(v), state ? rng.uniform({k[0], k[2], k[3], d + 1}, 0.1, 1) : Tensor()};
      out.push_back({label, in, attrs_ptr(Attrs{f}), true, state});  // a state has no 16-bit form
    };
    add("sqr", Feature::sqr, {2, 7, 3, 5}, 4, true);
    add("relu, no state", Feature::relu, {1, 9, 2, 4}, 3, false);
    add("elu+1", Feature::elu1, {1, 5, 1, 9}, 17, true);
    add("abs", Feature::abs, {1, 40, 2, 3}, 2, false);
    add("identity, one token", Feature::identity, {2, 1, 1, 3}, 1, true);
    add("no tokens", Feature::sqr, {2, 0, 1, 3}, 2, true);
    out.push_back({"f64 state", {rng.uniform({1, 6, 2, 4}, 0.2, 1), rng.uniform({1, 6, 2, 4}, 0.2, 1), rng.normal({1, 6, 2, 3}), {}}, attrs_ptr(Attrs{Feature::sqr, 1e-16, Dtype::f64})});
    return out;
  }
  static std::vector<BadSample> bad() {
    const auto attrs = attrs_ptr(Attrs{});
    return {{"lengths", {zeros({1, 2, 1, 3}), zeros({1, 2, 1, 3}), zeros({1, 3, 1, 3}), {}}, attrs, "must be [batch, length, heads, size]"},
            {"state", {zeros({1, 2, 1, 3}), zeros({1, 2, 1, 3}), zeros({1, 2, 1, 4}), zeros({1, 1, 3, 4})}, attrs, "the state ([batch, heads, M, d + 1]) must be f32[1, 1, 3, 5]"},
            {"state type", {zeros({1, 2, 1, 3}), zeros({1, 2, 1, 3}), zeros({1, 2, 1, 4}), zeros({1, 1, 3, 5}, Dtype::f64)}, attrs, "must be f32[1, 1, 3, 5], got f64[1, 1, 3, 5]"},
            {"narrow state", {zeros({1, 2, 1, 3}, Dtype::f64), zeros({1, 2, 1, 3}, Dtype::f64), zeros({1, 2, 1, 4}, Dtype::f64), {}}, attrs_ptr(Attrs{.state = Dtype::f32}), "no narrower than the inputs"}};
  }
};
REGISTER_OP(LinearAttention);

}  // namespace

LinearAttentionResult linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& state, const LinearAttentionOptions& options) {
  Tensors out = apply_all<LinearAttention>({q, k, v, state}, {options.feature, options.eps, state.defined() ? state.dtype() : options.state_dtype});
  return {std::move(out[0]), std::move(out[1])};
}

}  // namespace spool
