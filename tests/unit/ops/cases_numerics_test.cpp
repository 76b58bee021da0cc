// Numerical cases in which engines like this one have failed, with the right numbers. More of them: losses_test.cpp (B4), values_test.cpp.
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace spool {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;
Tensor f64(std::initializer_list<double> values) { return from(values, {}, Dtype::f64); }
Values values_of(const Tensor& t) { return t.to_vector<double>(); }

/// Gradient of Σ f(x).
Values gradient_of(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  const Tensor leaf = x.detach().requires_grad(true);
  Tape tape;
  tape.backward(sum(f(leaf)));
  return values_of(leaf.grad());
}
void expect_near(const Values& got, const Values& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << "element " << i;
}

/// The branch that `where` did not take gives NaN unless its argument is masked: the pattern that where.h documents.
TEST(Cases, A3WhereWithTheArgumentMasked) {
  const auto root = [](const Tensor& x) { return where(x > 0, sqrt(where(x > 0, x, 1.0)), x); };
  EXPECT_EQ(gradient_of(f64({-1, -4}), root), (Values{1, 1}));
  EXPECT_EQ(values_of(root(f64({-1, -4, 9}))), (Values{-1, -4, 3}));

  const auto growth = [](const Tensor& x) { return where(x <= 0, exp(where(x <= 0, x, 0.0)), x + 1.0); };
  EXPECT_EQ(values_of(growth(from({100}))), Values{101});
  EXPECT_EQ(gradient_of(from({100}), growth), Values{1});
  EXPECT_EQ(std::exp(100.f), float(inf));  // what the branch would have been

  const auto ratio = [](const Tensor& x) {
    const Tensor never = x > 1e9;
    return where(never, x / where(never, x, 1.0), 1.0);
  };
  EXPECT_EQ(gradient_of(f64({0, 2}), ratio), (Values{0, 0}));
}

/// And what happens without: the rule of the op before multiplies 0 by an infinite slope.
TEST(Cases, A3WhereWithoutTheMask) {
  EXPECT_TRUE(std::isnan(gradient_of(f64({-1}), [](const Tensor& x) { return where(x > 0, sqrt(x), x); })[0]));
}

/// Norms over strided inputs have the gradients of contiguous ones, bit for bit, and none is missing.
TEST(Cases, A12NormsOfStridedInputs) {
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensors&)>>> norms = {
      {"layer_norm", [](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); }},
      {"rms_norm", [](const Tensors& in) { return rms_norm(in[0], in[1]); }},
      {"group_norm", [](const Tensors& in) { return group_norm(in[0], 2, in[1], in[2]); }},
      {"add_rms_norm", [](const Tensors& in) { return add_rms_norm(in[0], in[0], in[1]).y; }}};
  for (const auto& [name, norm] : norms) {
    SCOPED_TRACE(name);
    Rng rng(6);
    const Tensor x = rng.normal({6, 4, 5}), u = rng.normal({4, 6, 5});  // transposed: [4, 6, 5], last axis contiguous
    const int64_t width = std::string(name) == "group_norm" ? 6 : 5;
    const Tensor weight = rng.normal({width}), bias = rng.normal({width});
    std::vector<Values> all[2];
    for (const bool strided : {false, true}) {
      const Tensor base = (strided ? x.detach() : contiguous_copy(transpose(x, 0, 1))).requires_grad(true);
      const Tensor w = weight.detach().requires_grad(true), b = bias.detach().requires_grad(true);
      Tape tape;
      const Tensor y = norm({strided ? transpose(base, 0, 1) : base, w, b});
      const Tensors g = tape.gradient({y}, {base, w, b}, {u});
      all[strided] = {values_of(y), values_of(strided ? transpose(g[0], 0, 1) : g[0]), values_of(g[1])};
      if (g[2].defined()) all[strided].push_back(values_of(g[2]));
    }
    EXPECT_EQ(all[0], all[1]);
    for (const Values& values : all[0])
      for (const double value : values) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Cases, A18NormsOfAnyRank) {
  Rng rng(7);
  const Tensor x = rng.normal({2, 3, 4}), u = rng.normal({2, 3, 4}), weight = rng.normal({4}), bias = rng.normal({4});
  for (const bool centred : {true, false}) {
    std::vector<Values> all[2];
    for (const bool flat : {false, true}) {
      const Tensor in = reshape(x, flat ? Shape{6, 4} : x.shape()).detach().requires_grad(true), w = weight.detach().requires_grad(true), b = bias.detach().requires_grad(true);
      Tape tape;
      const Tensor y = centred ? layer_norm(in, w, b) : rms_norm(in, w);
      const Tensors g = tape.gradient({y}, centred ? Tensors{in, w, b} : Tensors{in, w}, {reshape(u, in.shape())});
      all[flat] = {values_of(y)};
      for (const Tensor& each : g) all[flat].push_back(values_of(each));
    }
    EXPECT_EQ(all[0], all[1]);
  }
}

TEST(Cases, B1LogSumExpOfLargeNumbersInSinglePrecision) {
  EXPECT_EQ(logsumexp(from({1000, 1000})).item(), 1000.6931762695312);
  EXPECT_EQ(logsumexp(from({-inf, -inf})).item(), -inf);
  EXPECT_EQ(gradient_of(from({-inf, -inf}), [](const Tensor& x) { return logsumexp(x); }), (Values{0, 0}));
  EXPECT_EQ(gradient_of(from({{-inf, -inf}, {0, 0}}), [](const Tensor& x) { return softmax(x) * softmax(x); }), (Values{0, 0, 0, 0}));
  EXPECT_EQ(gradient_of(from({-inf, 0}), [](const Tensor& x) { return logsumexp(x); }), (Values{0, 1}));
}

/// Variance from deviations, in f32, for both norms that centre.
TEST(Cases, B5VarianceOfALargeMean) {
  const auto both = [](const Tensor& row, double eps, const Values& expected, double tolerance, const char* what) {
    SCOPED_TRACE(what);
    const int64_t n = row.numel(), shown = int64_t(expected.size());
    expect_near(values_of(slice(layer_norm(row, {}, {}, eps), 0, 0, shown)), expected, tolerance);
    for (const int64_t channels : {int64_t(1), n / 2, n}) {  // one group of one, of half or of all elements as channels
      const Tensor y = group_norm(reshape(row, {1, channels, n / channels}), 1, {}, {}, eps);
      expect_near(values_of(slice(reshape(y, {n}), 0, 0, shown)), expected, tolerance);
    }
  };
  both(from({40000, 40001, 40002, 40003}), 1e-5, {-1.34163542, -0.447211807, 0.447211807, 1.34163542}, 2e-7, "40000 and on");
  both(full({256}, 1234.0), 1e-5, Values(256, 0), 0, "256 × 1234");
  for (const auto& [mean, first] : std::vector<std::pair<double, double>>{{0, -1.341641}, {100, -1.341528}, {1000, -1.341508}, {10000, -1.331333}}) {
    Values row;
    for (int i = 0; i < 16; ++i) row.push_back(double(float(mean + i * 1e-3)));
    both(from(row), 1e-5, {first}, 1e-6, "small steps on a large mean");
  }
  both(from({-9.9e-4, -9.9e-4, 9.9e-4, 9.9e-4}), 1e-12, {-0.99999949, -0.99999949, 0.99999949, 0.99999949}, 1e-7, "a variance below 1e-6");
}

/// Their gradients too: in f32 what they are in f64 of the same numbers.
TEST(Cases, B5GradientsAtALargeMean) {
  Values numbers;
  for (int i = 0; i < 48; ++i) numbers.push_back(double(float(10000 + i % 16 * 1e-3)));
  const Tensor u = Rng(8).normal({3, 16}), weight = Rng(9).normal({16});
  for (const bool groups : {false, true}) {
    std::vector<Values> all;
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const Tensor x = from(numbers, Shape{3, 16}, dtype).requires_grad(true), w = cast(weight, dtype).requires_grad(true);
      Tape tape;
      const Tensor y = groups ? group_norm(x, 1, w) : layer_norm(x, w);
      const Tensors g = tape.gradient({y}, {x, w}, {cast(u, dtype)});
      for (size_t i = 0; i < 2; ++i) {
        const double scale = amax(abs(g[i])).item();
        if (dtype == Dtype::f32) all.push_back(values_of(g[i] / scale));
        else expect_near(all[i], values_of(g[i] / scale), 1e-5);
      }
    }
  }
}

TEST(Cases, B7TheTwoGelus) {
  expect_near(values_of(gelu(f64({1, 3, -1}))), {0.8413447460685429, 2.99595030590511, -0.15865525393145707}, 1e-15);
  expect_near(values_of(gelu(f64({1, 3, -1}), Gelu::tanh)), {0.8411919906082768, 2.996362607918227, -0.15880800939172324}, 1e-15);
  expect_near(gradient_of(f64({1, 0}), [](const Tensor& x) { return gelu(x); }), {1.0833154705876864, 0.5}, 1e-15);
  expect_near(gradient_of(f64({1, 0}), [](const Tensor& x) { return gelu(x, Gelu::tanh); }), {1.0829640838, 0.5}, 1e-10);
  const Tensor x = arange(60'001, Dtype::f64) * 1e-4;
  const Tensor gap = abs(gelu(x) - gelu(x, Gelu::tanh));
  EXPECT_NEAR(amax(gap).item(), 4.732355e-4, 1e-10);
  EXPECT_NEAR(argmax(gap).item() * 1e-4, 2.6989, 1e-4);
  EXPECT_TRUE(std::isnan(gelu(f64({-inf})).item()));  // the choice that activation.h states
  EXPECT_TRUE(std::isnan(gelu(f64({-inf}), Gelu::tanh).item()));
}

}  // namespace
}  // namespace spool
