#include <spool/ops/arithmetic.h>
#include <spool/ops/cpu/vec_math.h>
#include <spool/ops/detail/pointwise_op.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/scalar.h>

namespace spool {
namespace {

using detail::Domain, detail::Keeps, detail::NoAttrs, detail::Unary;

/// Zeros that occupy one element, like g.
Tensor no_slope(const Tensor& g) { return zeros_view(g.shape(), g.dtype(), g.device()); }

struct Neg {
  static constexpr auto name = "neg";
  static constexpr auto domain = Domain::numbers;
  static constexpr auto keeps = Keeps::nothing;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return T(-x);
  }
  static Tensor gradient(const Tensor& g, const Tensor&, const NoAttrs&) { return neg(g); }
};
struct Abs {
  static constexpr auto name = "abs";
  static constexpr auto domain = Domain::numbers;
  static constexpr auto keeps = Keeps::input;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    if constexpr (std::is_floating_point_v<T>)
      return std::abs(x);
    else
      return x < T(0) ? T(-x) : x;
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) { return mul(g, sign(x)); }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
  }
};
struct Sign {
  static constexpr auto name = "sign";
  static constexpr auto domain = Domain::numbers;
  static constexpr auto keeps = Keeps::nothing;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
  }
  static Tensor gradient(const Tensor& g, const Tensor&, const NoAttrs&) { return no_slope(g); }
};
struct Square {
  static constexpr auto name = "square";
  static constexpr auto domain = Domain::numbers;
  static constexpr auto keeps = Keeps::input;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return T(x * x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) { return mul_scalar(mul(g, x), 2); }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return T(2) * x;
  }
};
struct Exp {
  static constexpr auto name = "exp";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::output;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::vexp(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& y, const NoAttrs&) { return mul(g, y); }
};
struct Expm1 {
  static constexpr auto name = "expm1";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::output;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::vexpm1(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& y, const NoAttrs&) { return mul(g, add_scalar(y, 1)); }
  template <class T>
  SPOOL_INLINE static T derivative(T y, const NoAttrs&) {
    return y + T(1);
  }
};
struct Log {
  static constexpr auto name = "log";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::input;
  static constexpr double low = 0.2, high = 4;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::vlog(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) { return div(g, x); }
};
struct Log1p {
  static constexpr auto name = "log1p";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::input;
  static constexpr double low = -0.7, high = 3;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::vlog1p(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) { return div(g, add_scalar(x, 1)); }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return T(1) / (T(1) + x);
  }
};
struct Sqrt {
  static constexpr auto name = "sqrt";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::output;
  static constexpr double low = 0.2, high = 4;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return std::sqrt(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& y, const NoAttrs&) { return div(mul_scalar(g, 0.5), y); }
  template <class T>
  SPOOL_INLINE static T derivative(T y, const NoAttrs&) {
    return T(0.5) / y;
  }
};
struct Rsqrt {
  static constexpr auto name = "rsqrt";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::output;
  static constexpr double low = 0.2, high = 4;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return T(1) / std::sqrt(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& y, const NoAttrs&) { return mul(mul_scalar(g, -0.5), mul(y, square(y))); }
  template <class T>
  SPOOL_INLINE static T derivative(T y, const NoAttrs&) {
    return T(-0.5) * y * y * y;
  }
};
struct Reciprocal {
  static constexpr auto name = "reciprocal";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::output;
  static constexpr double low = 0.3, high = 3;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return T(1) / x;
  }
  static Tensor gradient(const Tensor& g, const Tensor& y, const NoAttrs&) { return neg(mul(g, square(y))); }
  template <class T>
  SPOOL_INLINE static T derivative(T y, const NoAttrs&) {
    return -y * y;
  }
};
struct Sin {
  static constexpr auto name = "sin";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::input;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return std::sin(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) { return mul(g, cos(x)); }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return std::cos(x);
  }
};
struct Cos {
  static constexpr auto name = "cos";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::input;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return std::cos(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) { return neg(mul(g, sin(x))); }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return -std::sin(x);
  }
};
struct Tanh {
  static constexpr auto name = "tanh";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::output;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::vtanh(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& y, const NoAttrs&) { return mul(g, rsub_scalar(1, square(y))); }
  template <class T>
  SPOOL_INLINE static T derivative(T y, const NoAttrs&) {
    return T(1) - y * y;
  }
};
constexpr double two_over_sqrt_pi = 1.12837916709551257390;
struct Erf {
  static constexpr auto name = "erf";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::input;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::verf(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) {
    return mul(mul_scalar(g, two_over_sqrt_pi), exp(neg(square(x))));
  }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return T(two_over_sqrt_pi) * kernels::vexp(-x * x);
  }
};
struct Floor {
  static constexpr auto name = "floor";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::nothing;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return std::floor(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor&, const NoAttrs&) { return no_slope(g); }
};
struct Ceil {
  static constexpr auto name = "ceil";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::nothing;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return std::ceil(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor&, const NoAttrs&) { return no_slope(g); }
};
struct Round {
  static constexpr auto name = "round";
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::nothing;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return std::nearbyint(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor&, const NoAttrs&) { return no_slope(g); }
};

[[maybe_unused]] const bool registered = detail::register_unary<Neg, Abs, Sign, Square, Exp, Expm1, Log, Log1p, Sqrt, Rsqrt, Reciprocal,
                                                                Sin, Cos, Tanh, Erf, Floor, Ceil, Round>();

}  // namespace

Tensor neg(const Tensor& x) { return apply<Unary<Neg>>({x}); }
Tensor operator-(const Tensor& x) { return neg(x); }
Tensor abs(const Tensor& x) { return apply<Unary<Abs>>({x}); }
Tensor sign(const Tensor& x) { return apply<Unary<Sign>>({x}); }
Tensor square(const Tensor& x) { return apply<Unary<Square>>({x}); }
Tensor exp(const Tensor& x) { return apply<Unary<Exp>>({x}); }
Tensor expm1(const Tensor& x) { return apply<Unary<Expm1>>({x}); }
Tensor log(const Tensor& x) { return apply<Unary<Log>>({x}); }
Tensor log1p(const Tensor& x) { return apply<Unary<Log1p>>({x}); }
Tensor sqrt(const Tensor& x) { return apply<Unary<Sqrt>>({x}); }
Tensor rsqrt(const Tensor& x) { return apply<Unary<Rsqrt>>({x}); }
Tensor reciprocal(const Tensor& x) { return apply<Unary<Reciprocal>>({x}); }
Tensor sin(const Tensor& x) { return apply<Unary<Sin>>({x}); }
Tensor cos(const Tensor& x) { return apply<Unary<Cos>>({x}); }
Tensor tanh(const Tensor& x) { return apply<Unary<Tanh>>({x}); }
Tensor erf(const Tensor& x) { return apply<Unary<Erf>>({x}); }
Tensor floor(const Tensor& x) { return apply<Unary<Floor>>({x}); }
Tensor ceil(const Tensor& x) { return apply<Unary<Ceil>>({x}); }
Tensor round(const Tensor& x) { return apply<Unary<Round>>({x}); }

}  // namespace spool
