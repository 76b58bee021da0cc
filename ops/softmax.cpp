#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/cpu/vec_math.h>
#include <spool/ops/shape.h>
#include <spool/ops/softmax.h>

#include <cmath>
#include <limits>

namespace spool {
namespace {

using kernels::compute_t;
using kernels::NoAttrs;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Largest element and Σ e^(x − largest), in 16 lanes whatever the vector width.
template <class C>
struct Moments {
  C top, sum;
};
template <class T, class C>
SPOOL_CLONES Moments<C> moments(const T* x, int64_t n) {
  constexpr int lanes = 16;
  C top[lanes], sum[lanes];
  for (int l = 0; l < lanes; ++l) top[l] = C(-infinity), sum[l] = 0;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int l = 0; l < lanes; ++l) top[l] = static_cast<C>(x[i + l]) > top[l] ? static_cast<C>(x[i + l]) : top[l];
  for (; i < n; ++i) top[0] = static_cast<C>(x[i]) > top[0] ? static_cast<C>(x[i]) : top[0];
  C largest = top[0];
  for (int l = 1; l < lanes; ++l) largest = top[l] > largest ? top[l] : largest;
  if (largest == C(-infinity)) {  // all −∞, or NaN among them
    C nan = 0;
    for (i = 0; i < n; ++i) nan += static_cast<C>(x[i]) != static_cast<C>(x[i]) ? static_cast<C>(x[i]) : C(0);
    return {largest, nan};
  }
  for (i = 0; i + lanes <= n; i += lanes)
    for (int l = 0; l < lanes; ++l) sum[l] += kernels::vexp(static_cast<C>(x[i + l]) - largest);
  for (; i < n; ++i) sum[0] += kernels::vexp(static_cast<C>(x[i]) - largest);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) sum[l] += sum[l + width];
  return {largest, sum[0]};
}

template <class T, class C>
SPOOL_CLONES void softmax_row(const T* x, T* y, int64_t n, C top, C scale) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(kernels::vexp(static_cast<C>(x[i]) - top) * scale);
}

template <class T, class C>
SPOOL_CLONES C dot_row(const T* a, const T* b, int64_t n) {
  constexpr int lanes = 16;
  C sum[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int l = 0; l < lanes; ++l) sum[l] += static_cast<C>(a[i + l]) * static_cast<C>(b[i + l]);
  for (; i < n; ++i) sum[0] += static_cast<C>(a[i]) * static_cast<C>(b[i]);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) sum[l] += sum[l + width];
  return sum[0];
}

/// Calls f(row) for each row of the last axis.
template <class F>
void each_row(const Shape& shape, F&& f) {
  const int64_t n = shape.back(), rows = n ? numel(shape) / n : 0;
  parallel_blocks(rows, 8 * n, f);
}

Inferred same_as_input(std::string_view op, const Metas& in) {
  same_float(op, in);
  kernels::require_same_shapes(op, in);
  if (in[0].shape.empty()) fail<ShapeError>(op, ": needs an axis, got []");
  return {{in[0]}, {}};
}

std::vector<Sample> row_samples(Rng& rng, int inputs) {
  std::vector<Sample> out;
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 33}, Shape{4, 1}, Shape{0, 3}, Shape{3, 0}}) {
    Sample s{"", {}, {}};
    for (int i = 0; i < inputs; ++i) s.inputs.push_back(rng.normal(shape, 2));
    out.push_back(std::move(s));
  }
  return out;
}
std::vector<BadSample> row_bad(int inputs) { return {{"0-d", Tensors(size_t(inputs), scalar(1)), {}, "needs an axis"}, {"type", Tensors(size_t(inputs), zeros({2}, Dtype::i32)), {}, "got i32"}}; }

/// dx = y·(dy − Σ y·dy)
struct SoftmaxBackward {
  static constexpr auto name = "softmax_backward";
  static constexpr auto no_gradient = "it is the fused first derivative of softmax";
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) { return same_as_input(name, in); }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T *dy = static_cast<const T*>(k.in(0).raw()), *y = static_cast<const T*>(k.in(1).raw());
      T* dx = static_cast<T*>(k.out().raw());
      const int64_t n = k.out().shape().back();
      each_row(k.out().shape(), [&](int64_t r) {
        const C dot = dot_row<T, C>(dy + r * n, y + r * n, n);
        for (int64_t i = r * n; i < (r + 1) * n; ++i) dx[i] = static_cast<T>(C(y[i]) * (C(dy[i]) - dot));
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {4.0 * double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return row_samples(rng, 2); }
  static std::vector<BadSample> bad() { return row_bad(2); }
};
REGISTER_OP(SoftmaxBackward);

struct Softmax {
  static constexpr auto name = "softmax";
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) { return same_as_input(name, in); }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      const int64_t n = k.out().shape().back();
      each_row(k.out().shape(), [&](int64_t r) {
        const auto [top, sum] = moments<T, C>(x + r * n, n);
        if (top == C(-infinity)) std::fill_n(y + r * n, n, static_cast<T>(sum));
        else softmax_row<T, C>(x + r * n, y + r * n, n, top, C(1) / sum);
      });
    });
  }
  static Saves saves(Need) { return Saves().output(0); }
  static Tensors vjp(Saved& s, const Attrs&) { return {apply<SoftmaxBackward>({s.grad(), s.output()})}; }
  static Cost cost(const Metas& in, const Attrs&) { return {20.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    auto out = row_samples(rng, 1);
    out.push_back({"−∞", {from({{-infinity, -infinity}, {-infinity, 0}, {1000, 1000}}, Dtype::f64)}, {}, false});
    return out;
  }
  static std::vector<BadSample> bad() { return row_bad(1); }
};
REGISTER_OP(Softmax);

/// dx = dy − e^y·Σ dy
struct LogSoftmaxBackward {
  static constexpr auto name = "log_softmax_backward";
  static constexpr auto no_gradient = "it is the fused first derivative of log_softmax";
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) { return same_as_input(name, in); }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T *dy = static_cast<const T*>(k.in(0).raw()), *y = static_cast<const T*>(k.in(1).raw());
      T* dx = static_cast<T*>(k.out().raw());
      const int64_t n = k.out().shape().back();
      each_row(k.out().shape(), [&](int64_t r) {
        C sum = 0;
        for (int64_t i = r * n; i < (r + 1) * n; ++i) sum += C(dy[i]);
        for (int64_t i = r * n; i < (r + 1) * n; ++i) dx[i] = static_cast<T>(C(dy[i]) - kernels::vexp(C(y[i])) * sum);
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {16.0 * double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return row_samples(rng, 2); }
  static std::vector<BadSample> bad() { return row_bad(2); }
};
REGISTER_OP(LogSoftmaxBackward);

struct LogSoftmax {
  static constexpr auto name = "log_softmax";
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) { return same_as_input(name, in); }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      const int64_t n = k.out().shape().back();
      each_row(k.out().shape(), [&](int64_t r) {
        const auto [top, sum] = moments<T, C>(x + r * n, n);
        const C log_sum = std::log(sum);  // subtracted apart from the largest, so that huge rows keep their digits
        for (int64_t i = r * n; i < (r + 1) * n; ++i) y[i] = static_cast<T>(top == C(-infinity) ? C(x[i]) : (C(x[i]) - top) - log_sum);
      });
    });
  }
  static Saves saves(Need) { return Saves().output(0); }
  static Tensors vjp(Saved& s, const Attrs&) { return {apply<LogSoftmaxBackward>({s.grad(), s.output()})}; }
  static Cost cost(const Metas& in, const Attrs&) { return {20.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return row_samples(rng, 1); }
  static std::vector<BadSample> bad() { return row_bad(1); }
};
REGISTER_OP(LogSoftmax);

/// dx = dy·e^(x − y), 0 where y is −∞
struct LogSumExpBackward {
  static constexpr auto name = "logsumexp_backward";
  static constexpr auto no_gradient = "it is the fused first derivative of logsumexp";
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    if (in[1].shape.empty()) fail<ShapeError>(name, ": needs an axis, got []");
    return {{in[1]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T *dy = static_cast<const T*>(k.in(0).raw()), *x = static_cast<const T*>(k.in(1).raw()), *y = static_cast<const T*>(k.in(2).raw());
      T* dx = static_cast<T*>(k.out().raw());
      const int64_t n = k.out().shape().back();
      each_row(k.out().shape(), [&](int64_t r) {
        const C top = C(y[r]), scale = C(dy[r]);
        for (int64_t i = r * n; i < (r + 1) * n; ++i) dx[i] = static_cast<T>(top == C(-infinity) ? C(0) : scale * kernels::vexp(C(x[i]) - top));
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {16.0 * double(numel(in[1].shape)), 2.0 * double(in[1].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return {{"rows", {rng.normal({3, 1}), rng.normal({3, 5}), rng.normal({3, 1})}, {}}, {"zero size", {rng.normal({0, 1}), rng.normal({0, 5}), rng.normal({0, 1})}, {}}}; }
  static std::vector<BadSample> bad() { return row_bad(3); }
};
REGISTER_OP(LogSumExpBackward);

struct LogSumExp {
  static constexpr auto name = "logsumexp";
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    Inferred out = same_as_input(name, in);
    out.outputs[0].shape[out.outputs[0].shape.size() - 1] = 1;
    return out;
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      const int64_t n = k.in(0).shape().back();
      parallel_blocks(k.out().numel(), 8 * n, [&](int64_t r) {
        const auto [top, sum] = moments<T, C>(x + r * n, n);
        y[r] = static_cast<T>(top == C(-infinity) ? top + sum : top + std::log(sum));
      });
    });
  }
  static Saves saves(Need) { return Saves().input(0).output(0); }
  static Tensors vjp(Saved& s, const Attrs&) { return {apply<LogSumExpBackward>({s.grad(), s.input(0), s.output()})}; }
  static Cost cost(const Metas& in, const Attrs&) { return {16.0 * double(numel(in[0].shape)), double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return row_samples(rng, 1); }
  static std::vector<BadSample> bad() { return row_bad(1); }
};
REGISTER_OP(LogSumExp);

template <class Op>
Tensor along(const Tensor& x, int axis) {
  const int at = normalize_axis(Op::name, axis, x.shape());
  return at == x.dims() - 1 ? apply<Op>({x}) : transpose(apply<Op>({transpose(x, at, -1)}), at, -1);
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) { return along<Softmax>(x, axis); }
Tensor log_softmax(const Tensor& x, int axis) { return along<LogSoftmax>(x, axis); }
Tensor logsumexp(const Tensor& x, int axis, bool keepdim) {
  const Tensor y = along<LogSumExp>(x, axis);
  return keepdim ? y : squeeze(y, axis);
}

}  // namespace spool
