// Values and gradients at the places where engines have gone wrong: ties, zeros, infinities, broadcasting, empty and 0-d tensors.
#include "values.h"

#include <cmath>

namespace spool {
namespace {

using namespace test;

TEST(Values, WhereNeedsTheMaskBeforeTheBadOp) {
  const Tensor x = f64({-1, -4});
  const auto safe = [](const Tensor& t) { return where(t > 0, sqrt(where(t > 0, t, 1.0)), t); };
  EXPECT_EQ(gradient_of(x, safe), (Values{1, 1}));
}

TEST(Values, TiesShareTheGradient) {
  EXPECT_EQ(gradient_of(f64({1, 1}), [](const Tensor& t) { return amax(t); }), (Values{0.5, 0.5}));
  EXPECT_EQ(gradient_of(f64({-3, 1, -3, -3}), [](const Tensor& t) { return amin(t); }), (Values{1 / 3.0, 0, 1 / 3.0, 1 / 3.0}));
  const Tensor a = leaf(f64({2})), b = leaf(f64({2}));
  Tape tape;
  tape.backward(sum(maximum(a, b)) + 2.0 * sum(minimum(a, b)));
  EXPECT_EQ(a.grad().item(), 1.5);
  EXPECT_EQ(b.grad().item(), 1.5);
}

TEST(Values, SlopesAtZero) {
  EXPECT_EQ(gradient_of(f64({0}), [](const Tensor& t) { return log_sigmoid(t); }), Values{0.5});
  EXPECT_EQ(gradient_of(f64({0}), [](const Tensor& t) { return softplus(t); }), Values{0.5});
  EXPECT_EQ(gradient_of(f64({0}), [](const Tensor& t) { return relu(t); }), Values{0});
  EXPECT_EQ(gradient_of(f64({0, 0}), [](const Tensor& t) { return norm(t); }), (Values{0, 0}));
  EXPECT_EQ(gradient_of(f64({0, 2}), [](const Tensor& t) { return pow(t, 0); }), (Values{0, 0}));
  EXPECT_EQ(gradient_of(f64({0, 2}), [](const Tensor& t) { return pow(t, 2); }), (Values{0, 4}));
  EXPECT_EQ(gradient_of(f64({0, 2}), [](const Tensor& t) { return pow(f64({0, 1}), t); }), (Values{0, 0}));
}

TEST(Values, ProductWithZeros) {
  EXPECT_EQ(gradient_of(f64({2, 0, 3, 4}), [](const Tensor& t) { return prod(t); }), (Values{0, 24, 0, 0}));
  EXPECT_EQ(gradient_of(f64({2, 0, 0, 3}), [](const Tensor& t) { return prod(t); }), (Values{0, 0, 0, 0}));
  EXPECT_EQ(gradient_of(f64({0}), [](const Tensor& t) { return prod(t); }), Values{1});
}

TEST(Values, BroadcastGradientsHaveTheInputsShape) {
  const Tensor a = leaf(zeros({4, 0}, Dtype::f64)), b = leaf(zeros({4, 1}, Dtype::f64));
  const Tensor s = leaf(scalar(3, Dtype::f64)), v = leaf(f64({1, 2}));
  const Tensor c = leaf(ones({3, 1, 5}, Dtype::f64)), d = leaf(ones({2, 3, 4, 5}, Dtype::f64));
  Tape tape;
  tape.backward(sum(a + b) + sum(s * v) + sum(c + d));
  EXPECT_EQ(a.grad().shape(), (Shape{4, 0}));
  EXPECT_EQ(values_of(b.grad()), (Values{0, 0, 0, 0}));
  EXPECT_EQ(s.grad().shape(), Shape{});
  EXPECT_EQ(s.grad().item(), 3);
  EXPECT_EQ(values_of(c.grad()), Values(15, 8));
  expect_near(gradient_of(f64({1, 1, 1, 1, 1}), [](const Tensor& t) { return mean(square(t), 0); }), Values(5, 0.4), 1e-16);
}

TEST(Values, ReductionToAScalarHasNoAxes) {
  EXPECT_EQ(sum(ones({5})).shape(), Shape{});
  EXPECT_EQ(gradient_of(scalar(2, Dtype::f64), [](const Tensor& t) { return sum(t); }), Values{1});
  EXPECT_EQ(sum(zeros({0, 3})).item(), 0);
  EXPECT_EQ(prod(zeros({0})).item(), 1);
  EXPECT_TRUE(std::isnan(mean(zeros({0})).item()));
}

TEST(Values, LongSumsAreExact) {
  EXPECT_EQ(sum(ones({1'000'000})).item(), 1e6);
  EXPECT_NEAR(mean(full({1'000'000}, 0.1)).item(), double(0.1f), 5e-8);
  EXPECT_EQ(values_of(sum(ones({100'000, 3}), 0)), Values(3, 1e5));
  EXPECT_EQ(sum(cast(ones({10'000}), Dtype::bf16)).item(), 9984);  // 10000 rounded to eight bits: the sum itself ran in more
  EXPECT_EQ(sum(ones({3, 2}, Dtype::boolean)).item(), 6);
}

TEST(Values, VarianceOfALargeMean) {
  EXPECT_NEAR(var(from({40000, 40001, 40002, 40003}), {}, false, 0).item(), 1.25, 1e-7);
  EXPECT_EQ(var(full({256}, 1234.0), {}, false, 0).item(), 0);
  EXPECT_NEAR(norm(from({1e30, 1e30})).item(), 1.41421356e30, 1e23);
}

TEST(Values, LogSumExpOverSeveralAxes) {
  const Tensor x = Rng(4).normal({2, 3, 4});
  const auto naive = [&](const Axes& axes, bool keepdim) { return log(sum(exp(x), axes, keepdim)); };
  for (const Axes& axes : {Axes{0, 2}, Axes{-1, 1}, Axes{2, 0, 1}, Axes{}, Axes(0)})
    for (const bool keepdim : {false, true}) {
      const Tensor y = logsumexp(x, axes, keepdim), expected = naive(axes, keepdim);
      ASSERT_EQ(y.shape(), expected.shape());
      const auto a = y.to_vector<double>(), b = expected.to_vector<double>();
      for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-14);
    }
  const auto got = gradient_of(x, [](const Tensor& t) { return logsumexp(t, {0, 2}, true); });
  const auto expected = gradient_of(x, [](const Tensor& t) { return log(sum(exp(t), {0, 2}, true)); });
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-14);
  EXPECT_EQ(logsumexp(f64({2})).item(), 2);
  EXPECT_THROW(logsumexp(x, {0, 0}), ShapeError);
}

TEST(Values, LogSumExpOfInfinitiesAndLargeNumbers) {
  EXPECT_EQ(logsumexp(f64({-inf, -inf})).item(), -inf);
  EXPECT_EQ(gradient_of(f64({-inf, -inf}), [](const Tensor& t) { return logsumexp(t); }), (Values{0, 0}));
  EXPECT_EQ(values_of(softmax(f64({-inf, -inf}))), (Values{0, 0}));
  EXPECT_EQ(gradient_of(f64({-inf, -inf}), [](const Tensor& t) { return softmax(t); }), (Values{0, 0}));
  EXPECT_EQ(gradient_of(f64({-inf, -inf}), [](const Tensor& t) { return log_softmax(t); }), (Values{0, 0}));
  EXPECT_DOUBLE_EQ(logsumexp(f64({1000, 1000})).item(), 1000.6931471805599);
  EXPECT_EQ(logsumexp(from({1000, 1000})).item(), 1000.6931762695312);
  EXPECT_DOUBLE_EQ(logsumexp(f64({-1000, -1000})).item(), -999.3068528194401);
}

TEST(Values, TheTwoGelus) {
  expect_near(values_of(gelu(f64({1, 3, -1}))), {0.8413447460685429, 2.99595030590511, -0.15865525393145707}, 1e-15);
  expect_near(values_of(gelu(f64({1, 3, -1}), Gelu::tanh)), {0.8411919906082768, 2.996362607918227, -0.15880800939172324}, 1e-15);
  expect_near(gradient_of(f64({1, 0}), [](const Tensor& t) { return gelu(t); }), {1.0833154705876864, 0.5}, 1e-15);
  expect_near(gradient_of(f64({1, 0}), [](const Tensor& t) { return gelu(t, Gelu::tanh); }), {1.0829640838, 0.5}, 1e-10);
}

TEST(Values, SlicesGatherTheirGradientsInPlace) {
  const Tensor x = leaf(zeros({64, 1000}));
  const auto ledger = std::make_shared<Ledger>();
  int64_t before = 0, after = 0;
  {
    const With mine(&Ambient::ledger, ledger);
    Tape tape;
    Tensor total = scalar(0);
    for (int64_t i = 0; i < 64; ++i) total = total + sum(slice(x, 0, i, i + 1) * double(i));
    before = ledger->peak();
    tape.backward(total);
    after = ledger->peak();
  }
  EXPECT_LT(after - before, 3 * x.nbytes());
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(values_of(x.grad())[size_t(i) * 1000], double(i));
}

TEST(Values, DropoutDrawsByPositionAndRecomputesItsMask) {
  const RandomKey key(7);
  const Tensor x = ones({2, 6, 37});
  const Tensor whole = dropout(x, 0.5, key), part = dropout(slice(x, 1, 2, 5), 0.5, key, {.position = 2});
  EXPECT_EQ(values_of(part), values_of(slice(whole, 1, 2, 5)));
  EXPECT_EQ(gradient_of(x, [&](const Tensor& t) { return dropout(t, 0.5, key); }), values_of(whole));
  for (const double v : values_of(whole)) EXPECT_TRUE(v == 0 || v == 2);
  EXPECT_EQ(values_of(dropout(x, 0, key)), values_of(x));
  EXPECT_EQ(values_of(dropout(full({4}, inf), 1, key)), Values(4, 0));
  EXPECT_NEAR(mean(dropout(ones({1000, 1000}), 0.3, key)).item(), 1, 5e-3);
}

TEST(Values, RandomTensors) {
  const Tensor u = uniform({100'000}, RandomKey(1), -1, 3), n = normal({100'000}, RandomKey(1), 2, 0.5);
  EXPECT_NEAR(mean(u).item(), 1, 0.02);
  EXPECT_NEAR(var(u).item(), 16 / 12.0, 0.02);
  EXPECT_GE(amin(u).item(), -1);
  EXPECT_LT(amax(u).item(), 3);
  EXPECT_NEAR(mean(n).item(), 2, 0.01);
  EXPECT_NEAR(var(n).item(), 0.25, 0.01);
  EXPECT_EQ(values_of(uniform({7}, RandomKey(1), -1, 3)), values_of(slice(u, 0, 0, 7)));
  EXPECT_EQ(uniform({2, 3}, RandomKey(1), 0, 1, Dtype::f32, meta()).shape(), (Shape{2, 3}));
}

TEST(Values, ScalarsAreWeak) {
  const Tensor h = cast(ones({2}), Dtype::bf16), i = arange(3);
  EXPECT_EQ((1.0 - h * 2.0 + 0.5).dtype(), Dtype::bf16);
  EXPECT_EQ(values_of(2.0 * i - 1.0), (Values{-1, 1, 3}));
  EXPECT_THROW(i * 0.5, DtypeError);
  EXPECT_THROW(h + ones({2}), DtypeError);
  EXPECT_EQ(values_of(f64({1, 2, 3}) / 3.0), (Values{1 / 3.0, 2 / 3.0, 1}));
}

TEST(Values, SecondOrder) {
  const Tensor x = leaf(f64({0.3, -1.2}));
  Tape tape;
  const Tensor first = tape.gradient({sum(tanh(x) * exp(x))}, {x}, {}, {.create_graph = true})[0];
  const Tensor second = tape.gradient({sum(first)}, {x})[0];
  for (size_t i = 0; i < 2; ++i) {
    const double v = values_of(x)[i], t = std::tanh(v), d = 1 - t * t;
    EXPECT_NEAR(values_of(second)[i], std::exp(v) * (t + 2 * d - 2 * t * d), 1e-14);
  }
}

TEST(Values, ConcatOfMoreThan32) {
  Tensors parts;
  for (int i = 0; i < 70; ++i) parts.push_back(full({1, 2}, i));
  const Tensor all = concat(parts);
  EXPECT_EQ(all.shape(), (Shape{70, 2}));
  EXPECT_EQ(values_of(all)[139], 69);
}

}  // namespace
}  // namespace spool
