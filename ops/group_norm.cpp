#include <spool/autograd/saved.h>
#include <spool/ops/cpu/lane_sum.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/detail/targets.h>
#include <spool/ops/norm.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <algorithm>
#include <cmath>

namespace spool {
namespace {

using detail::statistics_type;
using kernels::compute_t;
using kernels::lane_run;
using kernels::lane_sum;
using kernels::load;

template <class T, class C>
SPOOL_CLONES double row_sum(const T* x, int64_t n) {
  double total = 0;
  for (int64_t at = 0; at < n; at += lane_run)
    total += double(lane_sum<C>(at, std::min(n, at + lane_run), [x](int64_t i) __attribute__((always_inline)) { return load(x[i]); }));
  return total;
}

/// A mean as two numbers, so that the deviations keep their digits where it is large against them.
template <class C>
struct Mean {
  C high, low;
  explicit Mean(double mean) : high(C(mean)), low(C(mean - double(high))) {}
};

/// Σ (x − mean)², and Σ (x − mean), which is not 0 where the mean was rounded.
template <class T, class C>
SPOOL_CLONES void row_deviation(const T* x, int64_t n, C mean, double* square, double* rest) {
  for (int64_t at = 0; at < n; at += lane_run) {
    const int64_t end = std::min(n, at + lane_run);
    *square += double(lane_sum<C>(at, end, [x, mean](int64_t i) __attribute__((always_inline)) { return (load(x[i]) - mean) * (load(x[i]) - mean); }));
    *rest += double(lane_sum<C>(at, end, [x, mean](int64_t i) __attribute__((always_inline)) { return load(x[i]) - mean; }));
  }
}
template <class T, class C>
SPOOL_CLONES void scale_row(const T* x, T* y, int64_t n, Mean<C> mean, C scale, C shift) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>((load(x[i]) - mean.high - mean.low) * scale + shift);
}
/// Σ dy and Σ dy·(x − mean).
template <class T, class C>
SPOOL_CLONES void gradient_sums(const T* dy, const T* x, int64_t n, Mean<C> mean, double* total, double* along) {
  for (int64_t at = 0; at < n; at += lane_run) {
    const int64_t end = std::min(n, at + lane_run);
    const C high = mean.high, low = mean.low;
    *total += double(lane_sum<C>(at, end, [dy](int64_t i) __attribute__((always_inline)) { return load(dy[i]); }));
    *along += double(lane_sum<C>(at, end, [=](int64_t i) __attribute__((always_inline)) { return load(dy[i]) * (load(x[i]) - high - low); }));
  }
}
template <class T, class C>
SPOOL_CLONES void gradient_row(const T* dy, const T* x, T* dx, int64_t n, Mean<C> mean, C scale, C slope, C shift) {
  for (int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(load(dy[i]) * scale - (load(x[i]) - mean.high - mean.low) * slope - shift);
}

/// x as [batch, groups, channels of a group, elements of a channel].
struct GroupSizes {
  int64_t batch = 0, groups = 1, channels = 0, length = 1;
  int64_t rows() const { return batch * groups; }
  int64_t row() const { return channels * length; }
};

GroupSizes sizes_of(std::string_view op, const Meta& x, int64_t groups) {
  if (x.shape.size() < 2) fail<ShapeError>(op, ": needs x [batch, channels, ...], got ", x.shape);
  if (groups < 1 || x.shape[1] % groups) fail<ShapeError>(op, ": ", groups, " groups do not divide ", x.shape[1], " channels");
  GroupSizes z{x.shape[0], groups, x.shape[1] / groups, 1};
  for (int axis = 2; axis < x.shape.size(); ++axis) z.length *= x.shape[axis];
  if (z.row() == 0) fail<ShapeError>(op, ": nothing to normalise in ", x.shape);
  return z;
}

void check_parameter(std::string_view op, const char* what, const Meta& given, const Meta& x) {
  if (given.defined && given.shape != Shape{x.shape[1]}) fail<ShapeError>(op, ": ", what, " ", given.shape, " does not fit x ", x.shape);
}

struct GroupNormAttrs {
  int64_t groups = 1;
  double eps = 1e-5;
  bool wants_dx = true, wants_parameters = true;  ///< Of the gradient.
};

/// inputs: dy, x, weight?, mean, rstd. outputs: dx, dweight, dbias; empty when not wanted. With h = (x − mean)·rstd and g = dy·weight:
/// dx = rstd·(g − mean(g) − h·mean(g·h)).
struct GroupNormBackward {
  static constexpr auto name = "group_norm_backward";
  static constexpr auto no_gradient = "it is the fused first derivative of group_norm";
  using Attrs = GroupNormAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const GroupSizes z = sizes_of(name, in[1], attrs.groups);
    if (in[0].shape != in[1].shape) fail<ShapeError>(name, ": shapes ", in[0].shape, " and ", in[1].shape, " differ");
    const Dtype dtype = same_float(name, {in[0], in[1], in[2]});
    check_parameter(name, "weight", in[2], in[1]);
    for (const size_t i : {3, 4}) {
      const Meta expected{{z.batch, z.groups}, i == 3 ? Dtype::f64 : statistics_type(dtype), in[1].device};
      const auto text = [&] { return concat(name, ": the groups' ", i == 3 ? "mean" : "scale", " must be ", expected, ", got ", in[i].defined ? to_string(in[i]) : "none"); };
      if (!in[i].defined || in[i].shape != expected.shape) fail<ShapeError>(text());
      if (in[i].dtype != expected.dtype) fail<DtypeError>(text());
    }
    Meta dx = in[1], parameter{{in[1].shape[1]}, dtype, in[1].device};
    if (!attrs.wants_dx) dx.shape = {0};
    if (!attrs.wants_parameters) parameter.shape = {0};
    return {{dx, parameter, parameter}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs&) { return 2 * in[1].shape[0] * in[1].shape[1] * int64_t(sizeof(double)); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const GroupSizes z = sizes_of(name, meta_of(k.in(1)), attrs.groups);
    visit_float(name, k.in(1).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T *dy = static_cast<const T*>(k.in(0).raw()), *x = static_cast<const T*>(k.in(1).raw());
      const T* weight = k.has(2) ? static_cast<const T*>(k.in(2).raw()) : nullptr;
      const auto* means = static_cast<const double*>(k.in(3).raw());
      const C* rstd = static_cast<const C*>(k.in(4).raw());
      T* dx = attrs.wants_dx ? static_cast<T*>(k.out(0).raw()) : nullptr;
      auto* sums = reinterpret_cast<double*>(k.scratch.data());  // [batch, channels]: Σ dy and Σ dy·h
      parallel_blocks(z.rows(), 10 * z.row(), [&](int64_t r) {
        const Mean<C> mean(means[r]);
        double total = 0, along = 0;
        for (int64_t c = 0; c < z.channels; ++c) {
          const int64_t at = r * z.row() + c * z.length;
          double* sum = sums + 2 * (r * z.channels + c);
          sum[0] = sum[1] = 0;
          gradient_sums<T, C>(dy + at, x + at, z.length, mean, sum, sum + 1);
          sum[1] *= double(rstd[r]);
          const double w = weight ? double(load(weight[r % z.groups * z.channels + c])) : 1;
          total += w * sum[0];
          along += w * sum[1];
        }
        if (!dx) return;
        const double s = double(rstd[r]), n = double(z.row());
        for (int64_t c = 0; c < z.channels; ++c) {
          const int64_t at = r * z.row() + c * z.length;
          const double w = weight ? double(load(weight[r % z.groups * z.channels + c])) : 1;
          gradient_row<T, C>(dy + at, x + at, dx + at, z.length, mean, C(s * w), C(s * s * along / n), C(s * total / n));
        }
      });
      if (!attrs.wants_parameters) return;
      const int64_t channels = z.groups * z.channels;
      T *dweight = static_cast<T*>(k.out(1).raw()), *dbias = static_cast<T*>(k.out(2).raw());
      parallel_range(channels, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, z.batch)), [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
          double b = 0, w = 0;
          for (int64_t i = 0; i < z.batch; ++i) {
            b += sums[2 * (i * channels + c)];
            w += sums[2 * (i * channels + c) + 1];
          }
          dweight[c] = static_cast<T>(C(w));
          dbias[c] = static_cast<T>(C(b));
        }
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {11.0 * double(numel(in[1].shape)), 5.0 * double(in[1].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    const auto inputs = [&](const Shape& x, int64_t groups, bool weight) {
      const Shape rows{x[0], groups};
      return Tensors{rng.normal(x), rng.normal(x), weight ? rng.normal({x[1]}) : Tensor(), rng.normal(rows), rng.uniform(rows, 0.5, 2)};
    };
    return {{"groups", inputs({3, 6, 7}, 2, true), attrs_ptr(Attrs{.groups = 2}), false, true},
            {"plain, dx only", inputs({2, 4, 3, 5}, 4, false), attrs_ptr(Attrs{.groups = 4, .wants_parameters = false}), false, true},
            {"parameters only", inputs({2, 4, 9}, 1, true), attrs_ptr(Attrs{.groups = 1, .wants_dx = false}), false, true},
            {"no batch", inputs({0, 4, 3}, 2, true), attrs_ptr(Attrs{.groups = 2}), false, true}};
  }
  static std::vector<BadSample> bad() {
    const Tensor x = zeros({2, 4, 3}), rows = zeros({2, 1}), means = zeros({2, 1}, Dtype::f64);
    return {{"shapes", {zeros({2, 4}), x, {}, means, rows}, {}, "group_norm_backward: shapes [2, 4] and [2, 4, 3] differ"},
            {"mean", {x, x, {}, {}, rows}, {}, "group_norm_backward: the groups' mean must be f64[2, 1], got none"},
            {"scale", {x, x, {}, means, zeros({2, 2})}, {}, "the groups' scale must be f32[2, 1], got f32[2, 2]"},
            {"type", {x, x, {}, rows, rows}, {}, "the groups' mean must be f64[2, 1], got f32[2, 1]"}};
  }
};
REGISTER_OP(GroupNormBackward);

/// inputs: x, weight?, bias?. residuals: mean (f64), rstd [batch, groups].
struct GroupNorm {
  static constexpr auto name = "group_norm";
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = GroupNormAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Dtype dtype = same_float(name, in);
    const GroupSizes z = sizes_of(name, in[0], attrs.groups);
    check_parameter(name, "weight", in[1], in[0]);
    check_parameter(name, "bias", in[2], in[0]);
    const Shape rows{z.batch, z.groups};
    return {{in[0]}, {{rows, Dtype::f64, in[0].device}, {rows, statistics_type(dtype), in[0].device}}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const GroupSizes z = sizes_of(name, meta_of(k.in(0)), attrs.groups);
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const T* x = static_cast<const T*>(k.in(0).raw());
      const T *weight = k.has(1) ? static_cast<const T*>(k.in(1).raw()) : nullptr, *bias = k.has(2) ? static_cast<const T*>(k.in(2).raw()) : nullptr;
      T* y = static_cast<T*>(k.out().raw());
      auto* means = k.wants(0) ? static_cast<double*>(k.residual(0).raw()) : nullptr;
      C* scales = k.wants(1) ? static_cast<C*>(k.residual(1).raw()) : nullptr;
      parallel_blocks(z.rows(), 8 * z.row(), [&](int64_t r) {
        const T* row = x + r * z.row();
        const double n = double(z.row());
        const C near = C(row_sum<T, C>(row, z.row()) / n);
        double square = 0, rest = 0;
        row_deviation<T, C>(row, z.row(), near, &square, &rest);
        const double exact = double(near) + rest / n;
        const Mean<C> mean(exact);
        const C rstd = C(1 / std::sqrt(std::max(0.0, square - rest * rest / n) / n + attrs.eps));
        for (int64_t c = 0; c < z.channels; ++c) {
          const int64_t channel = r % z.groups * z.channels + c;
          scale_row<T, C>(row + c * z.length, y + r * z.row() + c * z.length, z.length, mean, weight ? rstd * load(weight[channel]) : rstd, bias ? load(bias[channel]) : C(0));
        }
        if (means) means[r] = exact;
        if (scales) scales[r] = rstd;
      });
    });
  }
  static Saves saves(Need need) { return Saves().input(0).input(1, need(0)).residual(0).residual(1); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Attrs back = attrs;
    back.wants_dx = s.needs(0);
    back.wants_parameters = s.needs(1) || s.needs(2);
    Tensors out = apply_all<GroupNormBackward>({s.grad(), s.input(0), s.needs(0) ? s.input(1) : Tensor(), s.residual(0), s.residual(1)}, back);
    for (int i = 0; i < 3; ++i)
      if (!s.needs(i)) out[size_t(i)] = {};
    return out;
  }
  static Saves remade_from(int, const Attrs&) { return Saves().input(0).input(1).input(2); }
  static Tensor remake(Saved& s, int, const Attrs& attrs) { return group_norm(s.input(0), attrs.groups, s.input(1), s.input(2), attrs.eps); }
  static Cost cost(const Metas& in, const Attrs&) { return {8.0 * double(numel(in[0].shape)), 4.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"groups", {rng.normal({3, 6, 7}), rng.normal({6}), rng.normal({6})}, attrs_ptr(Attrs{.groups = 2})},
            {"one group, plain", {rng.normal({2, 3, 5, 4}), {}, {}}, attrs_ptr(Attrs{.groups = 1})},
            {"a group a channel, large eps", {rng.normal({2, 3, 37}), rng.normal({3}), rng.normal({3})}, attrs_ptr(Attrs{.groups = 3, .eps = 0.5})},
            {"no further axes", {rng.normal({4, 6}), rng.normal({6}), {}}, attrs_ptr(Attrs{.groups = 2})},
            {"no batch", {rng.normal({0, 4, 3}), rng.normal({4}), rng.normal({4})}, attrs_ptr(Attrs{.groups = 2})}};
  }
  static std::vector<BadSample> bad() {
    const Tensor x = zeros({2, 4, 3});
    return {{"axes", {zeros({4}), {}, {}}, {}, "group_norm: needs x [batch, channels, ...], got [4]"},
            {"groups", {x, {}, {}}, attrs_ptr(Attrs{.groups = 3}), "group_norm: 3 groups do not divide 4 channels"},
            {"no groups", {x, {}, {}}, attrs_ptr(Attrs{.groups = 0}), "group_norm: 0 groups do not divide 4 channels"},
            {"empty", {zeros({2, 4, 0}), {}, {}}, {}, "group_norm: nothing to normalise in [2, 4, 0]"},
            {"weight", {x, zeros({3}), {}}, {}, "group_norm: weight [3] does not fit x [2, 4, 3]"},
            {"bias", {x, {}, zeros({2})}, {}, "group_norm: bias [2] does not fit x [2, 4, 3]"}};
  }
};
REGISTER_OP(GroupNorm);

}  // namespace

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  return apply<GroupNorm>({x, weight, bias}, {.groups = groups, .eps = eps});
}

}  // namespace spool
