#include <spool/ops/activation.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cpu/activations.h>
#include <spool/ops/detail/pointwise_op.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/where.h>

namespace spool {
namespace {

using detail::Domain, detail::Keeps, detail::NoAttrs, detail::Unary;

Tensor zeros_like_view(const Tensor& g) { return zeros_view(g.shape(), g.dtype(), g.device()); }

struct Activation {
  static constexpr auto domain = Domain::floats;
  static constexpr auto keeps = Keeps::input;
};

struct Relu : Activation {
  static constexpr auto name = "relu";
  static constexpr auto keeps = Keeps::output;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::relu(x);
  }
  template <class T>
  SPOOL_INLINE static T derivative(T y, const NoAttrs&) {
    return kernels::relu_derivative(y);
  }
  static Tensor gradient(const Tensor& g, const Tensor& y, const NoAttrs&) { return where(greater(y, 0), g, zeros_like_view(g)); }
};

struct Slope {
  double value = 0.01;
};
struct LeakyRelu : Activation {
  static constexpr auto name = "leaky_relu";
  using Attrs = Slope;
  static constexpr Attrs sample{0.2};
  template <class T>
  SPOOL_INLINE static T value(T x, const Attrs& a) {
    return x < T(0) ? x * T(a.value) : x;
  }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const Attrs& a) {
    return x > T(0) ? T(1) : T(a.value);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const Attrs& a) { return where(greater(x, 0), g, mul_scalar(g, a.value)); }
};

struct Alpha {
  double value = 1;
};
struct Elu : Activation {
  static constexpr auto name = "elu";
  using Attrs = Alpha;
  static constexpr Attrs sample{0.7};
  template <class T>
  SPOOL_INLINE static T value(T x, const Attrs& a) {
    return kernels::positive_part(x) + T(a.value) * kernels::vexpm1(kernels::negative_part(x));
  }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const Attrs& a) {
    return x > T(0) ? T(1) : T(a.value) * kernels::vexp(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const Attrs& a) {
    return where(greater(x, 0), g, mul(mul_scalar(g, a.value), exp(minimum(x, zeros_like_view(x)))));
  }
};

struct Sigmoid : Activation {
  static constexpr auto name = "sigmoid";
  static constexpr auto keeps = Keeps::output;
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::vsigmoid(x);
  }
  template <class T>
  SPOOL_INLINE static T derivative(T y, const NoAttrs&) {
    return y * (T(1) - y);
  }
  static Tensor gradient(const Tensor& g, const Tensor& y, const NoAttrs&) { return mul(g, mul(y, rsub_scalar(1, y))); }
};

/// log(1 + t) for t in [0, 1]: the rounding of 1 + t is made good to first order, which leaves one unit in the last place.
template <class T>
SPOOL_INLINE T log_one_plus(T t) {
  if constexpr (std::is_same_v<T, double>) {
    return std::log1p(t);
  } else {
    const T u = T(1) + t;
    return kernels::vlog(u) + (t - (u - T(1))) / u;
  }
}
struct Softplus : Activation {
  static constexpr auto name = "softplus";
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    const T size = x < T(0) ? -x : x;
    return (x < T(0) ? T(0) : x) + log_one_plus(kernels::vexp(-size));
  }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return kernels::vsigmoid(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) { return mul(g, sigmoid(x)); }
};
struct LogSigmoid : Activation {
  static constexpr auto name = "log_sigmoid";
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    const T size = x < T(0) ? -x : x;
    return (x > T(0) ? T(0) : x) - log_one_plus(kernels::vexp(-size));
  }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return kernels::vsigmoid(-x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) { return mul(g, sigmoid(neg(x))); }
};

struct Silu : Activation {
  static constexpr auto name = "silu";
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::silu(x);
  }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return kernels::silu_derivative(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) {
    const Tensor s = sigmoid(x);
    return mul(g, mul(s, add_scalar(mul(x, rsub_scalar(1, s)), 1)));
  }
};
struct GeluErf : Activation {
  static constexpr auto name = "gelu_erf";
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::gelu_erf(x);
  }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return kernels::gelu_erf_derivative(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) {
    const Tensor distribution = add_scalar(mul_scalar(erf(mul_scalar(x, 0.70710678118654752440)), 0.5), 0.5);
    const Tensor density = mul_scalar(exp(mul_scalar(square(x), -0.5)), 0.39894228040143267794);
    return mul(g, add(distribution, mul(x, density)));
  }
};
struct GeluTanh : Activation {
  static constexpr auto name = "gelu_tanh";
  template <class T>
  SPOOL_INLINE static T value(T x, const NoAttrs&) {
    return kernels::gelu_tanh(x);
  }
  template <class T>
  SPOOL_INLINE static T derivative(T x, const NoAttrs&) {
    return kernels::gelu_tanh_derivative(x);
  }
  static Tensor gradient(const Tensor& g, const Tensor& x, const NoAttrs&) {
    constexpr double scale = kernels::detail::gelu_scale, cubic = kernels::detail::gelu_cubic;
    const Tensor x2 = square(x), s = sigmoid(mul_scalar(mul(x, add_scalar(mul_scalar(x2, cubic), 1)), scale));
    const Tensor slope = mul_scalar(add_scalar(mul_scalar(x2, 3 * cubic), 1), scale);
    return mul(g, add(s, mul(mul(x, mul(s, rsub_scalar(1, s))), slope)));
  }
};

[[maybe_unused]] const bool registered =
    detail::register_unary<Relu, LeakyRelu, Elu, Sigmoid, Softplus, LogSigmoid, Silu, GeluErf, GeluTanh>();

}  // namespace

Tensor relu(const Tensor& x) { return apply<Unary<Relu>>({x}); }
Tensor leaky_relu(const Tensor& x, double negative_slope) { return apply<Unary<LeakyRelu>>({x}, {negative_slope}); }
Tensor elu(const Tensor& x, double alpha) { return apply<Unary<Elu>>({x}, {alpha}); }
Tensor sigmoid(const Tensor& x) { return apply<Unary<Sigmoid>>({x}); }
Tensor log_sigmoid(const Tensor& x) { return apply<Unary<LogSigmoid>>({x}); }
Tensor softplus(const Tensor& x) { return apply<Unary<Softplus>>({x}); }
Tensor silu(const Tensor& x) { return apply<Unary<Silu>>({x}); }
Tensor gelu(const Tensor& x, Gelu kind) { return kind == Gelu::erf ? apply<Unary<GeluErf>>({x}) : apply<Unary<GeluTanh>>({x}); }

}  // namespace spool
