#include <spool/autograd/saved.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/cpu/vec_math.h>
#include <spool/ops/swiglu.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

namespace spool {
namespace {

using kernels::compute_t;
using kernels::load;

template <class T>
SPOOL_CLONES void forward_run(const T* gate, const T* up, T* y, int64_t n) {
  using C = compute_t<T>;
  for (int64_t i = 0; i < n; ++i) {
    const C g = load(gate[i]);
    y[i] = static_cast<T>(g * kernels::vsigmoid(g) * load(up[i]));
  }
}

template <class T>
SPOOL_CLONES void backward_run(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t n) {
  using C = compute_t<T>;
  for (int64_t i = 0; i < n; ++i) {
    const C g = load(gate[i]), d = load(dy[i]), s = kernels::vsigmoid(g);
    dgate[i] = static_cast<T>(d * load(up[i]) * s * (C(1) + g * (C(1) - s)));
    dup[i] = static_cast<T>(d * g * s);
  }
}

constexpr int64_t grain = 8192;

void same_shapes(std::string_view op, const Metas& in) {
  same_float(op, in);
  for (const Meta& m : in)
    if (m.shape != in[0].shape) fail<ShapeError>(op, ": shapes ", in[0].shape, " and ", m.shape, " differ");
}

/// inputs: dy, gate, up. outputs: dgate, dup.
struct SwigluBackward {
  static constexpr auto name = "swiglu_backward";
  static constexpr auto no_gradient = "it is the fused first derivative of swiglu";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    same_shapes(name, in);
    return {{in[0], in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      const auto p = [](const Tensor& t) { return static_cast<T*>(t.raw()); };
      parallel_range(k.in(0).numel(), grain, [&](int64_t a, int64_t b) { backward_run<T>(p(k.in(0)) + a, p(k.in(1)) + a, p(k.in(2)) + a, p(k.out(0)) + a, p(k.out(1)) + a, b - a); });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {30.0 * double(numel(in[0].shape)), 5.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"ragged", {rng.normal({3, 37}), rng.normal({3, 37}, 3), rng.normal({3, 37})}, {}}, {"zero size", {rng.normal({0, 3}), rng.normal({0, 3}), rng.normal({0, 3})}, {}}};
  }
  static std::vector<BadSample> bad() { return {{"shapes", {zeros({2}), zeros({2}), zeros({3})}, {}, "swiglu_backward: shapes [2] and [3] differ"}}; }
};
REGISTER_OP(SwigluBackward);

struct Swiglu {
  static constexpr auto name = "swiglu";
  static constexpr auto no_second_order = "its backward is one fused pass; silu(gate) * up is differentiable twice";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    same_shapes(name, in);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      const auto p = [](const Tensor& t) { return static_cast<T*>(t.raw()); };
      parallel_range(k.in(0).numel(), grain, [&](int64_t a, int64_t b) { forward_run<T>(p(k.in(0)) + a, p(k.in(1)) + a, p(k.out()) + a, b - a); });
    });
  }
  static Saves saves(Need) { return Saves().input(0).input(1); }
  static Tensors vjp(Saved& s, const Attrs&) {
    Tensors both = apply_all<SwigluBackward>({s.grad(), s.input(0), s.input(1)});
    for (int i = 0; i < 2; ++i)
      if (!s.needs(i)) both[size_t(i)] = {};
    return both;
  }
  static Saves remade_from(int, const Attrs&) { return Saves().input(0).input(1); }
  static Tensor remake(Saved& s, int, const Attrs&) { return swiglu(s.input(0), s.input(1)); }
  static Cost cost(const Metas& in, const Attrs&) { return {20.0 * double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"ragged", {rng.normal({3, 37}, 3), rng.normal({3, 37})}, {}}, {"0-d", {rng.normal({}), rng.normal({})}, {}}, {"zero size", {rng.normal({0, 3}), rng.normal({0, 3})}, {}}};
  }
  static std::vector<BadSample> bad() { return {{"shapes", {zeros({2, 3}), zeros({3})}, {}, "swiglu: shapes [2, 3] and [3] differ"}}; }
};
REGISTER_OP(Swiglu);

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& up) { return apply<Swiglu>({gate, up}); }

}  // namespace spool
