#include <spool/ops/arithmetic.h>
#include <spool/ops/cpu/vec_math.h>
#include <spool/ops/detail/pointwise_op.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/scalar.h>
#include <spool/ops/where.h>

namespace spool {
namespace {

using detail::Domain, detail::Keeps, detail::Unary;

struct Scalar {
  double value = 0;
};

void check_whole(std::string_view op, double value, Dtype dtype) {
  if (!is_float(dtype) && value != std::trunc(value)) {
    fail<DtypeError>(op, ": ", dtype_name(dtype), " tensor and the fraction ", value, "; cast() the tensor to a float type first");
  }
}
std::vector<BadSample> scalar_bad(std::string_view op) {
  return {{"fraction", {zeros({2}, Dtype::i64)}, attrs_ptr(Scalar{0.5}), concat(op, ": i64 tensor and the fraction 0.5")},
          {"booleans", {zeros({2}, Dtype::boolean)}, attrs_ptr(Scalar{1}), concat(op, ": needs numbers, got bool")}};
}

struct AddScalar {
  static constexpr auto name = "add_scalar";
  static constexpr auto domain = Domain::numbers;
  static constexpr auto keeps = Keeps::nothing;
  using Attrs = Scalar;
  static constexpr Attrs sample{1.25};
  static void check(const Attrs& a, Dtype dtype) { check_whole(name, a.value, dtype); }
  static std::vector<BadSample> bad() { return scalar_bad(name); }
  template <class T>
  SPOOL_INLINE static T value(T x, const Attrs& a) {
    return T(x + T(a.value));
  }
  static Tensor gradient(const Tensor& g, const Tensor&, const Attrs&) { return g; }
};
struct RsubScalar {
  static constexpr auto name = "rsub_scalar";
  static constexpr auto domain = Domain::numbers;
  static constexpr auto keeps = Keeps::nothing;
  using Attrs = Scalar;
  static constexpr Attrs sample{1.25};
  static void check(const Attrs& a, Dtype dtype) { check_whole(name, a.value, dtype); }
  static std::vector<BadSample> bad() { return scalar_bad(name); }
  template <class T>
  SPOOL_INLINE static T value(T x, const Attrs& a) {
    return T(T(a.value) - x);
  }
  static Tensor gradient(const Tensor& g, const Tensor&, const Attrs&) { return neg(g); }
};
struct MulScalar {
  static constexpr auto name = "mul_scalar";
  static constexpr auto domain = Domain::numbers;
  static constexpr auto keeps = Keeps::nothing;
  using Attrs = Scalar;
  static constexpr Attrs sample{-1.75};
  static void check(const Attrs& a, Dtype dtype) { check_whole(name, a.value, dtype); }
  static std::vector<BadSample> bad() { return scalar_bad(name); }
  template <class T>
  SPOOL_INLINE static T value(T x, const Attrs& a) {
    return T(x * T(a.value));
  }
  static Tensor gradient(const Tensor& g, const Tensor&, const Attrs& a) { return mul_scalar(g, a.value); }
};
struct DivScalar {
  static constexpr auto name = "div_scalar";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::nothing;
  using Attrs = Scalar;
  static constexpr Attrs sample{-3};
  template <class T>
  SPOOL_INLINE static T value(T x, const Attrs& a) {
    return x / T(a.value);
  }
  static Tensor gradient(const Tensor& g, const Tensor&, const Attrs& a) { return div_scalar(g, a.value); }
};
struct PowScalar {
  static constexpr auto name = "pow_scalar";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::input;
  using Attrs = Scalar;
  static constexpr Attrs sample{2.5};
  static constexpr double low = 0.2, high = 3;
  template <class T>
  SPOOL_INLINE static T value(T x, const Attrs& a) {
    return std::pow(x, T(a.value));
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const Attrs& a) {
    if (a.value == 0) return zeros_view(g.shape(), g.dtype(), g.device());
    return mul(mul_scalar(g, a.value), pow(x, a.value - 1));
  }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const Attrs& a) {
    return a.value == 0 ? T(0) : T(a.value) * std::pow(x, T(a.value - 1));
  }
};
struct Limits {
  double low = 0, high = 0;
};
struct Clamp {
  static constexpr auto name = "clamp";
  static constexpr auto domain = Domain::numbers;
  static constexpr auto keeps = Keeps::input;
  using Attrs = Limits;
  static constexpr Attrs sample{-1.1, 1.3};
  static void check(const Attrs& a, Dtype dtype) {
    if (!(a.low <= a.high)) fail<Error>(name, ": low ", a.low, " is above high ", a.high);
    if (std::isfinite(a.low)) check_whole(name, a.low, dtype);
    if (std::isfinite(a.high)) check_whole(name, a.high, dtype);
  }
  static std::vector<BadSample> bad() {
    return {{"empty range", {zeros({2})}, attrs_ptr(Limits{1, -1}), "clamp: low 1 is above high -1"},
            {"fraction", {zeros({2}, Dtype::i64)}, attrs_ptr(Limits{0, 0.5}), "clamp: i64 tensor and the fraction 0.5"}};
  }
  template <class T>
  SPOOL_INLINE static T value(T x, const Attrs& a) {
    if constexpr (std::is_floating_point_v<T>)
      return x < T(a.low) ? T(a.low) : x > T(a.high) ? T(a.high) : x;
    else
      return double(x) < a.low ? T(a.low) : double(x) > a.high ? T(a.high) : x;  // the bounds may lie outside of T
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const Attrs& a) {
    const Tensor inside = logical_and(greater_equal(x, a.low), less_equal(x, a.high));
    return where(inside, g, zeros_view(g.shape(), g.dtype(), g.device()));
  }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const Attrs& a) {
    return x >= T(a.low) && x <= T(a.high) ? T(1) : T(0);
  }
};

[[maybe_unused]] const bool registered = detail::register_unary<AddScalar, RsubScalar, MulScalar, DivScalar, PowScalar, Clamp>();

}  // namespace

Tensor add_scalar(const Tensor& x, double value) { return apply<Unary<AddScalar>>({x}, {value}); }
Tensor rsub_scalar(double value, const Tensor& x) { return apply<Unary<RsubScalar>>({x}, {value}); }
Tensor mul_scalar(const Tensor& x, double value) { return apply<Unary<MulScalar>>({x}, {value}); }
Tensor div_scalar(const Tensor& x, double value) { return apply<Unary<DivScalar>>({x}, {value}); }
Tensor pow(const Tensor& x, double exponent) { return apply<Unary<PowScalar>>({x}, {exponent}); }
Tensor clamp(const Tensor& x, double low, double high) { return apply<Unary<Clamp>>({x}, {low, high}); }
Tensor operator/(double value, const Tensor& x) { return value == 1 ? reciprocal(x) : mul_scalar(reciprocal(x), value); }

}  // namespace spool
