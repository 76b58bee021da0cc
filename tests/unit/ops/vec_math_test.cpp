// The polynomials of vec_math.h and the activations built on them, against double precision, densely and at the extremes.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <spool/ops/cpu/activations.h>

namespace spool::kernels {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// The loops are compiled as the ops compile theirs, so the vector code is what is tested.
#define LOOP(name, expression)                                     \
  SPOOL_CLONES void name(const float* in, float* out, int64_t n) { \
    for (int64_t i = 0; i < n; ++i) {                              \
      const float x = in[i];                                       \
      out[i] = (expression);                                       \
    }                                                              \
  }
LOOP(loop_exp, vexp(x))
LOOP(loop_exp_flushed, vexp_flushed(x))
LOOP(loop_log, vlog(x))
LOOP(loop_tanh, vtanh(x))
LOOP(loop_erf, verf(x))
LOOP(loop_sigmoid, vsigmoid(x))
LOOP(loop_normal_cdf, normal_cdf(x))
LOOP(loop_gelu_erf, gelu_erf(x))
LOOP(loop_gelu_erf_derivative, gelu_erf_derivative(x))
LOOP(loop_gelu_tanh, gelu_tanh(x))
LOOP(loop_silu, silu(x))
#undef LOOP
using Loop = void (*)(const float*, float*, int64_t);

std::vector<float> run(Loop loop, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  loop(x.data(), y.data(), static_cast<int64_t>(x.size()));
  return y;
}
float one(Loop loop, float x) { return run(loop, std::vector<float>(16, x))[5]; }

// Every `step`-th float of [lo, hi] by bit pattern, 0 < lo < hi, with both signs if wanted.
std::vector<float> every(float lo, float hi, uint32_t step, bool both) {
  std::vector<float> x;
  for (uint32_t u = std::bit_cast<uint32_t>(lo); u <= std::bit_cast<uint32_t>(hi); u += step) {
    x.push_back(std::bit_cast<float>(u));
    if (both) x.push_back(-x.back());
  }
  return x;
}

template <class F>
double worst_relative(Loop loop, const std::vector<float>& x, F exact, double floor = 0) {
  const auto y = run(loop, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = exact(static_cast<double>(x[i]));
    const double size = std::max(std::abs(want), floor);
    if (size > 0) worst = std::max(worst, std::abs(y[i] - want) / size);
  }
  return worst;
}

TEST(VecMath, ExpIsAccurate) {
  auto exact = [](double x) { return std::exp(x); };
  EXPECT_LT(worst_relative(loop_exp, every(1e-30f, 87.3f, 997, true), exact), 1.2e-7);
  EXPECT_LT(worst_relative(loop_exp, every(87.3f, 88.722f, 3, false), exact), 1.2e-7);
  for (float x : every(87.3f, 110.0f, 101, false)) ASSERT_NEAR(one(loop_exp, -x), std::exp(-double{x}), 1.5e-45) << x;
}

TEST(VecMath, ExpAtTheExtremes) {
  EXPECT_EQ(one(loop_exp, -inf), 0);
  EXPECT_EQ(one(loop_exp, -1e30f), 0);
  EXPECT_EQ(one(loop_exp, inf), inf);
  EXPECT_EQ(one(loop_exp, 88.73f), inf);
  EXPECT_EQ(one(loop_exp, 1e30f), inf);
  EXPECT_EQ(one(loop_exp, 0), 1);
  EXPECT_TRUE(std::isfinite(one(loop_exp, 88.722f)));
  EXPECT_TRUE(std::isnan(one(loop_exp, nan)));
}

TEST(VecMath, FlushedExpIsAccurateWhereItIsNormal) {
  auto exact = [](double x) { return std::exp(x); };
  EXPECT_LT(worst_relative(loop_exp_flushed, every(1e-30f, 87.33f, 997, true), exact), 1.2e-7);
  EXPECT_LT(worst_relative(loop_exp_flushed, every(87.33f, 88.37f, 3, false), exact), 1.2e-7);
  for (float x : every(87.33f, 1e5f, 99991, false)) ASSERT_NEAR(one(loop_exp_flushed, -x), 0, 1.3e-38) << x;
  for (float x : {-inf, -1e30f, -200.0f, -87.7f}) EXPECT_EQ(one(loop_exp_flushed, x), 0) << x;
  for (float x : {inf, 1e30f, 89.0f}) EXPECT_EQ(one(loop_exp_flushed, x), inf) << x;
  EXPECT_EQ(one(loop_exp_flushed, 0), 1);
  EXPECT_TRUE(std::isnan(one(loop_exp_flushed, nan)));
  EXPECT_TRUE(std::isnan(one(loop_exp_flushed, -nan)));
}

TEST(VecMath, LogIsAccurate) {
  auto exact = [](double x) { return std::log(x); };
  EXPECT_LT(worst_relative(loop_log, every(1e-45f, 3e38f, 1999, false), exact), 1.2e-7);
  EXPECT_LT(worst_relative(loop_log, every(0.5f, 2.0f, 11, false), exact), 1.2e-7);
}

TEST(VecMath, LogAtTheExtremes) {
  EXPECT_EQ(one(loop_log, 0), -inf);
  EXPECT_EQ(one(loop_log, -0.0f), -inf);
  EXPECT_EQ(one(loop_log, inf), inf);
  EXPECT_EQ(one(loop_log, 1), 0);
  EXPECT_TRUE(std::isnan(one(loop_log, -1)));
  EXPECT_TRUE(std::isnan(one(loop_log, -inf)));
  EXPECT_TRUE(std::isnan(one(loop_log, nan)));
}

TEST(VecMath, TanhAndErfAreAccurateAndOdd) {
  EXPECT_LT(worst_relative(loop_tanh, every(1e-37f, 20, 997, true), [](double x) { return std::tanh(x); }), 2e-7);
  EXPECT_LT(worst_relative(loop_erf, every(1e-37f, 10, 997, true), [](double x) { return std::erf(x); }), 2.2e-7);
  for (Loop loop : {loop_tanh, loop_erf}) {
    EXPECT_EQ(one(loop, inf), 1);
    EXPECT_EQ(one(loop, -inf), -1);
    EXPECT_TRUE(std::isnan(one(loop, nan)) && std::isnan(one(loop, -nan)));
    EXPECT_EQ(one(loop, 9.5f), 1);
    EXPECT_FALSE(std::signbit(one(loop, 0.0f)));
    EXPECT_TRUE(std::signbit(one(loop, -0.0f)));
    for (float x : every(1e-3f, 20, 99991, false)) ASSERT_EQ(one(loop, -x), -one(loop, x));
  }
}

TEST(VecMath, SigmoidIsAccurate) {
  auto exact = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LT(worst_relative(loop_sigmoid, every(1e-30f, 87, 997, true), exact), 2.5e-7);
  EXPECT_EQ(one(loop_sigmoid, inf), 1);
  EXPECT_EQ(one(loop_sigmoid, -inf), 0);
  EXPECT_TRUE(std::isnan(one(loop_sigmoid, nan)));
}

TEST(Activations, FollowTheirDoubleForms) {
  const auto x = every(1e-6f, 12, 997, true);
  EXPECT_LT(worst_relative(
                loop_gelu_erf, x, [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }, 1.0),
            3e-7);
  auto tanh_form = [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); };
  EXPECT_LT(worst_relative(loop_gelu_tanh, x, tanh_form, 1.0), 3e-7);
  EXPECT_LT(worst_relative(
                loop_silu, x, [](double v) { return v / (1 + std::exp(-v)); }, 1e-3),
            4e-7);
  const auto density = [](double v) { return std::exp(-0.5 * v * v) / std::sqrt(2 * M_PI); };
  const auto distribution = [](double v) { return 0.5 * std::erfc(-v / std::sqrt(2.0)); };
  const auto wide = every(1e-30f, 3e38f, 9973, true);
  EXPECT_LT(worst_relative(loop_normal_cdf, x, distribution, 0.5), 2e-7);
  EXPECT_LT(worst_relative(loop_gelu_erf, wide, [=](double v) { return v * distribution(v); }, 0.2), 7e-7);
  EXPECT_LT(worst_relative(loop_gelu_erf_derivative, x, [=](double v) { return distribution(v) + v * density(v); }, 1.0), 2e-7);
  for (float v : {6.0f, 14.0f, 1e5f, 3e38f}) {
    EXPECT_EQ(one(loop_gelu_erf, v), v);
    EXPECT_NEAR(one(loop_gelu_erf, -v), 0, 1e-7);
  }
  EXPECT_EQ(one(loop_gelu_erf, inf), inf);
  EXPECT_TRUE(std::isnan(one(loop_gelu_erf, -inf)) && std::isnan(one(loop_gelu_erf, nan)));
  EXPECT_EQ(one(loop_gelu_tanh, 1e20f), 1e20f);
  EXPECT_EQ(relu(-2.0f), 0);
  EXPECT_TRUE(std::isnan(relu(nan)));
}

template <Activation A>
void derivative_matches_difference() {
  for (double x = -6; x <= 6; x += 0.0371) {
    const double h = 1e-5;
    const double slope = (activate<A>(x + h) - activate<A>(x - h)) / (2 * h);
    ASSERT_NEAR(activate_derivative<A>(x), slope, 1e-9) << x;
    ASSERT_NEAR(activate_derivative<A>(static_cast<float>(x)), slope, 3e-6) << x;
  }
}

TEST(Activations, DerivativesMatchDifferences) {
  derivative_matches_difference<Activation::none>();
  derivative_matches_difference<Activation::relu>();
  derivative_matches_difference<Activation::gelu_erf>();
  derivative_matches_difference<Activation::gelu_tanh>();
  derivative_matches_difference<Activation::silu>();
}

}  // namespace
}  // namespace spool::kernels
