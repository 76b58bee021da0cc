// Reductions whose kernels work along the last axis; the public functions move the reduced axes there.
#include <spool/autograd/saved.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/detail/reduce_op.h>
#include <spool/ops/expand.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/reshape.h>
#include <spool/ops/where.h>
#include <spool/tensor/error.h>

#include <cmath>

namespace spool {
namespace {

using namespace detail;

Shape without_last(std::string_view op, const Meta& m) {
  if (m.shape.empty()) fail<ShapeError>(op, ": needs an axis, got shape []");
  Shape shape = m.shape;
  shape.erase(shape.size() - 1);
  return shape;
}

/// Calls f(row) for each row of `n` elements.
template <class F>
void each_row(int64_t rows, int64_t n, F&& f) {
  const int64_t group = std::max<int64_t>(1, 16384 / std::max<int64_t>(n, 1));
  parallel_blocks((rows + group - 1) / group, group * n, [&](int64_t block) {
    for (int64_t row = block * group; row < std::min(rows, (block + 1) * group); ++row) f(row);
  });
}

std::vector<Sample> last_samples(Rng& rng, bool empty_too, const AttrsPtr& attrs = {}) {
  std::vector<Sample> all{{"rows", {rng.normal({3, 5})}, attrs},
                          {"two axes of rows", {rng.normal({2, 3, 37})}, attrs},
                          {"vector", {rng.normal({9})}, attrs},
                          {"no rows", {rng.normal({0, 4})}, attrs}};
  if (empty_too) all.push_back({"of nothing", {rng.normal({2, 0})}, attrs});
  return all;
}

/// dx[i] = g · Π_{j≠i} x[j], from the products of what lies before and after: no division.
struct ProdBackward {
  static constexpr auto name = "prod_backward";
  static constexpr auto no_gradient = "it is the fused first derivative of prod";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    if (in[0].shape != without_last(name, in[1])) fail<ShapeError>(name, ": gradient ", in[0].shape, " for factors ", in[1].shape);
    return {{in[1]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = accumulate_t<T>;
      const T *g = static_cast<const T*>(k.in(0).raw()), *x = static_cast<const T*>(k.in(1).raw());
      T* dx = static_cast<T*>(k.out().raw());
      const int64_t n = k.in(1).shape().back();
      each_row(k.in(0).numel(), n, [&](int64_t row) {
        const T* from = x + row * n;
        T* to = dx + row * n;
        C before = C(g[row]);
        for (int64_t i = 0; i < n; ++i) {
          to[i] = T(before);
          before *= C(from[i]);
        }
        C after = 1;
        for (int64_t i = n - 1; i >= 0; --i) {
          to[i] = T(C(to[i]) * after);
          after *= C(from[i]);
        }
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {4.0 * double(numel(in[1].shape)), 2.0 * double(in[1].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({3}), rng.normal({3, 5})}, {}},
            {"zeros", {rng.normal({2}), from({{2, 0, 3, 4}, {2, 0, 0, 3}}, Dtype::f64)}, {}},
            {"zero size", {rng.normal({0}), rng.normal({0, 4})}, {}}};
  }
  static std::vector<BadSample> bad() {
    return {{"shape", {zeros({2}), zeros({3, 2})}, {}, "prod_backward: gradient [2] for factors [3, 2]"}};
  }
};
REGISTER_OP(ProdBackward);

struct Prod {
  static constexpr auto name = "prod";
  static constexpr auto no_second_order = "its backward is one fused pass";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    return {{{without_last(name, in[0]), in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      const int64_t n = k.in(0).shape().back();
      each_row(k.out().numel(), n, [&](int64_t row) {
        accumulate_t<T> product = 1;
        for (int64_t i = 0; i < n; ++i) product *= accumulate_t<T>(x[row * n + i]);
        y[row] = T(product);
      });
    });
  }
  static Saves saves(Need) { return Saves().input(0); }
  static Tensors vjp(Saved& s, const Attrs&) { return {apply<ProdBackward>({s.grad(), s.input(0)})}; }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    auto all = last_samples(rng, true);
    all.push_back({"zeros", {from({{2, 0, 3, 4}, {2, 0, 0, 3}}, Dtype::f64)}, {}});
    return all;
  }
  static std::vector<BadSample> bad() {
    return {{"0-d", {scalar(1)}, {}, "prod: needs an axis, got shape []"},
            {"integers", {zeros({2}, Dtype::i64)}, {}, "prod: needs a float type, got i64"}};
  }
};
REGISTER_OP(Prod);

/// Mean, then Σ (x - mean)², in double: a row of a large mean keeps its variance.
struct Var {
  static constexpr auto name = "var";
  struct Attrs {
    double correction = 1;
  };
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    return {{{without_last(name, in[0]), in[0].dtype, in[0].device}}, {}};
  }
  template <class T>
  SPOOL_CLONES static double deviation(const T* x, int64_t n) {
    constexpr int lanes = 8;
    double sum[lanes] = {};
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
      for (int l = 0; l < lanes; ++l) sum[l] += double(kernels::load(x[i + l]));
    for (int l = 0; i < n; ++i, ++l) sum[l] += double(kernels::load(x[i]));
    const double mean = (((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]))) / double(n);
    for (double& s : sum) s = 0;
    for (i = 0; i + lanes <= n; i += lanes) {
      for (int l = 0; l < lanes; ++l) {
        const double d = double(kernels::load(x[i + l])) - mean;
        sum[l] += d * d;
      }
    }
    for (int l = 0; i < n; ++i, ++l) {
      const double d = double(kernels::load(x[i])) - mean;
      sum[l] += d * d;
    }
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      const int64_t n = k.in(0).shape().back();
      const double divisor = std::max(0.0, double(n) - attrs.correction);
      each_row(k.out().numel(), 2 * n, [&](int64_t row) { y[row] = T(kernels::compute_t<T>(deviation(x + row * n, n) / divisor)); });
    });
  }
  static Saves saves(Need) { return Saves().input(0); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Tensor& x = s.input(0);
    const double divisor = std::max(0.0, double(x.shape().back()) - attrs.correction);
    const Tensor scale = unsqueeze(mul_scalar(s.grad(), 2 / divisor), -1);
    return {mul(sub(x, mean(x, -1, true)), scale)};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {5.0 * double(numel(in[0].shape)), double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    auto all = last_samples(rng, false);
    all.push_back({"population", {rng.normal({2, 4})}, attrs_ptr(Attrs{0})});
    all.push_back({.label = "large mean",
                   .inputs = {from({40000, 40001, 40002, 40003}, {}, Dtype::f64)},
                   .check_gradient = false,
                   .floats_only = true});
    all.push_back({.label = "one element", .inputs = {rng.normal({3, 1})}, .check_gradient = false});
    return all;
  }
  static std::vector<BadSample> bad() {
    return {{"0-d", {scalar(1)}, {}, "var: needs an axis, got shape []"},
            {"integers", {zeros({2}, Dtype::i64)}, {}, "var: needs a float type, got i64"}};
  }
};
REGISTER_OP(Var);

template <bool largest>
struct ArgExtremum {
  static constexpr auto name = largest ? "argmax" : "argmin";
  static constexpr auto no_gradient = "its result is an index";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    const Shape shape = without_last(name, in[0]);
    if (in[0].shape.back() == 0) fail<ShapeError>(name, ": no elements along the reduced axis of shape ", in[0].shape);
    return {{{shape, Dtype::i64, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit(k.in(0).dtype(), [&]<class T>() {
      const T* x = static_cast<const T*>(k.in(0).raw());
      auto* y = static_cast<int64_t*>(k.out().raw());
      const int64_t n = k.in(0).shape().back();
      each_row(k.out().numel(), n, [&](int64_t row) {
        const T* from = x + row * n;
        int64_t best = 0;
        auto value = kernels::load(from[0]);
        for (int64_t i = 1; i < n && value == value; ++i) {
          const auto next = kernels::load(from[i]);
          if (!(largest ? next <= value : next >= value)) {  // beyond, or NaN
            best = i;
            value = next;
          }
        }
        y[row] = best;
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    auto all = last_samples(rng, false);
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    all.push_back({"ties and extremes", {from({{1, 2, 2, 0}, {0, 0, 0, 0}, {1, nan, 3, nan}, {-inf, -inf, inf, inf}}, Dtype::f64)}, {}});
    return all;
  }
  static std::vector<BadSample> bad() {
    return {{"of nothing", {zeros({2, 0})}, {}, concat(name, ": no elements along the reduced axis of shape [2, 0]")},
            {"0-d", {scalar(1)}, {}, concat(name, ": needs an axis, got shape []")}};
  }
};
using Argmax = ArgExtremum<true>;
using Argmin = ArgExtremum<false>;
REGISTER_OP(Argmax);
REGISTER_OP(Argmin);

template <class Op>
Tensor last(const Tensor& x, const Axes& axes, bool keepdim, const typename Op::Attrs& attrs = {}) {
  const uint32_t mask = axes_mask(Op::name, axes, x.shape());
  const Tensor y = apply<Op>({reduced_last(x, mask)}, attrs);
  return keepdim ? reshape(y, reduced_shape(x.shape(), mask, true)) : y;
}

}  // namespace

Tensor prod(const Tensor& x, const Axes& axes, bool keepdim) { return last<Prod>(x, axes, keepdim); }
Tensor var(const Tensor& x, const Axes& axes, bool keepdim, double correction) { return last<Var>(x, axes, keepdim, {correction}); }

Tensor stddev(const Tensor& x, const Axes& axes, bool keepdim, double correction) {
  same_float("stddev", {meta_of(x)});
  axes_mask("stddev", axes, x.shape());
  const Tensor squared = var(x, axes, keepdim, correction), constant = equal(squared, 0);
  return masked_fill(sqrt(masked_fill(squared, constant, 1)), constant, 0);
}

Tensor argmax(const Tensor& x, int axis, bool keepdim) {
  check_not_empty("argmax", x.shape(), axes_mask("argmax", Axes(axis), x.shape()));
  return last<Argmax>(x, axis, keepdim);
}
Tensor argmin(const Tensor& x, int axis, bool keepdim) {
  check_not_empty("argmin", x.shape(), axes_mask("argmin", Axes(axis), x.shape()));
  return last<Argmin>(x, axis, keepdim);
}

}  // namespace spool
