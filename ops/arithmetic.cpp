#include <spool/ops/arithmetic.h>
#include <spool/ops/cast.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/shape.h>
#include <spool/ops/where.h>

#include <cmath>

namespace spool {
namespace {

using kernels::NoAttrs;

void require_same_types(std::string_view op, const Metas& in) {
  if (in[0].dtype != in[1].dtype) fail<DtypeError>(op, ": inputs are ", dtype_name(in[0].dtype), " and ", dtype_name(in[1].dtype), "; convert one with cast()");
}

std::vector<Sample> pairs(Rng& rng, double low, double high) {
  return {{"ragged", {rng.uniform({3, 7, 5}, low, high), rng.uniform({3, 7, 5}, low, high)}, {}},
          {"0-d", {rng.uniform({}, low, high), rng.uniform({}, low, high)}, {}},
          {"zero size", {rng.uniform({0, 3}, low, high), rng.uniform({0, 3}, low, high)}, {}}};
}

/// y = F::value(a, b) for one type of both inputs. F states name, floats_only and value.
template <class F>
struct Binary {
  static constexpr auto name = F::name;
  static constexpr bool strided = true;
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    require_same_types(name, in);
    if (F::floats_only && !is_float(in[0].dtype)) fail_not_float(name, in[0].dtype);
    if (in[0].dtype == Dtype::boolean) fail<DtypeError>(name, ": bool tensors have no arithmetic; convert with cast()");
    kernels::require_same_shapes(name, in);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit(k.in(0).dtype(), [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool>) {
        if constexpr (!F::floats_only || !std::is_integral_v<T>) kernels::binary_kernel<F, T, T>(k, attrs);
      }
    });
  }
  static Saves saves(Need need) { return F::saves(need); }
  static Tensors vjp(Saved& s, const Attrs&) { return F::vjp(s); }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return F::samples(rng); }
  static std::vector<BadSample> bad() {
    return {{"types", {zeros({2}), zeros({2}, Dtype::f64)}, {}, "f32 and f64; convert one with cast()"}, {"shapes", {zeros({2}), zeros({3})}, {}, "[2] and [3] differ"}};
  }
};

struct Add {
  static constexpr auto name = "add";
  static constexpr bool floats_only = false;
  template <class T> SPOOL_INLINE static T value(T a, T b, NoAttrs) { return a + b; }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s) { return {s.grad(), s.grad()}; }
  static std::vector<Sample> samples(Rng& rng) { return pairs(rng, -3, 3); }
};
struct Sub {
  static constexpr auto name = "sub";
  static constexpr bool floats_only = false;
  template <class T> SPOOL_INLINE static T value(T a, T b, NoAttrs) { return a - b; }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s) { return {s.grad(), s.needs(1) ? neg(s.grad()) : Tensor()}; }
  static std::vector<Sample> samples(Rng& rng) { return pairs(rng, -3, 3); }
};
struct Mul {
  static constexpr auto name = "mul";
  static constexpr bool floats_only = false;
  template <class T> SPOOL_INLINE static T value(T a, T b, NoAttrs) { return a * b; }
  static Saves saves(Need need) { return Saves().input(0, need(1)).input(1, need(0)); }
  static Tensors vjp(Saved& s) { return {s.needs(0) ? s.grad() * s.input(1) : Tensor(), s.needs(1) ? s.grad() * s.input(0) : Tensor()}; }
  static std::vector<Sample> samples(Rng& rng) { return pairs(rng, -3, 3); }
};
struct Div {
  static constexpr auto name = "div";
  static constexpr bool floats_only = true;
  template <class T> SPOOL_INLINE static T value(T a, T b, NoAttrs) { return a / b; }
  static Saves saves(Need need) { return Saves().input(1).output(0, need(1)); }
  static Tensors vjp(Saved& s) {
    const Tensor da = s.grad() / s.input(1);
    return {s.needs(0) ? da : Tensor(), s.needs(1) ? neg(da * s.output()) : Tensor()};
  }
  static std::vector<Sample> samples(Rng& rng) { return pairs(rng, 0.5, 3); }
};
struct Pow {
  static constexpr auto name = "pow";
  static constexpr bool floats_only = true;
  template <class T> SPOOL_INLINE static T value(T a, T b, NoAttrs) { return std::pow(a, b); }
  static Saves saves(Need need) { return Saves().input(0).input(1, need(0)).output(0, need(1)); }
  static Tensors vjp(Saved& s) {
    Tensors out(2);
    if (s.needs(0)) out[0] = s.grad() * s.input(1) * pow(s.input(0), s.input(1) - 1.0);
    if (s.needs(1)) {  // aᵇ log a, and 0 at a = 0 where the product would be 0·∞
      const Tensor positive = greater(s.input(0), zeros_view(s.in_meta(0).shape, s.in_meta(0).dtype, s.in_meta(0).device));
      const Tensor one = expand(ones({}, s.in_meta(0).dtype, s.in_meta(0).device), s.in_meta(0).shape);
      out[1] = s.grad() * s.output() * log(where(positive, s.input(0), one));
    }
    return out;
  }
  static std::vector<Sample> samples(Rng& rng) { return pairs(rng, 0.5, 2); }
};
/// Half of the gradient to each side of a tie.
Tensors shared_gradient(Saved& s, bool larger) {
  const Tensor &a = s.input(0), &b = s.input(1);
  const Dtype dtype = a.dtype();
  const Tensor tie = cast(equal(a, b), dtype) * 0.5;
  Tensors out(2);
  if (s.needs(0)) out[0] = s.grad() * (cast(larger ? greater(a, b) : less(a, b), dtype) + tie);
  if (s.needs(1)) out[1] = s.grad() * (cast(larger ? less(a, b) : greater(a, b), dtype) + tie);
  return out;
}
struct Maximum {
  static constexpr auto name = "maximum";
  static constexpr bool floats_only = true;
  template <class T> SPOOL_INLINE static T value(T a, T b, NoAttrs) { return a > b || a != a ? a : b; }
  static Saves saves(Need) { return Saves().input(0).input(1); }
  static Tensors vjp(Saved& s) { return shared_gradient(s, true); }
  static std::vector<Sample> samples(Rng& rng) { return pairs(rng, -3, 3); }
};
struct Minimum {
  static constexpr auto name = "minimum";
  static constexpr bool floats_only = true;
  template <class T> SPOOL_INLINE static T value(T a, T b, NoAttrs) { return a < b || a != a ? a : b; }
  static Saves saves(Need) { return Saves().input(0).input(1); }
  static Tensors vjp(Saved& s) { return shared_gradient(s, false); }
  static std::vector<Sample> samples(Rng& rng) { return pairs(rng, -3, 3); }
};
using AddOp = Binary<Add>;
REGISTER_OP(AddOp);
using SubOp = Binary<Sub>;
REGISTER_OP(SubOp);
using MulOp = Binary<Mul>;
REGISTER_OP(MulOp);
using DivOp = Binary<Div>;
REGISTER_OP(DivOp);
using PowOp = Binary<Pow>;
REGISTER_OP(PowOp);
using MaximumOp = Binary<Maximum>;
REGISTER_OP(MaximumOp);
using MinimumOp = Binary<Minimum>;
REGISTER_OP(MinimumOp);

struct Number {
  double value = 2;
};
template <class F>
struct WithNumber {
  static constexpr auto name = F::name;
  static constexpr bool strided = true;
  using Attrs = Number;
  static Inferred infer(const Metas& in, const Attrs&) {
    if (!is_float(in[0].dtype) && (!F::integers || !is_integer(in[0].dtype))) fail_not_float(name, in[0].dtype);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit(k.in(0).dtype(), [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool>) kernels::unary_kernel<F, T, T>(k, attrs);
    });
  }
  static Saves saves(Need) { return Saves().input(0, F::keeps_input); }
  static Tensors vjp(Saved& s, const Attrs& attrs) { return {F::gradient(s, attrs.value)}; }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return kernels::unary_samples(rng, 0.5, 3, Attrs{1.5}); }
  static std::vector<BadSample> bad() { return {{"bool", {zeros({2}, Dtype::boolean)}, {}, "needs a float type, got bool"}}; }
};
struct AddScalar {
  static constexpr auto name = "add_scalar";
  static constexpr bool integers = true, keeps_input = false;
  template <class T> SPOOL_INLINE static T value(T x, Number n) { return x + static_cast<T>(n.value); }
  static Tensor gradient(Saved& s, double) { return s.grad(); }
};
struct MulScalar {
  static constexpr auto name = "mul_scalar";
  static constexpr bool integers = true, keeps_input = false;
  template <class T> SPOOL_INLINE static T value(T x, Number n) { return x * static_cast<T>(n.value); }
  static Tensor gradient(Saved& s, double n) { return s.grad() * n; }
};
struct PowScalar {
  static constexpr auto name = "pow_scalar";
  static constexpr bool integers = false, keeps_input = true;
  template <class T> SPOOL_INLINE static T value(T x, Number n) { return static_cast<T>(std::pow(x, static_cast<T>(n.value))); }
  static Tensor gradient(Saved& s, double n) { return n == 0 ? zeros_view(s.in_meta(0).shape, s.in_meta(0).dtype, s.in_meta(0).device) : s.grad() * (pow(s.input(0), n - 1) * n); }
};
using AddScalarOp = WithNumber<AddScalar>;
REGISTER_OP(AddScalarOp);
using MulScalarOp = WithNumber<MulScalar>;
REGISTER_OP(MulScalarOp);
using PowScalarOp = WithNumber<PowScalar>;
REGISTER_OP(PowScalarOp);

/// bool from two of one type.
template <class F>
struct Comparison {
  static constexpr auto name = F::name;
  static constexpr bool strided = true;
  static constexpr auto no_gradient = "its result is bool";
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    if (in.size() == 2) require_same_types(name, in);
    if (F::of_bool != (in[0].dtype == Dtype::boolean)) fail<DtypeError>(name, ": does not take ", dtype_name(in[0].dtype));
    kernels::require_same_shapes(name, in);
    return {{Meta{in[0].shape, Dtype::boolean, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit(k.in(0).dtype(), [&]<class T>() {
      if constexpr (std::is_same_v<T, bool> == F::of_bool) {
        if constexpr (requires(T x) { F::value(x, NoAttrs{}); }) kernels::unary_kernel<F, T, bool>(k, attrs);
        else kernels::binary_kernel<F, T, bool>(k, attrs);
      }
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    const int arity = requires(bool x, float y) { F::value(x, NoAttrs{}); F::value(y, NoAttrs{}); } ? 1 : 2;
    std::vector<Sample> out;
    for (const Shape& shape : {Shape{3, 7, 5}, Shape{}, Shape{0, 3}}) {
      Sample s{"", {}, {}};
      for (int i = 0; i < arity; ++i) s.inputs.push_back(F::of_bool ? rng.booleans(shape) : rng.uniform(shape, -1, 1));
      out.push_back(std::move(s));
    }
    return out;
  }
  static std::vector<BadSample> bad() {
    const Tensor wrong = zeros({2}, F::of_bool ? Dtype::f32 : Dtype::boolean);
    return {{"type", {wrong, wrong}, {}, "does not take"}};
  }
};
#define SPOOL_COMPARISON(Type, text, expression)                               \
  struct Type {                                                                \
    static constexpr auto name = text;                                         \
    static constexpr bool of_bool = false;                                     \
    template <class T> SPOOL_INLINE static bool value(T a, T b, NoAttrs) { return expression; } \
  };                                                                           \
  using Type##Op = Comparison<Type>;                                           \
  REGISTER_OP(Type##Op)
SPOOL_COMPARISON(Equal, "equal", a == b);
SPOOL_COMPARISON(NotEqual, "not_equal", a != b);
SPOOL_COMPARISON(Less, "less", a < b);
SPOOL_COMPARISON(LessEqual, "less_equal", a <= b);
SPOOL_COMPARISON(Greater, "greater", a > b);
SPOOL_COMPARISON(GreaterEqual, "greater_equal", a >= b);
#undef SPOOL_COMPARISON
struct LogicalAnd {
  static constexpr auto name = "logical_and";
  static constexpr bool of_bool = true;
  SPOOL_INLINE static bool value(bool a, bool b, NoAttrs) { return a && b; }
};
struct LogicalOr {
  static constexpr auto name = "logical_or";
  static constexpr bool of_bool = true;
  SPOOL_INLINE static bool value(bool a, bool b, NoAttrs) { return a || b; }
};
struct LogicalNot {
  static constexpr auto name = "logical_not";
  static constexpr bool of_bool = true;
  template <class T> SPOOL_INLINE static bool value(T a, NoAttrs) { return !a; }
};
struct IsNan {
  static constexpr auto name = "isnan";
  static constexpr bool of_bool = false;
  template <class T> SPOOL_INLINE static bool value(T a, NoAttrs) { return a != a; }
};
struct IsFinite {
  static constexpr auto name = "isfinite";
  static constexpr bool of_bool = false;
  template <class T> SPOOL_INLINE static bool value(T a, NoAttrs) { return a - a == T(0); }
};
using LogicalAndOp = Comparison<LogicalAnd>;
REGISTER_OP(LogicalAndOp);
using LogicalOrOp = Comparison<LogicalOr>;
REGISTER_OP(LogicalOrOp);
using LogicalNotOp = Comparison<LogicalNot>;
REGISTER_OP(LogicalNotOp);
using IsNanOp = Comparison<IsNan>;
REGISTER_OP(IsNanOp);
using IsFiniteOp = Comparison<IsFinite>;
REGISTER_OP(IsFiniteOp);

template <class Op>
Tensor broadcasting(const Tensor& a, const Tensor& b) {
  if (a.shape() == b.shape()) return apply<Op>({a, b});
  const Shape shape = broadcast_shapes(Op::name, a.shape(), b.shape());
  return apply<Op>({expand(a, shape), expand(b, shape)});
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return broadcasting<AddOp>(a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return broadcasting<SubOp>(a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return broadcasting<MulOp>(a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return broadcasting<DivOp>(a, b); }
Tensor pow(const Tensor& a, const Tensor& b) { return broadcasting<PowOp>(a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return broadcasting<MaximumOp>(a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return broadcasting<MinimumOp>(a, b); }
Tensor add(const Tensor& a, double b) { return apply<AddScalarOp>({a}, {b}); }
Tensor mul(const Tensor& a, double b) { return apply<MulScalarOp>({a}, {b}); }
Tensor pow(const Tensor& a, double b) { return apply<PowScalarOp>({a}, {b}); }
Tensor operator/(double a, const Tensor& b) { return mul(reciprocal(b), a); }
Tensor equal(const Tensor& a, const Tensor& b) { return broadcasting<EqualOp>(a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return broadcasting<NotEqualOp>(a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return broadcasting<LessOp>(a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return broadcasting<LessEqualOp>(a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return broadcasting<GreaterOp>(a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return broadcasting<GreaterEqualOp>(a, b); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return broadcasting<LogicalAndOp>(a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return broadcasting<LogicalOrOp>(a, b); }
Tensor logical_not(const Tensor& a) { return apply<LogicalNotOp>({a}); }
Tensor isnan(const Tensor& x) { return apply<IsNanOp>({x}); }
Tensor isfinite(const Tensor& x) { return apply<IsFiniteOp>({x}); }

}  // namespace spool
