#include <spool/ops/arithmetic.h>
#include <spool/ops/cpu/vec_math.h>
#include <spool/ops/detail/pointwise_op.h>
#include <spool/ops/expand.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/where.h>

namespace spool {
namespace {

using detail::Binary, detail::Domain, detail::NoAttrs, detail::Test;

struct Add {
  static constexpr auto name = "add";
  static constexpr auto domain = Domain::numbers;
  template <class T>
  SPOOL_INLINE static T value(T a, T b) {
    return T(a + b);
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s) { return {s.grad(), s.grad()}; }
};
struct Sub {
  static constexpr auto name = "sub";
  static constexpr auto domain = Domain::numbers;
  template <class T>
  SPOOL_INLINE static T value(T a, T b) {
    return T(a - b);
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s) { return {s.grad(), s.needs(1) ? neg(s.grad()) : Tensor()}; }
};
struct Mul {
  static constexpr auto name = "mul";
  static constexpr auto domain = Domain::numbers;
  template <class T>
  SPOOL_INLINE static T value(T a, T b) {
    return T(a * b);
  }
  static Saves saves(Need need) { return Saves().input(0, need(1)).input(1, need(0)); }
  static Tensors vjp(Saved& s) {
    Tensors out(2);
    if (s.needs(0)) out[0] = mul(s.grad(), s.input(1));
    if (s.needs(1)) out[1] = mul(s.grad(), s.input(0));
    return out;
  }
};
struct Div {
  static constexpr auto name = "div";
  static constexpr auto domain = Domain::floats;
  static constexpr double low = 0.4, high = 3;
  template <class T>
  SPOOL_INLINE static T value(T a, T b) {
    return a / b;
  }
  static Saves saves(Need need) { return Saves().input(1).output(0, need(1)); }
  static Tensors vjp(Saved& s) {
    const Tensor ga = div(s.grad(), s.input(1));
    Tensor gb;
    if (s.needs(1)) gb = neg(mul(ga, s.output()));
    return {ga, gb};
  }
};
struct Pow {
  static constexpr auto name = "pow";
  static constexpr auto domain = Domain::floats;
  static constexpr double low = 0.4, high = 3;
  template <class T>
  SPOOL_INLINE static T value(T a, T b) {
    return std::pow(a, b);
  }
  static Saves saves(Need need) { return Saves().input(0).input(1).output(0, need(1)); }
  static Tensors vjp(Saved& s) {
    const Tensor &a = s.input(0), &b = s.input(1), g = s.grad();
    Tensor ga, gb;
    if (s.needs(0)) ga = masked_fill(mul(mul(g, b), pow(a, add_scalar(b, -1))), equal(b, 0), 0);
    // 0^b is 0 for all b > 0, so its slope in b is 0 there and not 0 · log 0. The mask goes before the logarithm, so that the slope of
    // the slope is no NaN either.
    if (s.needs(1)) gb = mul(mul(g, s.output()), log(masked_fill(a, logical_and(equal(a, 0), greater_equal(b, 0)), 1)));
    return {ga, gb};
  }
};

/// g where a > b, half of it where they tie (or cannot be compared), 0 where a < b: what `maximum` passes to a.
struct LargerShare {
  static constexpr auto name = "larger_share";
  static constexpr bool strided = true;
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    for (const Meta& m : in)
      if (m.shape != in[0].shape) fail<ShapeError>(name, ": shapes ", in[0].shape, " and ", m.shape, " differ");
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.out().dtype(), [&]<class T>() {
      using C = spool::kernels::compute_t<T>;
      kernels::map3<T, T, T, T>(
          k.out(), k.in(0), k.in(1), k.in(2), [](C g, C a, C b) __attribute__((always_inline)) {
            return a > b ? g : a < b ? C(0) : C(0.5) * g;
          });
    });
  }
  static Saves saves(Need need) { return Saves().input(1, need(0)).input(2, need(0)); }
  static Tensors vjp(Saved& s, const Attrs&) {
    const auto flat = [&](int i) {
      return s.needs(i) ? zeros_view(s.in_meta(i).shape, s.in_meta(i).dtype, s.in_meta(i).device) : Tensor();
    };
    Tensor share;
    if (s.needs(0)) {
      const Tensor &a = s.input(1), &b = s.input(2);
      share = apply<LargerShare>({s.grad(), a, b});
    }
    return {share, flat(1), flat(2)};
  }
  static Cost cost(const Metas& in, const Attrs&) { return detail::pointwise_cost(in, 2); }
  static std::vector<Sample> samples(Rng& rng) {
    const Tensor tied = rng.normal({9});
    return {{"ragged", {rng.normal({3, 37}), rng.normal({3, 37}), rng.normal({3, 37})}, {}},
            {"0-d", {rng.normal({}), rng.normal({}), rng.normal({})}, {}},
            {"zero size", {rng.normal({0, 2}), rng.normal({0, 2}), rng.normal({0, 2})}, {}},
            {.label = "ties", .inputs = {rng.normal({9}), tied, tied}, .check_gradient = false}};
  }
  static std::vector<BadSample> bad() {
    return {{"shapes", {zeros({2}), zeros({2}), zeros({3})}, {}, "larger_share: shapes [2] and [3] differ"}};
  }
};
REGISTER_OP(LargerShare);

template <bool larger>
struct Extremum {
  static constexpr auto name = larger ? "maximum" : "minimum";
  static constexpr auto domain = Domain::numbers;
  template <class T>
  SPOOL_INLINE static T value(T a, T b) {
    const T chosen = (larger ? a > b : a < b) ? a : b;  // b when b is NaN
    return a != a ? a : chosen;
  }
  static Saves saves(Need) { return Saves().input(0).input(1); }
  static Tensors vjp(Saved& s) {
    const Tensor &a = s.input(0), &b = s.input(1), g = s.grad();
    const Tensor &high = larger ? a : b, &low = larger ? b : a;
    return {s.needs(0) ? apply<LargerShare>({g, high, low}) : Tensor(), s.needs(1) ? apply<LargerShare>({g, low, high}) : Tensor()};
  }
  /// Pairs that are well apart, so that differences do not step over a tie; and ties.
  static std::vector<Sample> samples(Rng& rng) {
    std::vector<Sample> all;
    for (const Shape& shape : {Shape{2, 3, 37}, Shape{}, Shape{0, 4}}) {
      const Tensor a = rng.normal(shape), gap = rng.uniform(shape, 0.1, 2);
      all.push_back({to_string(shape), {a, add(a, where(rng.booleans(shape), gap, neg(gap)))}, {}});
    }
    constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    all.push_back({.label = "ties and extremes",
                   .inputs = {from({1, -2, inf, -inf, nan, 0, nan}, {}, Dtype::f64), from({1, -2, 0, 0, 0, nan, nan}, {}, Dtype::f64)},
                   .check_gradient = false});
    return all;
  }
};
using Maximum = Extremum<true>;
using Minimum = Extremum<false>;

#define SPOOL_TEST(Name, text, types, expression) \
  struct Name {                                   \
    static constexpr auto name = text;            \
    static constexpr auto domain = Domain::types; \
    template <class T>                            \
    SPOOL_INLINE static bool test(T a, T b) {     \
      return expression;                          \
    }                                             \
  }
SPOOL_TEST(Equal, "equal", anything, a == b);
SPOOL_TEST(NotEqual, "not_equal", anything, a != b);
SPOOL_TEST(Less, "less", anything, a < b);
SPOOL_TEST(LessEqual, "less_equal", anything, a <= b);
SPOOL_TEST(Greater, "greater", anything, a > b);
SPOOL_TEST(GreaterEqual, "greater_equal", anything, a >= b);
SPOOL_TEST(LogicalAnd, "logical_and", booleans, a&& b);
SPOOL_TEST(LogicalOr, "logical_or", booleans, a || b);
#undef SPOOL_TEST
struct IsNan {
  static constexpr auto name = "isnan";
  static constexpr auto domain = Domain::floats;
  template <class T>
  SPOOL_INLINE static bool test(T x) {
    return x != x;
  }
};
struct IsFinite {
  static constexpr auto name = "isfinite";
  static constexpr auto domain = Domain::floats;
  template <class T>
  SPOOL_INLINE static bool test(T x) {
    return x - x == T(0);
  }
};
struct LogicalNot {
  static constexpr auto name = "logical_not";
  static constexpr auto domain = Domain::booleans;
  template <class T>
  SPOOL_INLINE static bool test(T x) {
    return !x;
  }
};

[[maybe_unused]] const bool registered = detail::register_each<Binary, Add, Sub, Mul, Div, Pow, Maximum, Minimum>() &&
                                         detail::register_each<Test, Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, LogicalAnd,
                                                               LogicalOr, LogicalNot, IsNan, IsFinite>();

template <class Op>
Tensor both(const Tensor& a, const Tensor& b) {
  const auto [x, y] = detail::broadcast(Op::name, a, b);
  return apply<Op>({x, y});
}
template <class F>
Tensor against(const Tensor& a, double b) {
  return apply<Test<F>>({a, expand(full({}, b, a.dtype(), a.device()), a.shape())});
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return both<Binary<Add>>(a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return both<Binary<Sub>>(a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return both<Binary<Mul>>(a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return both<Binary<Div>>(a, b); }
Tensor pow(const Tensor& a, const Tensor& b) { return both<Binary<Pow>>(a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return both<Binary<Minimum>>(a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return both<Binary<Maximum>>(a, b); }
Tensor equal(const Tensor& a, const Tensor& b) { return both<Test<Equal>>(a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return both<Test<NotEqual>>(a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return both<Test<Less>>(a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return both<Test<LessEqual>>(a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return both<Test<Greater>>(a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return both<Test<GreaterEqual>>(a, b); }
Tensor equal(const Tensor& a, double b) { return against<Equal>(a, b); }
Tensor not_equal(const Tensor& a, double b) { return against<NotEqual>(a, b); }
Tensor less(const Tensor& a, double b) { return against<Less>(a, b); }
Tensor less_equal(const Tensor& a, double b) { return against<LessEqual>(a, b); }
Tensor greater(const Tensor& a, double b) { return against<Greater>(a, b); }
Tensor greater_equal(const Tensor& a, double b) { return against<GreaterEqual>(a, b); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return both<Test<LogicalAnd>>(a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return both<Test<LogicalOr>>(a, b); }
Tensor isnan(const Tensor& x) { return apply<Test<IsNan>>({x}); }
Tensor isfinite(const Tensor& x) { return apply<Test<IsFinite>>({x}); }
Tensor logical_not(const Tensor& x) { return apply<Test<LogicalNot>>({x}); }

}  // namespace spool
