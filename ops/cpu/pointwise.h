#pragma once
// Templates that turn a pair of scalar functions (value and slope) into complete pointwise ops with their fused backward. Private to ops/.
#include <spool/autograd/op.h>
#include <spool/autograd/saved.h>
#include <spool/ops/cpu/clones.h>
#include <spool/tensor/error.h>
#include <spool/tensor/strided.h>

#include <type_traits>

namespace spool::kernels {

/// The type in which a pointwise function of T is computed: 16-bit floats in f32, the rest in itself.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, float, T>;

template <class F, class In, class Out, class A>
SPOOL_CLONES void unary_run(const In* x, Out* y, int64_t n, int64_t step, A attrs) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(F::value(static_cast<compute_t<In>>(x[i]), attrs));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(F::value(static_cast<compute_t<In>>(x[i * step]), attrs));
  }
}

template <class F, class In, class Out, class A>
SPOOL_CLONES void binary_run(const In* a, const In* b, Out* y, int64_t n, int64_t sa, int64_t sb, A attrs) {
  using C = compute_t<In>;
  if (sa == 1 && sb == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(F::value(static_cast<C>(a[i]), static_cast<C>(b[i]), attrs));
  } else if (sa == 1 && sb == 0) {
    const C right = static_cast<C>(b[0]);
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(F::value(static_cast<C>(a[i]), right, attrs));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Out>(F::value(static_cast<C>(a[i * sa]), static_cast<C>(b[i * sb]), attrs));
  }
}

/// y = F::value(x) over any strides; y is contiguous.
template <class F, class In, class Out, class A>
void unary_kernel(const Kernel& k, const A& attrs) {
  const In* x = static_cast<const In*>(k.in(0).raw());
  Out* y = static_cast<Out*>(k.out().raw());
  StridedLoop<2>(k.out().shape(), {k.out().strides(), k.in(0).strides()}).run([&](const auto& at, int64_t n, const auto& step) {
    unary_run<F>(x + at[1], y + at[0], n, step[1], attrs);
  });
}

template <class F, class In, class Out, class A>
void binary_kernel(const Kernel& k, const A& attrs) {
  const In* a = static_cast<const In*>(k.in(0).raw());
  const In* b = static_cast<const In*>(k.in(1).raw());
  Out* y = static_cast<Out*>(k.out().raw());
  StridedLoop<3>(k.out().shape(), {k.out().strides(), k.in(0).strides(), k.in(1).strides()}).run([&](const auto& at, int64_t n, const auto& step) {
    binary_run<F>(a + at[1], b + at[2], y + at[0], n, step[1], step[2], attrs);
  });
}

inline void require_same_shapes(std::string_view op, const Metas& in) {
  for (size_t i = 1; i < in.size(); ++i)
    if (in[i].shape != in[0].shape) fail<ShapeError>(op, ": shapes ", in[0].shape, " and ", in[i].shape, " differ");
}

struct NoAttrs {};

enum class Keeps { nothing, input, output };

/// dx = dy · F::slope(kept), one pass. F as for Unary.
template <class F>
struct UnaryBackward {
  static constexpr auto name = F::backward_name;
  static constexpr bool strided = true;
  static constexpr auto no_gradient = "it is the fused first derivative of a pointwise function";
  using Attrs = typename F::Attrs;
  struct Product {
    template <class T>
    SPOOL_INLINE static T value(T dy, T kept, const Attrs& attrs) { return dy * F::slope(kept, attrs); }
  };
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    require_same_shapes(name, in);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() { binary_kernel<Product, T, T>(k, attrs); });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {8.0 * double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    std::vector<Sample> out = F::samples(rng);
    for (Sample& s : out) s.inputs.insert(s.inputs.begin(), rng.normal(s.inputs[0].shape()));
    return out;
  }
  static std::vector<BadSample> bad() { return {{"shapes", {zeros({2}), zeros({3})}, attrs_ptr(Attrs{}), "[2] and [3] differ"}}; }
};

/// y = F::value(x). F states: name, backward_name, Attrs, keeps (what the slope is a function of), value, slope, samples.
template <class F>
struct Unary {
  static constexpr auto name = F::name;
  static constexpr bool strided = true;
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = typename F::Attrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    if (!is_float(in[0].dtype)) fail_not_float(name, in[0].dtype);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() { unary_kernel<F, T, T>(k, attrs); });
  }
  static Saves saves(Need) { return Saves().input(0, F::keeps == Keeps::input).output(0, F::keeps == Keeps::output); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    if constexpr (F::keeps == Keeps::nothing) {
      return {zeros(s.in_meta(0).shape, s.in_meta(0).dtype, s.in_meta(0).device)};
    } else {
      return {apply<UnaryBackward<F>>({s.grad(), F::keeps == Keeps::input ? s.input(0) : s.output(0)}, attrs)};
    }
  }
  static Cost cost(const Metas& in, const Attrs&) { return {8.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return F::samples(rng); }
  static std::vector<BadSample> bad() { return {{"integers", {zeros({2}, Dtype::i32)}, attrs_ptr(Attrs{}), "needs a float type, got i32"}}; }
};

/// A matrix, a 0-d, an empty one and two axes with odd sizes, uniform in [low, high].
template <class A = NoAttrs>
std::vector<Sample> unary_samples(Rng& rng, double low, double high, A attrs = {}) {
  return {{"ragged", {rng.uniform({3, 7, 5}, low, high)}, attrs_ptr(attrs)}, {"vector", {rng.uniform({33}, low, high)}, attrs_ptr(attrs)},
          {"0-d", {rng.uniform({}, low, high)}, attrs_ptr(attrs)}, {"zero size", {rng.uniform({0, 3}, low, high)}, attrs_ptr(attrs)}};
}

}  // namespace spool::kernels
