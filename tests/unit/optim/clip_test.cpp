// Clipping by the norm, and learning rate schedules.
#include <spool/optim.h>
#include <spool/tensor.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace spool::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

NamedTensors with_gradient(const Tensor& g) {
  const Tensor p = zeros(g.shape(), g.dtype());
  p.set_grad(g);
  return {{"p", p}};
}

TEST(ClipGradNorm, ScalesDownOnlyWhatIsLonger) {
  const Tensor g = from({3, 4});
  EXPECT_EQ(clip_grad_norm(with_gradient(g), 5), 5);
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{3, 4}));
  const uint64_t version = g.storage()->version;
  EXPECT_EQ(clip_grad_norm(with_gradient(g), 1), 5);
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{.6f, .8f}));
  EXPECT_EQ(g.storage()->version, version + 1);
  EXPECT_STREQ(g.storage()->writer, "clip_grad_norm");
  const Tensor wide = from({3, 4}, {}, Dtype::f64);
  clip_grad_norm(with_gradient(wide), 1);
  EXPECT_NEAR(wide.to_vector<double>()[0], .6, 2e-16);
}

TEST(ClipGradNorm, LargeAndTinyGradientsHaveTheirNorm) {
  const Tensor large = from({1e30, 1e30});
  EXPECT_NEAR(clip_grad_norm(with_gradient(large), 1) / 1.41421356237e30, 1, 1e-7);
  EXPECT_EQ(large.to_vector<float>(), (std::vector<float>{.70710678f, .70710678f}));
  const Tensor huge = from({3e200, 4e200}, {}, Dtype::f64);
  EXPECT_DOUBLE_EQ(clip_grad_norm(with_gradient(huge), 1), 5e200);
  EXPECT_NEAR(huge.to_vector<double>()[1], .8, 1e-15);
  EXPECT_DOUBLE_EQ(grad_norm(with_gradient(from({3e-200, 4e-200}, {}, Dtype::f64))), 5e-200);
  EXPECT_NEAR(grad_norm(with_gradient(from({5e-324}, {}, Dtype::f64))), 5e-324, 0);
  const Tensor zero = zeros({3});
  EXPECT_EQ(clip_grad_norm(with_gradient(zero), 1), 0);
  EXPECT_EQ(zero.to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

TEST(ClipGradNorm, NonFiniteGradientsAreReportedAndLeft) {
  const Tensor g = from({1, inf, 2});
  EXPECT_EQ(clip_grad_norm(with_gradient(g), 1), inf);
  EXPECT_EQ(g.to_vector<double>(), (std::vector<double>{1, inf, 2}));
  EXPECT_TRUE(std::isnan(clip_grad_norm(with_gradient(from({1, std::nan(""), inf})), 1)));
  EXPECT_TRUE(std::isnan(clip_grad_norm(with_gradient(from({inf, std::nan("")})), 1)));
}

TEST(ClipGradNorm, AllParametersCountTogetherAndSharedGradientsAreScaledOnce) {
  const Tensor a = zeros({1}), b = zeros({2}, Dtype::bf16), none = zeros({1}), empty_one = zeros({0});
  a.set_grad(from({2}));
  b.set_grad(from({2, 1}, {}, Dtype::bf16));
  empty_one.set_grad(zeros({0}));
  const NamedTensors all{{"a", a}, {"b", b}, {"none", none}, {"empty", empty_one}};
  EXPECT_EQ(clip_grad_norm(all, 1.5), 3);
  EXPECT_EQ(a.grad().item(), 1);
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{1, .5}));
  EXPECT_EQ(grad_norm({{"none", none}}), 0);
  const Tensor shared = from({3}), x = zeros({1}), y = zeros({1});
  x.set_grad(shared);
  y.set_grad(shared);
  clip_grad_norm({{"x", x}, {"y", y}}, 1);
  EXPECT_NEAR(shared.item(), std::sqrt(.5), 1e-7);
}

TEST(ClipGradNorm, SumsManyElementsInF64) {
  const int64_t n = 1'000'003;
  EXPECT_NEAR(grad_norm(with_gradient(full({n}, 0.1))), std::sqrt(double(n)) * double(0.1f), 1e-12);
}

TEST(ClipGradNorm, BadArguments) {
  for (const double bad : {0.0, -1.0, std::nan(""), inf}) EXPECT_THROW(clip_grad_norm(with_gradient(from({1})), bad), ConfigError) << bad;
  EXPECT_THROW(grad_norm(with_gradient(zeros_view({2}))), ShapeError);
}

TEST(Schedule, Cosine) {
  const Schedule s = Schedule::cosine({.lr = 1e-3, .steps = 100});
  EXPECT_EQ(s(0), 1e-3);
  EXPECT_NEAR(s(44), 5.936906573e-4, 5e-14);
  EXPECT_NEAR(s(45), 5.782172325e-4, 5e-14);
  EXPECT_NEAR(s(46), 5.626666168e-4, 5e-14);
  EXPECT_NEAR(s(50), 5e-4, 1e-18);
  EXPECT_EQ(s(100), 0);
  EXPECT_EQ(s(1000), 0);
  const Schedule warm = Schedule::cosine({.lr = 1, .warmup = 4, .steps = 14, .min_lr = .1});
  EXPECT_EQ(warm(0), .25);
  EXPECT_EQ(warm(3), 1);
  EXPECT_EQ(warm(4), 1);
  EXPECT_NEAR(warm(9), .55, 1e-15);
  EXPECT_EQ(warm(14), .1);
}

TEST(Schedule, ConstantAndStep) {
  EXPECT_EQ(Schedule::constant(.5)(0), .5);
  EXPECT_EQ(Schedule::constant(.5, 2)(0), .25);
  EXPECT_EQ(Schedule::constant(.5)(1'000'000'000'000), .5);
  const Schedule s = Schedule::step({.lr = 1e-2, .factor = .1, .after = 10'000});
  EXPECT_EQ(s(9'999), 1e-2);
  EXPECT_EQ(s(10'000), 1e-2 * .1);
}

TEST(Schedule, BadArguments) {
  EXPECT_THROW(Schedule::constant(std::nan("")), ConfigError);
  EXPECT_THROW(Schedule::constant(1, -1), ConfigError);
  EXPECT_THROW(Schedule::step({.factor = -1}), ConfigError);
  EXPECT_THROW(Schedule::cosine({.steps = 0}), ConfigError);
  EXPECT_THROW(Schedule::cosine({.warmup = 10, .steps = 10}), ConfigError);
  EXPECT_THROW(Schedule::cosine({.lr = 1e-3, .steps = 10, .min_lr = 1e-2}), ConfigError);
}

}  // namespace
}  // namespace spool::test
