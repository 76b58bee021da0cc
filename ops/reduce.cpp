#include <spool/autograd/saved.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cast.h>
#include <spool/ops/cpu/reduce.h>
#include <spool/ops/detail/reduce_op.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/scalar.h>
#include <spool/ops/where.h>
#include <spool/tensor/error.h>

#include <cmath>
#include <limits>

namespace spool {
namespace {

using namespace detail;

template <class S>
struct SumOf {
  using C = kernels::compute_t<S>;
  using Lane = std::conditional_t<std::is_floating_point_v<C>, C, int64_t>;
  using Total = std::conditional_t<std::is_floating_point_v<C>, double, int64_t>;
  SPOOL_INLINE static Lane identity() { return 0; }
  SPOOL_INLINE static Lane lane(C x) { return Lane(x); }
  template <class T>
  SPOOL_INLINE static T join(T a, T b) {
    return a + b;
  }
};
/// As SumOf, squared; in double already in the lanes, for the range: 1e30² fits.
template <class S>
struct SquaresOf {
  using C = kernels::compute_t<S>;
  using Lane = double;
  using Total = double;
  SPOOL_INLINE static Lane identity() { return 0; }
  SPOOL_INLINE static Lane lane(C x) { return double(x) * double(x); }
  SPOOL_INLINE static double join(double a, double b) { return a + b; }
};
template <bool larger, class S>
struct ExtremumOf {
  using C = kernels::compute_t<S>;
  using Lane = C;
  using Total = C;
  SPOOL_INLINE static Lane identity() {
    using Limits = std::numeric_limits<C>;
    if constexpr (Limits::has_infinity)
      return larger ? -Limits::infinity() : Limits::infinity();
    else
      return larger ? Limits::lowest() : Limits::max();
  }
  SPOOL_INLINE static Lane lane(C x) { return x; }
  SPOOL_INLINE static C join(C a, C b) {
    const C chosen = (larger ? a > b : a < b) ? a : b;
    return a != a ? a : chosen;  // NaN stays; two selects vectorise where one condition of both does not
  }
};
template <bool conjunction>
struct Truth {
  using Lane = uint8_t;
  using Total = uint8_t;
  SPOOL_INLINE static Lane identity() { return conjunction; }
  SPOOL_INLINE static Lane lane(bool x) { return x; }
  SPOOL_INLINE static Lane join(Lane a, Lane b) { return Lane(conjunction ? a & b : a | b); }
};

Cost reduce_cost(const Metas& in) { return {double(numel(in[0].shape)), double(in[0].nbytes())}; }

template <class Op>
struct ReduceBase {
  static constexpr bool strided = true;
  using Attrs = ReduceAttrs;
  static Cost cost(const Metas& in, const Attrs&) { return reduce_cost(in); }
  static std::vector<Sample> samples(Rng& rng) { return reduce_samples(rng, true); }
  static std::vector<BadSample> bad() { return reduce_bad(Op::name); }
  static uint32_t mask(const Shape& shape, const Attrs& attrs) { return axes_mask(Op::name, attrs.axes, shape); }
  static Shape shape(const Metas& in, const Attrs& attrs) { return reduced_shape(in[0].shape, mask(in[0].shape, attrs), attrs.keepdim); }
};

struct Sum : ReduceBase<Sum> {
  static constexpr auto name = "sum";
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    return {{{shape(in, attrs), is_float(in[0].dtype) ? in[0].dtype : Dtype::i64, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) {
    return kernels::ReduceCut(in[0].shape, mask(in[0].shape, attrs)).scratch<double>();
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit(k.in(0).dtype(), [&]<class S>() {
      using R = std::conditional_t<std::is_integral_v<S>, int64_t, S>;
      R* out = static_cast<R*>(k.out().raw());
      kernels::reduce<SumOf<S>, S>(k.in(0), mask(k.in(0).shape(), attrs), k.scratch,
                                   [out](int64_t i, auto total) { out[i] = R(kernels::compute_t<R>(total)); });
    });
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Shape& in = s.in_meta(0).shape;
    return {spread(s.grad(), in, mask(in, attrs))};
  }
};
REGISTER_OP(Sum);

struct Mean : ReduceBase<Mean> {
  static constexpr auto name = "mean";
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, in);
    return {{{shape(in, attrs), in[0].dtype, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) {
    return kernels::ReduceCut(in[0].shape, mask(in[0].shape, attrs)).scratch<double>();
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const uint32_t axes = mask(k.in(0).shape(), attrs);
    const auto count = double(kernels::ReduceCut(k.in(0).shape(), axes).reduced);
    visit_float(name, k.in(0).dtype(), [&]<class S>() {
      S* out = static_cast<S*>(k.out().raw());
      kernels::reduce<SumOf<S>, S>(k.in(0), axes, k.scratch,
                                   [=](int64_t i, double total) { out[i] = S(kernels::compute_t<S>(total / count)); });
    });
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Shape& in = s.in_meta(0).shape;
    const uint32_t axes = mask(in, attrs);
    return {spread(div_scalar(s.grad(), double(kernels::ReduceCut(in, axes).reduced)), in, axes)};
  }
};
REGISTER_OP(Mean);

template <bool larger>
struct Extremum : ReduceBase<Extremum<larger>> {
  using Base = ReduceBase<Extremum<larger>>;
  using Attrs = ReduceAttrs;
  static constexpr auto name = larger ? "amax" : "amin";
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    check_not_empty(name, in[0].shape, Base::mask(in[0].shape, attrs));
    return {{{Base::shape(in, attrs), in[0].dtype, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) {
    return kernels::ReduceCut(in[0].shape, Base::mask(in[0].shape, attrs)).template scratch<double>();
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit(k.in(0).dtype(), [&]<class S>() {
      S* out = static_cast<S*>(k.out().raw());
      using Policy = ExtremumOf<larger, std::conditional_t<std::is_same_v<S, bool>, uint8_t, S>>;
      kernels::reduce<Policy, S>(k.in(0), Base::mask(k.in(0).shape(), attrs), k.scratch,
                                 [out](int64_t i, auto total) { out[i] = S(total); });
    });
  }
  static Saves saves(Need) { return Saves().input(0).output(0); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Tensor &x = s.input(0), &y = s.output();
    const uint32_t axes = Base::mask(x.shape(), attrs);
    const Tensor chosen = cast(equal(x, spread(y, x.shape(), axes)), x.dtype());
    const Tensor share = div(s.grad(), sum(chosen, attrs.axes, attrs.keepdim));
    return {mul(chosen, spread(share, x.shape(), axes))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    auto all = reduce_samples(rng, false);
    all.push_back(
        {.label = "ties", .inputs = {from({{1, 1, 0}, {-2, -2, -2}}, Dtype::f64)}, .attrs = attrs_ptr(Attrs{1}), .check_gradient = false});
    constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    all.push_back({.label = "extremes",
                   .inputs = {from({{-inf, -inf, -inf}, {1, inf, 2}, {1, nan, 2}}, Dtype::f64)},
                   .attrs = attrs_ptr(Attrs{1}),
                   .check_gradient = false});
    return all;
  }
  static std::vector<BadSample> bad() {
    auto all = reduce_bad(name);
    all.push_back(
        {"of nothing", {zeros({2, 0})}, attrs_ptr(Attrs{1}), concat(name, ": no elements along the reduced axes of shape [2, 0]")});
    return all;
  }
};
using Amax = Extremum<true>;
using Amin = Extremum<false>;
REGISTER_OP(Amax);
REGISTER_OP(Amin);

struct Norm : ReduceBase<Norm> {
  static constexpr auto name = "norm";
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, in);
    return {{{shape(in, attrs), in[0].dtype, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) {
    return kernels::ReduceCut(in[0].shape, mask(in[0].shape, attrs)).scratch<double>();
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class S>() {
      S* out = static_cast<S*>(k.out().raw());
      kernels::reduce<SquaresOf<S>, S>(k.in(0), mask(k.in(0).shape(), attrs), k.scratch,
                                       [out](int64_t i, double total) { out[i] = S(kernels::compute_t<S>(std::sqrt(total))); });
    });
  }
  static Saves saves(Need) { return Saves().input(0).output(0); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Tensor &x = s.input(0), &y = s.output();
    const Tensor slope = masked_fill(div(s.grad(), masked_fill(y, equal(y, 0), 1)), equal(y, 0), 0);
    return {mul(x, spread(slope, x.shape(), mask(x.shape(), attrs)))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    auto all = reduce_samples(rng, true);
    all.push_back({.label = "zeros and large values",
                   .inputs = {from({{0, 0}, {1e30, 1e30}}, Dtype::f64)},
                   .attrs = attrs_ptr(Attrs{1}),
                   .check_gradient = false,
                   .floats_only = true});
    return all;
  }
};
REGISTER_OP(Norm);

template <bool conjunction>
struct Quantifier : ReduceBase<Quantifier<conjunction>> {
  using Base = ReduceBase<Quantifier<conjunction>>;
  using Attrs = ReduceAttrs;
  static constexpr auto name = conjunction ? "all" : "any";
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    if (in[0].dtype != Dtype::boolean)
      fail<DtypeError>(name, ": needs bool, got ", dtype_name(in[0].dtype), "; compare first, for example not_equal(x, 0)");
    return {{{Base::shape(in, attrs), Dtype::boolean, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) {
    return kernels::ReduceCut(in[0].shape, Base::mask(in[0].shape, attrs)).template scratch<uint8_t>();
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    bool* out = static_cast<bool*>(k.out().raw());
    kernels::reduce<Truth<conjunction>, bool>(k.in(0), Base::mask(k.in(0).shape(), attrs), k.scratch,
                                              [out](int64_t i, uint8_t total) { out[i] = total != 0; });
  }
  static constexpr auto no_gradient = "its result is bool";
  static std::vector<Sample> samples(Rng& rng) {
    auto all = reduce_samples(rng, true);
    for (Sample& sample : all) sample.inputs[0] = rng.booleans(sample.inputs[0].shape());
    return all;
  }
  static std::vector<BadSample> bad() { return {{"floats", {zeros({2})}, {}, concat(name, ": needs bool, got f32")}}; }
};
using All = Quantifier<true>;
using Any = Quantifier<false>;
REGISTER_OP(All);
REGISTER_OP(Any);

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdim) { return apply<Sum>({x}, {axes, keepdim}); }
Tensor mean(const Tensor& x, const Axes& axes, bool keepdim) { return apply<Mean>({x}, {axes, keepdim}); }
Tensor amax(const Tensor& x, const Axes& axes, bool keepdim) { return apply<Amax>({x}, {axes, keepdim}); }
Tensor amin(const Tensor& x, const Axes& axes, bool keepdim) { return apply<Amin>({x}, {axes, keepdim}); }
Tensor norm(const Tensor& x, const Axes& axes, bool keepdim) { return apply<Norm>({x}, {axes, keepdim}); }
Tensor any(const Tensor& x, const Axes& axes, bool keepdim) { return apply<Any>({x}, {axes, keepdim}); }
Tensor all(const Tensor& x, const Axes& axes, bool keepdim) { return apply<All>({x}, {axes, keepdim}); }

}  // namespace spool
