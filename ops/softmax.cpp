#include <spool/autograd/saved.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cpu/softmax.h>
#include <spool/ops/detail/reduce_op.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/reshape.h>
#include <spool/ops/softmax.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cmath>

namespace spool {
namespace {

using kernels::compute_t, kernels::Fetch;
constexpr double inf = std::numeric_limits<double>::infinity();

/// All inputs are alike, with at least one axis.
Inferred rows_of(std::string_view op, const Metas& in) {
  same_float(op, in);
  for (const Meta& m : in)
    if (m.shape != in[0].shape) fail<ShapeError>(op, ": shapes ", in[0].shape, " and ", m.shape, " differ");
  if (in[0].shape.empty()) fail<ShapeError>(op, ": needs an axis, got shape []");
  return {{in[0]}, {}};
}

/// Calls f(first element, length, that of the next row) for each row of the last axis; the last row counts as its own next one.
template <class F>
void each_row(const Shape& shape, F&& f) {
  const int64_t n = shape.back(), rows = n ? numel(shape) / n : 0;
  const int64_t group = std::max<int64_t>(1, 4096 / std::max<int64_t>(n, 1));
  parallel_blocks((rows + group - 1) / group, 8 * group * n, [&](int64_t block) {
    for (int64_t row = block * group; row < std::min(rows, (block + 1) * group); ++row) f(row * n, n, std::min(row + 1, rows - 1) * n);
  });
}

std::vector<Sample> row_samples(Rng& rng, int inputs) {
  std::vector<Sample> all;
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 37}, Shape{4, 1}, Shape{9}, Shape{0, 3}, Shape{3, 0}}) {
    Tensors tensors;
    for (int i = 0; i < inputs; ++i) tensors.push_back(rng.normal(shape, 2));
    all.push_back({to_string(shape), std::move(tensors), {}});
  }
  if (inputs == 1) {
    all.push_back({.label = "extremes",
                   .inputs = {from({{-inf, -inf, -inf}, {-inf, 0, 1}, {1000, 1000, 999}, {-1000, -1000, -999}}, Dtype::f64)},
                   .check_gradient = false});
  }
  return all;
}

std::vector<BadSample> row_bad(std::string_view op, int inputs) {
  return {{"0-d", Tensors(size_t(inputs), scalar(1)), {}, concat(op, ": needs an axis, got shape []")},
          {"integers", Tensors(size_t(inputs), zeros({2}, Dtype::i64)), {}, concat(op, ": needs a float type, got i64")}};
}

/// What the two backward kernels have in common: g and y in, dx out, one row at a time.
template <class Op>
struct RowBackward {
  static constexpr auto no_gradient = "a recorded backward pass uses differentiable ops instead of this kernel";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) { return rows_of(Op::name, in); }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(Op::name, k.in(0).dtype(), [&]<class T>() {
      const T *g = static_cast<const T*>(k.in(0).raw()), *y = static_cast<const T*>(k.in(1).raw());
      T* dx = static_cast<T*>(k.out().raw());
      each_row(k.out().shape(), [&](int64_t at, int64_t n, int64_t next) { Op::row(g + at, y + at, dx + at, n, Fetch<T>{g + next}, Fetch<T>{y + next}); });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {10.0 * double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return row_samples(rng, 2); }
  static std::vector<BadSample> bad() { return row_bad(Op::name, 2); }
};
struct SoftmaxBackward : RowBackward<SoftmaxBackward> {
  static constexpr auto name = "softmax_backward";
  template <class T>
  static void row(const T* g, const T* y, T* dx, int64_t n, Fetch<T> next_g, Fetch<T> next_y) {
    kernels::softmax_backward_row<T, compute_t<T>>(g, y, dx, n, next_g, next_y);
  }
};
REGISTER_OP(SoftmaxBackward);

struct LogSoftmaxBackward : RowBackward<LogSoftmaxBackward> {
  static constexpr auto name = "log_softmax_backward";
  template <class T>
  static void row(const T* g, const T* y, T* dx, int64_t n, Fetch<T> next_g, Fetch<T> next_y) {
    if (std::all_of(y, y + n, [](T value) { return compute_t<T>(value) == compute_t<T>(-inf); }))
      std::fill_n(dx, n, T(0.f));
    else
      kernels::log_softmax_backward_row<T, compute_t<T>>(g, y, dx, n, next_g, next_y);
  }
};
REGISTER_OP(LogSoftmaxBackward);

/// g·e^(x − y) with g and y without the axis; 0 where y is −∞.
struct LogSumExpBackward {
  static constexpr auto name = "logsumexp_backward";
  static constexpr auto no_gradient = "a recorded backward pass uses differentiable ops instead of this kernel";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    if (in[1].shape.empty()) fail<ShapeError>(name, ": needs an axis, got shape []");
    Shape shape = in[1].shape;
    shape.erase(shape.size() - 1);
    if (in[0].shape != shape || in[2].shape != shape)
      fail<ShapeError>(name, ": gradient ", in[0].shape, " and result ", in[2].shape, " for rows ", in[1].shape);
    return {{in[1]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T *g = static_cast<const T*>(k.in(0).raw()), *x = static_cast<const T*>(k.in(1).raw()),
              *y = static_cast<const T*>(k.in(2).raw());
      T* dx = static_cast<T*>(k.out().raw());
      each_row(k.out().shape(), [&](int64_t at, int64_t n, int64_t) {
        const C top = C(y[at / n]);
        if (top == C(-inf))
          std::fill_n(dx + at, n, T(0.f));
        else
          kernels::logsumexp_backward_row<T, C>(C(g[at / n]), x + at, top, dx + at, n);
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {10.0 * double(numel(in[1].shape)), 2.0 * double(in[1].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({3}), rng.normal({3, 37}), rng.normal({3})}, {}},
            {"vector", {rng.normal({}), rng.normal({5}), rng.normal({})}, {}},
            {"zero size", {rng.normal({0}), rng.normal({0, 5}), rng.normal({0})}, {}}};
  }
  static std::vector<BadSample> bad() {
    return {{"shape", {zeros({2}), zeros({3, 4}), zeros({3})}, {}, "logsumexp_backward: gradient [2] and result [3] for rows [3, 4]"}};
  }
};
REGISTER_OP(LogSumExpBackward);

struct Softmax {
  static constexpr auto name = "softmax";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) { return rows_of(name, in); }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      each_row(k.out().shape(), [&](int64_t at, int64_t n, int64_t next) { kernels::softmax_row<T, C>(x + at, y + at, n, Fetch<T>{x + next}); });
    });
  }
  static Saves saves(Need) { return Saves().output(0); }
  static Tensors vjp(Saved& s, const Attrs&) {
    const Tensor g = s.grad(), &y = s.output();
    if (!is_recorded(g) && !is_recorded(y)) return {apply<SoftmaxBackward>({g, y})};
    return {mul(y, sub(g, sum(mul(g, y), -1, true)))};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {20.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return row_samples(rng, 1); }
  static std::vector<BadSample> bad() { return row_bad(name, 1); }
};
REGISTER_OP(Softmax);

struct LogSoftmax {
  static constexpr auto name = "log_softmax";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) { return rows_of(name, in); }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      each_row(k.out().shape(), [&](int64_t at, int64_t n, int64_t next) {
        const auto [top, sum] = kernels::row_moments<T, C>(x + at, n, Fetch<T>{x + next});
        if (top == C(-inf))
          std::fill_n(y + at, n, static_cast<T>(top + sum));
        else
          kernels::log_softmax_row<T, C>(x + at, y + at, n, top, std::log(sum));
      });
    });
  }
  static Saves saves(Need) { return Saves().output(0); }
  static Tensors vjp(Saved& s, const Attrs&) {
    const Tensor g = s.grad(), &y = s.output();
    if (!is_recorded(g) && !is_recorded(y)) return {apply<LogSoftmaxBackward>({g, y})};
    return {sub(g, mul(exp(y), sum(g, -1, true)))};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {20.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return row_samples(rng, 1); }
  static std::vector<BadSample> bad() { return row_bad(name, 1); }
};
REGISTER_OP(LogSoftmax);

struct LogSumExp {
  static constexpr auto name = "logsumexp";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    Inferred out = rows_of(name, in);
    out.outputs[0].shape.erase(out.outputs[0].shape.size() - 1);
    return out;
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      const int64_t n = k.in(0).shape().back();
      if (n == 0) std::fill_n(y, k.out().numel(), T(float(-inf)));
      each_row(k.in(0).shape(), [&](int64_t at, int64_t, int64_t next) {
        const auto [top, sum] = kernels::row_moments<T, C>(x + at, n, Fetch<T>{x + next});
        y[at / n] = static_cast<T>(top == C(-inf) ? top + sum : top + std::log(sum));
      });
    });
  }
  static Saves saves(Need) { return Saves().input(0).output(0); }
  static Tensors vjp(Saved& s, const Attrs&) {
    const Tensor g = s.grad(), &x = s.input(0), &y = s.output();
    if (!is_recorded(g) && !is_recorded(x)) return {apply<LogSumExpBackward>({g, x, y})};
    return {mul(softmax(x), unsqueeze(g, -1))};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {16.0 * double(numel(in[0].shape)), double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    auto all = row_samples(rng, 1);
    for (Sample& sample : all)
      if (sample.inputs[0].numel() == 0) sample.check_gradient = false;
    return all;
  }
  static std::vector<BadSample> bad() { return row_bad(name, 1); }
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

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdim) {
  const uint32_t mask = detail::axes_mask("logsumexp", axes, x.shape());
  const Tensor y = apply<LogSumExp>({detail::reduced_last(x, mask)});
  return keepdim ? reshape(y, detail::reduced_shape(x.shape(), mask, true)) : y;
}

}  // namespace spool
