#include <spool/ops/cpu/activations.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/pointwise.h>

#include <cmath>

namespace spool {
namespace {

using kernels::Keeps;
using kernels::NoAttrs;
using kernels::Unary;
using kernels::UnaryBackward;
using kernels::unary_samples;

// The float version of a function comes from vec_math.h where there is one that vectorises; f64 is computed by the standard library.
struct Exp {
  static constexpr auto name = "exp", backward_name = "exp_backward";
  static constexpr auto keeps = Keeps::output;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return kernels::vexp(x); }
  template <class T> SPOOL_INLINE static T slope(T y, Attrs) { return y; }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -3, 3); }
};
struct Expm1 {
  static constexpr auto name = "expm1", backward_name = "expm1_backward";
  static constexpr auto keeps = Keeps::output;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return std::expm1(x); }
  template <class T> SPOOL_INLINE static T slope(T y, Attrs) { return y + T(1); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -3, 3); }
};
struct Log {
  static constexpr auto name = "log", backward_name = "log_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return kernels::vlog(x); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return T(1) / x; }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, 0.3, 4); }
};
struct Log1p {
  static constexpr auto name = "log1p", backward_name = "log1p_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return std::log1p(x); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return T(1) / (T(1) + x); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -0.6, 4); }
};
struct Sqrt {
  static constexpr auto name = "sqrt", backward_name = "sqrt_backward";
  static constexpr auto keeps = Keeps::output;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return std::sqrt(x); }
  template <class T> SPOOL_INLINE static T slope(T y, Attrs) { return T(0.5) / y; }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, 0.3, 4); }
};
struct Rsqrt {
  static constexpr auto name = "rsqrt", backward_name = "rsqrt_backward";
  static constexpr auto keeps = Keeps::output;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return T(1) / std::sqrt(x); }
  template <class T> SPOOL_INLINE static T slope(T y, Attrs) { return T(-0.5) * y * y * y; }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, 0.3, 4); }
};
struct Square {
  static constexpr auto name = "square", backward_name = "square_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return x * x; }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return T(2) * x; }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -2, 2); }
};
struct Reciprocal {
  static constexpr auto name = "reciprocal", backward_name = "reciprocal_backward";
  static constexpr auto keeps = Keeps::output;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return T(1) / x; }
  template <class T> SPOOL_INLINE static T slope(T y, Attrs) { return -y * y; }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, 0.5, 3); }
};
struct Sin {
  static constexpr auto name = "sin", backward_name = "sin_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return std::sin(x); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return std::cos(x); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -4, 4); }
};
struct Cos {
  static constexpr auto name = "cos", backward_name = "cos_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return std::cos(x); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return -std::sin(x); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -4, 4); }
};
struct Tanh {
  static constexpr auto name = "tanh", backward_name = "tanh_backward";
  static constexpr auto keeps = Keeps::output;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return kernels::vtanh(x); }
  template <class T> SPOOL_INLINE static T slope(T y, Attrs) { return T(1) - y * y; }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -3, 3); }
};
struct Erf {
  static constexpr auto name = "erf", backward_name = "erf_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return kernels::verf(x); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return T(1.12837916709551257390) * kernels::vexp(-x * x); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -3, 3); }
};
struct Sigmoid {
  static constexpr auto name = "sigmoid", backward_name = "sigmoid_backward";
  static constexpr auto keeps = Keeps::output;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return kernels::vsigmoid(x); }
  template <class T> SPOOL_INLINE static T slope(T y, Attrs) { return y * (T(1) - y); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -6, 6); }
};
struct LogSigmoid {
  static constexpr auto name = "log_sigmoid", backward_name = "log_sigmoid_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return (x < T(0) ? x : T(0)) - std::log1p(kernels::vexp(x < T(0) ? x : -x)); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return kernels::vsigmoid(-x); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -6, 6); }
};
struct Softplus {
  static constexpr auto name = "softplus", backward_name = "softplus_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return (x > T(0) ? x : T(0)) + std::log1p(kernels::vexp(x < T(0) ? x : -x)); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return kernels::vsigmoid(x); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -6, 6); }
};
struct Relu {
  static constexpr auto name = "relu", backward_name = "relu_backward";
  static constexpr auto keeps = Keeps::output;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return kernels::relu(x); }
  template <class T> SPOOL_INLINE static T slope(T y, Attrs) { return y > T(0) ? T(1) : T(0); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, 0.1, 2); }
};
struct SlopeAttr {
  double value = 0.01;
};
struct LeakyRelu {
  static constexpr auto name = "leaky_relu", backward_name = "leaky_relu_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = SlopeAttr;
  template <class T> SPOOL_INLINE static T value(T x, Attrs a) { return x > T(0) ? x : T(a.value) * x; }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs a) { return x > T(0) ? T(1) : T(a.value); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -2, -0.1, Attrs{0.2}); }
};
struct AlphaAttr {
  double value = 1;
};
struct Elu {
  static constexpr auto name = "elu", backward_name = "elu_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = AlphaAttr;
  template <class T> SPOOL_INLINE static T value(T x, Attrs a) { return x > T(0) ? x : T(a.value) * std::expm1(x); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs a) { return x > T(0) ? T(1) : T(a.value) * kernels::vexp(x); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -3, -0.1, Attrs{1.5}); }
};
struct Silu {
  static constexpr auto name = "silu", backward_name = "silu_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return kernels::silu(x); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return kernels::silu_derivative(x); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -4, 4); }
};
struct GeluErf {
  static constexpr auto name = "gelu_erf", backward_name = "gelu_erf_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return kernels::gelu_erf(x); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return kernels::gelu_erf_derivative(x); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -4, 4); }
};
struct GeluTanh {
  static constexpr auto name = "gelu_tanh", backward_name = "gelu_tanh_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return kernels::gelu_tanh(x); }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return kernels::gelu_tanh_derivative(x); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -4, 4); }
};
struct Abs {
  static constexpr auto name = "abs", backward_name = "abs_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return x < T(0) ? -x : x; }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs) { return T(x > T(0)) - T(x < T(0)); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -3, -0.1); }
};
struct Range {
  double low = -1, high = 1;
};
struct Clamp {
  static constexpr auto name = "clamp", backward_name = "clamp_backward";
  static constexpr auto keeps = Keeps::input;
  using Attrs = Range;
  template <class T> SPOOL_INLINE static T value(T x, Attrs a) { return x < T(a.low) ? T(a.low) : x > T(a.high) ? T(a.high) : x; }
  template <class T> SPOOL_INLINE static T slope(T x, Attrs a) { return T(x >= T(a.low) && x <= T(a.high)); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, 0.1, 0.9, Attrs{0, 0.5}); }
};
#define SPOOL_STEP_FUNCTION(Type, text, expression)                                  \
  struct Type {                                                                      \
    static constexpr auto name = text, backward_name = text "_backward";            \
    static constexpr auto keeps = Keeps::nothing;                                    \
    using Attrs = NoAttrs;                                                           \
    template <class T> SPOOL_INLINE static T value(T x, Attrs) { return expression; } \
    static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, 0.1, 0.4); } \
  }
SPOOL_STEP_FUNCTION(Sign, "sign", T(x > T(0)) - T(x < T(0)));
SPOOL_STEP_FUNCTION(Floor, "floor", std::floor(x));
SPOOL_STEP_FUNCTION(Ceil, "ceil", std::ceil(x));
SPOOL_STEP_FUNCTION(Round, "round", std::nearbyint(x));
#undef SPOOL_STEP_FUNCTION

/// −x has a gradient without anything kept, of any order.
struct Neg {
  static constexpr auto name = "neg";
  static constexpr bool strided = true;
  using Attrs = NoAttrs;
  template <class T> SPOOL_INLINE static T value(T x, Attrs) { return -x; }
  static Inferred infer(const Metas& in, const Attrs&) {
    if (!is_float(in[0].dtype)) fail_not_float(name, in[0].dtype);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() { kernels::unary_kernel<Neg, T, T>(k, attrs); });
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs&) { return {neg(s.grad())}; }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, -3, 3); }
  static std::vector<BadSample> bad() { return {{"integers", {zeros({2}, Dtype::i32)}, {}, "needs a float type, got i32"}}; }
};
REGISTER_OP(Neg);

#define SPOOL_REGISTER(F)                              \
  using F##Op = Unary<F>;                              \
  REGISTER_OP(F##Op);                                  \
  using F##BackwardOp = UnaryBackward<F>;              \
  REGISTER_OP(F##BackwardOp)
SPOOL_REGISTER(Exp);
SPOOL_REGISTER(Expm1);
SPOOL_REGISTER(Log);
SPOOL_REGISTER(Log1p);
SPOOL_REGISTER(Sqrt);
SPOOL_REGISTER(Rsqrt);
SPOOL_REGISTER(Square);
SPOOL_REGISTER(Reciprocal);
SPOOL_REGISTER(Sin);
SPOOL_REGISTER(Cos);
SPOOL_REGISTER(Tanh);
SPOOL_REGISTER(Erf);
SPOOL_REGISTER(Sigmoid);
SPOOL_REGISTER(LogSigmoid);
SPOOL_REGISTER(Softplus);
SPOOL_REGISTER(Relu);
SPOOL_REGISTER(LeakyRelu);
SPOOL_REGISTER(Elu);
SPOOL_REGISTER(Silu);
SPOOL_REGISTER(GeluErf);
SPOOL_REGISTER(GeluTanh);
SPOOL_REGISTER(Abs);
SPOOL_REGISTER(Clamp);
#undef SPOOL_REGISTER
using SignOp = Unary<Sign>;
REGISTER_OP(SignOp);
using FloorOp = Unary<Floor>;
REGISTER_OP(FloorOp);
using CeilOp = Unary<Ceil>;
REGISTER_OP(CeilOp);
using RoundOp = Unary<Round>;
REGISTER_OP(RoundOp);

}  // namespace

Tensor exp(const Tensor& x) { return apply<ExpOp>({x}); }
Tensor expm1(const Tensor& x) { return apply<Expm1Op>({x}); }
Tensor log(const Tensor& x) { return apply<LogOp>({x}); }
Tensor log1p(const Tensor& x) { return apply<Log1pOp>({x}); }
Tensor sqrt(const Tensor& x) { return apply<SqrtOp>({x}); }
Tensor rsqrt(const Tensor& x) { return apply<RsqrtOp>({x}); }
Tensor square(const Tensor& x) { return apply<SquareOp>({x}); }
Tensor reciprocal(const Tensor& x) { return apply<ReciprocalOp>({x}); }
Tensor sin(const Tensor& x) { return apply<SinOp>({x}); }
Tensor cos(const Tensor& x) { return apply<CosOp>({x}); }
Tensor tanh(const Tensor& x) { return apply<TanhOp>({x}); }
Tensor erf(const Tensor& x) { return apply<ErfOp>({x}); }
Tensor sigmoid(const Tensor& x) { return apply<SigmoidOp>({x}); }
Tensor log_sigmoid(const Tensor& x) { return apply<LogSigmoidOp>({x}); }
Tensor softplus(const Tensor& x) { return apply<SoftplusOp>({x}); }
Tensor relu(const Tensor& x) { return apply<ReluOp>({x}); }
Tensor leaky_relu(const Tensor& x, double slope) { return apply<LeakyReluOp>({x}, {slope}); }
Tensor elu(const Tensor& x, double alpha) { return apply<EluOp>({x}, {alpha}); }
Tensor silu(const Tensor& x) { return apply<SiluOp>({x}); }
Tensor abs(const Tensor& x) { return apply<AbsOp>({x}); }
Tensor neg(const Tensor& x) { return apply<Neg>({x}); }
Tensor sign(const Tensor& x) { return apply<SignOp>({x}); }
Tensor floor(const Tensor& x) { return apply<FloorOp>({x}); }
Tensor ceil(const Tensor& x) { return apply<CeilOp>({x}); }
Tensor round(const Tensor& x) { return apply<RoundOp>({x}); }
Tensor clamp(const Tensor& x, double low, double high) { return apply<ClampOp>({x}, {low, high}); }
Tensor gelu(const Tensor& x, Gelu kind) { return kind == Gelu::erf ? apply<GeluErfOp>({x}) : apply<GeluTanhOp>({x}); }

}  // namespace spool
