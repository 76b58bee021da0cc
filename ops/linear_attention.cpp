#include <spool/autograd/saved.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>
#include <spool/ops/cpu/linear_scan.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/cpu/vec_math.h>
#include <spool/ops/linear_attention.h>
#include <spool/tensor/copy.h>

#include <algorithm>
#include <cstring>

namespace spool {
namespace {

using kernels::compute_t;
constexpr int64_t token_block = 36;  // a multiple of the tokens that the kernel takes at a time, whose blocks fit into L1 beside a tile

struct AttentionAttrs {
  Feature feature = Feature::identity;
  double eps = 1e-16;
  Dtype state = Dtype::f32;
};

struct Sizes {
  int64_t batch, length, heads, features, dim;
  int64_t tasks() const { return batch * heads; }
};
Sizes sizes_of(const Shape& k, const Shape& v) { return {k[0], k[1], k[2], k[3], v[3]}; }

template <Feature F, class S>
SPOOL_INLINE S feature(S x) {
  if constexpr (F == Feature::sqr) return x * x;
  if constexpr (F == Feature::relu) return x > S(0) ? x : S(0);
  if constexpr (F == Feature::elu1) return x > S(0) ? x + S(1) : kernels::vexp(x);
  if constexpr (F == Feature::abs) return x < S(0) ? -x : x;
  return x;
}
template <Feature F, class S>
SPOOL_INLINE S feature_slope(S x) {
  if constexpr (F == Feature::sqr) return S(2) * x;
  if constexpr (F == Feature::relu) return x > S(0) ? S(1) : S(0);
  if constexpr (F == Feature::elu1) return x > S(0) ? S(1) : kernels::vexp(x);
  if constexpr (F == Feature::abs) return S(x > S(0)) - S(x < S(0));
  return S(1);
}

template <class F>
void visit_feature(Feature f, F&& call) {
  switch (f) {
    case Feature::identity: return call.template operator()<Feature::identity>();
    case Feature::sqr: return call.template operator()<Feature::sqr>();
    case Feature::relu: return call.template operator()<Feature::relu>();
    case Feature::elu1: return call.template operator()<Feature::elu1>();
    case Feature::abs: return call.template operator()<Feature::abs>();
  }
}

/// Rows begin, begin + step, … of one head as `to`[n, width], widened, mapped, padded with zeros.
template <Feature F, class T, class S>
SPOOL_CLONES void gather_rows(const T* from, int64_t row_stride, int64_t step, int64_t n, int64_t size, int64_t width, S* to) {
  for (int64_t t = 0; t < n; ++t) {
    if (step == 1) {
      for (int64_t i = 0; i < size; ++i) to[t * width + i] = feature<F>(static_cast<S>(static_cast<compute_t<T>>(from[t * row_stride + i])));
    } else {
      for (int64_t i = 0; i < size; ++i) to[t * width + i] = feature<F>(static_cast<S>(static_cast<compute_t<T>>(from[t * row_stride + i * step])));
    }
    for (int64_t i = size; i < width; ++i) to[t * width + i] = 0;
  }
}
/// grad[t] · g′(x[t]) into a tensor's rows.
template <Feature F, class T, class S>
SPOOL_CLONES void scatter_gradient(const S* grad, const T* x, int64_t x_stride, int64_t x_step, T* to, int64_t to_stride, int64_t n, int64_t size, int64_t width) {
  for (int64_t t = 0; t < n; ++t)
    for (int64_t i = 0; i < size; ++i)
      to[t * to_stride + i] = static_cast<T>(static_cast<compute_t<T>>(grad[t * width + i] * feature_slope<F>(static_cast<S>(static_cast<compute_t<T>>(x[t * x_stride + i * x_step])))));
}

/// One head of a [batch, L, heads, size] tensor.
template <class T>
struct Head {
  T* data = nullptr;
  int64_t stride = 0, step = 1;
  Head(const Tensor& t, int64_t task, int64_t heads) {
    if (!t.defined()) return;
    data = static_cast<T*>(t.raw()) + task / heads * t.strides()[0] + task % heads * t.strides()[2];
    stride = t.strides()[1];
    step = t.strides()[3];
  }
  T* row(int64_t t) const { return data + t * stride; }
};

template <class S>
int64_t padded(int64_t n) { return (n + kernels::scan_lanes<S> - 1) / kernels::scan_lanes<S> * kernels::scan_lanes<S>; }

/// R as [rows, padded width] and S as [rows], from and to the [M, d + 1] layout; `flipped` holds R transposed.
struct StateView {
  const Tensor* tensor = nullptr;
  int64_t batch = 0, head = 0;
};
template <class S>
void load_state(const StateView& view, S* r, S* s, int64_t m, int64_t d, bool flipped) {
  const int64_t rows = flipped ? d : m, columns = flipped ? m : d, width = padded<S>(columns);
  std::fill_n(r, rows * width, S(0));
  std::fill_n(s, m, S(0));
  if (!view.tensor) return;
  const Strides& strides = view.tensor->strides();  // any: a zero state is often one element with strides 0
  const S* state = static_cast<const S*>(view.tensor->raw()) + view.batch * strides[0] + view.head * strides[1];
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < d; ++j) r[flipped ? j * width + i : i * width + j] = state[i * strides[2] + j * strides[3]];
    s[i] = state[i * strides[2] + d * strides[3]];
  }
}
template <class S>
void store_state(S* state, const S* r, const S* s, int64_t m, int64_t d) {
  const int64_t width = padded<S>(d);
  for (int64_t i = 0; i < m; ++i) {
    std::copy_n(r + i * width, d, state + i * (d + 1));
    state[i * (d + 1) + d] = s[i];
  }
}

/// Working space of one thread, in elements of the state's type.
template <class S>
int64_t space(int64_t m, int64_t d) {
  const int64_t wide = padded<S>(std::max(m, d)), tall = std::max(m, d);
  return tall * wide + padded<S>(m) + token_block * (5 * wide + 8);
}
int64_t workers(const Sizes& z) { return std::max<int64_t>(1, std::min<int64_t>(num_threads(), z.tasks())); }
int64_t scratch_bytes(const Sizes& z, Dtype state) {
  return workers(z) * (state == Dtype::f64 ? space<double>(z.features, z.dim) * 8 : space<float>(z.features, z.dim) * 4);
}

/// Calls f(task, space) for each batch element and head; each worker has a space of its own.
template <class S, class F>
void each_task(const Sizes& z, std::span<std::byte> scratch, F&& f) {
  const int64_t count = workers(z), each = space<S>(z.features, z.dim);
  auto* base = reinterpret_cast<S*>(scratch.data());
  parallel_blocks(count, z.tasks() * z.length * z.features * z.dim / count + 1, [&](int64_t worker) {
    for (int64_t task = z.tasks() * worker / count; task < z.tasks() * (worker + 1) / count; ++task) f(task, base + worker * each);
  });
}

/// Token blocks of a worker's space.
template <class S>
struct Blocks {
  S *r, *s, *a, *b, *c, *o, *e, *den, *u;
  Blocks(S* space, int64_t m, int64_t d) {
    const int64_t wide = padded<S>(std::max(m, d)), tall = std::max(m, d);
    const auto take = [&](int64_t n) { return std::exchange(space, space + n); };
    r = take(tall * wide);
    s = take(padded<S>(m));
    a = take(token_block * wide);
    b = take(token_block * wide);
    c = take(token_block * wide);
    o = take(token_block * wide);
    e = take(token_block * wide);
    den = take(token_block);
    u = take(token_block);
  }
};

void check_inputs(std::string_view op, const Metas& in, bool has_query) {
  const size_t first = has_query ? 0 : 1;  // in: q, k, v
  const Meta &k = in[1], &v = in[2];
  if (k.shape.size() != 4 || v.shape.size() != 4 || (has_query && in[0].shape != k.shape) || k.shape[0] != v.shape[0] || k.shape[1] != v.shape[1] || k.shape[2] != v.shape[2])
    fail<ShapeError>(op, ": q ", in[first].shape, ", k ", k.shape, " and v ", v.shape, " must be [batch, length, heads, size] with one batch, length, heads, and one size for q and k");
}

StateView head_state(const Kernel& k, int input, int64_t task, const Sizes& z) {
  return k.has(input) ? StateView{&k.in(input), task / z.heads, task % z.heads} : StateView{};
}

/// inputs: dout, dstate?, q, k, v, state?, out, den. outputs: dq, dk, dv, dstate0.
struct LinearAttentionBackward {
  static constexpr auto name = "linear_attention_backward";
  static constexpr bool strided = true;
  static constexpr auto no_gradient = "it is the fused first derivative of linear_attention";
  using Attrs = AttentionAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Sizes z = sizes_of(in[3].shape, in[4].shape);
    return {{in[2], in[3], in[4], Meta{Shape{z.batch, z.heads, z.features, z.dim + 1}, attrs.state, in[2].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) { return scratch_bytes(sizes_of(in[3].shape, in[4].shape), attrs.state); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(2).dtype(), [&]<class T>() {
      visit_feature(attrs.feature, [&]<Feature F>() {
        if (attrs.state == Dtype::f64) run<F, T, double>(k, attrs);
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
      const auto cotangents = [&](int64_t at, int64_t n, int64_t step) {  // x.b = dnum, x.u = dden, rows at, at + step, …
        for (int64_t t = 0; t < n; ++t) {
          const T *g = dout.row(at + t * step), *y = out.row(at + t * step);  // dout may be one element with strides 0
          const S total = den[(at + t * step) * den_strides[2]], scale = total <= S(attrs.eps) ? S(0) : S(1) / (total + S(attrs.eps));
          S dot = 0;
          for (int64_t j = 0; j < d; ++j) {
            const S value = static_cast<S>(static_cast<compute_t<T>>(g[j * dout.step]));
            dot += value * static_cast<S>(static_cast<compute_t<T>>(y[j * out.step]));
            x.b[t * wd + j] = value * scale;
          }
          for (int64_t j = d; j < wd; ++j) x.b[t * wd + j] = 0;
          x.u[t] = -dot * scale;
        }
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
             attrs_ptr(Attrs{Feature::sqr, 1e-16, Dtype::f64}), false, true}};
  }
  static std::vector<BadSample> bad() { return {}; }
};
REGISTER_OP(LinearAttentionBackward);

struct LinearAttention {
  static constexpr auto name = "linear_attention";
  static constexpr bool strided = true;
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = AttentionAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Dtype dtype = same_float(name, {in[0], in[1], in[2]});
    check_inputs(name, in, true);
    const Sizes z = sizes_of(in[1].shape, in[2].shape);
    const Meta state{Shape{z.batch, z.heads, z.features, z.dim + 1}, attrs.state, in[0].device};
    if (attrs.state != Dtype::f64 && (attrs.state != Dtype::f32 || dtype == Dtype::f64))
      fail<DtypeError>(name, ": the state must be f32 or f64 and no narrower than the inputs, got ", dtype_name(attrs.state), " for ", dtype_name(dtype));
    if (in[3].defined && (in[3].shape != state.shape || in[3].dtype != state.dtype)) fail<ShapeError>(name, ": the state must be ", state, " ([batch, heads, M, d + 1]), got ", in[3]);
    return {{in[2], state}, {Meta{Shape{z.batch, z.heads, z.length}, attrs.state, in[0].device}}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) { return scratch_bytes(sizes_of(in[1].shape, in[2].shape), attrs.state); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      visit_feature(attrs.feature, [&]<Feature F>() {
        if (attrs.state == Dtype::f64) run<F, T, double>(k, attrs);
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
      store_state(static_cast<S*>(k.out(1).raw()) + task * state_size, x.r, x.s, m, d);
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
      out.push_back({label, in, attrs_ptr(Attrs{f, 1e-16, Dtype::f64}), true, true});
    };
    add("sqr", Feature::sqr, {2, 7, 3, 5}, 4, true);
    add("relu, no state", Feature::relu, {1, 9, 2, 4}, 3, false);
    add("elu+1", Feature::elu1, {1, 5, 1, 9}, 17, true);
    add("abs", Feature::abs, {1, 40, 2, 3}, 2, false);
    add("identity, one token", Feature::identity, {2, 1, 1, 3}, 1, true);
    return out;
  }
  static std::vector<BadSample> bad() {
    const auto attrs = attrs_ptr(Attrs{});
    return {{"lengths", {zeros({1, 2, 1, 3}), zeros({1, 2, 1, 3}), zeros({1, 3, 1, 3}), {}}, attrs, "must be [batch, length, heads, size]"},
            {"state", {zeros({1, 2, 1, 3}), zeros({1, 2, 1, 3}), zeros({1, 2, 1, 4}), zeros({1, 1, 3, 4})}, attrs, "the state must be f32[1, 1, 3, 5]"},
            {"narrow state", {zeros({1, 2, 1, 3}, Dtype::f64), zeros({1, 2, 1, 3}, Dtype::f64), zeros({1, 2, 1, 4}, Dtype::f64), {}}, attrs, "no narrower than the inputs"}};
  }
};
REGISTER_OP(LinearAttention);

struct LinearAttentionSum {
  static constexpr auto name = "linear_attention_sum";
  static constexpr bool strided = true;
  static constexpr auto no_gradient = "it reconstructs a state in backward";
  using Attrs = AttentionAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, in);
    check_inputs(name, {in[0], in[0], in[1]}, false);
    const Sizes z = sizes_of(in[0].shape, in[1].shape);
    return {{Meta{Shape{z.batch, z.heads, z.features, z.dim + 1}, attrs.state, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) { return scratch_bytes(sizes_of(in[0].shape, in[1].shape), attrs.state); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      visit_feature(attrs.feature, [&]<Feature F>() {
        if (attrs.state == Dtype::f64) run<F, T, double>(k);
        else if constexpr (!std::is_same_v<T, double>) run<F, T, float>(k);
      });
    });
  }
  template <Feature F, class T, class S>
  static void run(const Kernel& k) {
    const Sizes z = sizes_of(k.in(0).shape(), k.in(1).shape());
    const int64_t m = z.features, d = z.dim, wd = padded<S>(d), state_size = m * (d + 1);
    each_task<S>(z, k.scratch, [&](int64_t task, S* space) {
      const Head<const T> key(k.in(0), task, z.heads), v(k.in(1), task, z.heads);
      const Blocks<S> x(space, m, d);
      load_state<S>({}, x.r, x.s, m, d, false);
      for (int64_t at = 0; at < z.length; at += token_block) {
        const int64_t n = std::min(token_block, z.length - at);
        gather_rows<F>(key.row(at), key.stride, key.step, n, m, m, x.a);
        gather_rows<Feature::identity>(v.row(at), v.stride, v.step, n, d, wd, x.b);
        kernels::scan_add(x.a, x.b, x.r, n, m, wd);
        for (int64_t t = 0; t < n; ++t)
          for (int64_t i = 0; i < m; ++i) x.s[i] += x.a[t * m + i];
      }
      store_state(static_cast<S*>(k.out().raw()) + task * state_size, x.r, x.s, m, d);
    });
  }
  static Cost cost(const Metas& in, const Attrs&) {
    const Sizes z = sizes_of(in[0].shape, in[1].shape);
    return {2.0 * double(z.tasks() * z.length * z.features) * double(z.dim), double(in[0].nbytes() + in[1].nbytes())};
  }
  static std::vector<Sample> samples(Rng& rng) { return {{"sqr", {rng.normal({2, 7, 3, 5}), rng.normal({2, 7, 3, 4})}, attrs_ptr(Attrs{Feature::sqr, 0, Dtype::f64}), true, true}}; }
  static std::vector<BadSample> bad() { return {{"lengths", {zeros({1, 2, 1, 3}), zeros({1, 3, 1, 3})}, {}, "must be [batch, length, heads, size]"}}; }
};
REGISTER_OP(LinearAttentionSum);

Dtype state_type(const Tensor& k, const Tensor& state, const LinearAttentionOptions& options) {
  if (state.defined()) return state.dtype();
  return options.state_dtype.value_or(k.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32);
}

}  // namespace

LinearAttentionResult linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& state, const LinearAttentionOptions& options) {
  Tensors out = apply_all<LinearAttention>({q, k, v, state}, {options.feature, options.eps, state_type(k, state, options)});
  return {std::move(out[0]), std::move(out[1])};
}

Tensor linear_attention_sum(const Tensor& k, const Tensor& v, const LinearAttentionOptions& options) {
  return apply<LinearAttentionSum>({k, v}, {options.feature, options.eps, state_type(k, {}, options)});
}

}  // namespace spool
