// Scans at the places where engines have gone wrong: zeros among factors, masked prefixes, ties, NaN.
#include "values.h"

namespace spool {
namespace {

using namespace test;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Values prefix_prod_gradient(std::initializer_list<double> x, PrefixOptions options = {}) {
  return gradient_of(f64(x), [=](const Tensor& t) { return prefix_prod(t, 0, options); });
}

TEST(Cases, A1PrefixProdGradientDividesByNothing) {
  EXPECT_EQ(prefix_prod_gradient({2, 0, 3, 4}), (Values{1, 32, 0, 0}));
  EXPECT_EQ(prefix_prod_gradient({0, 2, 3}), (Values{9, 0, 0}));
  EXPECT_EQ(prefix_prod_gradient({2, 3, 0}), (Values{4, 2, 6}));
  EXPECT_EQ(prefix_prod_gradient({2, 0, 0, 3}), (Values{1, 2, 0, 0}));
  EXPECT_EQ(prefix_prod_gradient({0}), Values{1});
  EXPECT_EQ(prefix_prod_gradient({2, 3, 4}), (Values{16, 10, 6}));
  // from the end, and without the element itself: y = [1, 2, 0, 0] of [2, 0, 3, 4]
  EXPECT_EQ(prefix_prod_gradient({4, 3, 0, 2}, {.reverse = true}), (Values{0, 0, 32, 1}));
  EXPECT_EQ(prefix_prod_gradient({2, 0, 3, 4}, {.exclusive = true}), (Values{1, 8, 0, 0}));
  EXPECT_EQ(prefix_prod_gradient({4, 3, 0, 2}, {.reverse = true, .exclusive = true}), (Values{0, 0, 8, 1}));
}

TEST(Cases, A1PrefixProdHasASecondDerivativeAtZeros) {
  const Tensor x = leaf(f64({2, 0, 3}));
  Tape tape;
  const Tensor first = tape.gradient({sum(prefix_prod(x, 0))}, {x}, {}, {.create_graph = true})[0];
  // Σy = a + ab + abc: ∂a = 1 + b + bc, ∂b = a + ac, ∂c = ab; the row sums of the second derivatives are 1 + c + b, 1 + c + a, a + b
  EXPECT_EQ(values_of(first), (Values{1, 8, 0}));
  EXPECT_EQ(values_of(tape.gradient({sum(first)}, {x})[0]), (Values{4, 6, 2}));
}

TEST(Cases, B1LogCumSumExpOfAMaskedPrefix) {
  const Tensor x = f64({-inf, -inf, 0, std::log(2.0)});
  const auto scan = [](const Tensor& t) { return logcumsumexp(t, 0); };
  expect_near(values_of(scan(x)), {-inf, -inf, 0, 1.0986122886681096}, 1e-15);
  // of the sum over what is finite: the sum over all is −∞
  expect_near(gradient_of(x, scan), {0, 0, 4 / 3.0, 2 / 3.0}, 1e-15);
  expect_near(gradient_of(f64({0, 0, 0}), scan), {11 / 6.0, 5 / 6.0, 1 / 3.0}, 1e-15);
  EXPECT_EQ(values_of(scan(f64({-inf, -inf}))), (Values{-inf, -inf}));
  EXPECT_EQ(gradient_of(f64({-inf, -inf}), scan), (Values{0, 0}));
  expect_near(values_of(scan(f64({1000, 1000, -1000}))), {1000, 1000.6931471805599, 1000.6931471805599}, 1e-12);
  EXPECT_EQ(values_of(scan(f64({0, inf, 0}))), (Values{0, inf, inf}));
  EXPECT_EQ(values_of(logcumsumexp(f64({3, 1}), 0, {.exclusive = true})), (Values{-inf, 3}));
  EXPECT_EQ(gradient_of(f64({3, 1}), [](const Tensor& t) { return logcumsumexp(t, 0, {.exclusive = true}); }), (Values{1, 0}));
}

TEST(Scans, LogCumSumExpOfLongFallingRowsKeepsItsGradient) {
  const int64_t n = 4096;
  const Tensor x = arange(n, Dtype::f64) * -0.5;
  const Values g = gradient_of(x, [](const Tensor& t) { return logcumsumexp(t, 0); });
  // y is that of a geometric series: dx[i] = Σ_{k ≥ i} e^(x[i] - y[k])
  const double ratio = std::exp(-0.5);
  double expected = 0;
  for (int64_t k = 0; k < n; ++k) expected += (1 - ratio) / (1 - std::pow(ratio, double(k + 1)));
  EXPECT_NEAR(g[0], expected, 1e-9);
  EXPECT_NEAR(g[1], (expected - 1) * ratio, 1e-9);
}

TEST(Scans, TheFirstOfEqualsHoldsTheRunningMaximum) {
  const Tensor x = f64({1, 3, 3, 2, 4, 4});
  EXPECT_EQ(values_of(prefix_max(x, 0)), (Values{1, 3, 3, 3, 4, 4}));
  EXPECT_EQ(gradient_of(x, [](const Tensor& t) { return prefix_max(t, 0); }), (Values{1, 3, 0, 0, 2, 0}));
  EXPECT_EQ(gradient_of(x, [](const Tensor& t) { return prefix_max(t, 0, {.reverse = true}); }), (Values{0, 0, 0, 0, 0, 6}));
  EXPECT_EQ(gradient_of(x, [](const Tensor& t) { return prefix_max(t, 0, {.exclusive = true}); }), (Values{1, 3, 0, 0, 1, 0}));
  EXPECT_EQ(gradient_of(x, [](const Tensor& t) { return prefix_min(t, 0, {.reverse = true, .exclusive = true}); }), (Values{0, 0, 0, 3, 0, 2}));
  const Values with_nan = values_of(prefix_max(f64({1, nan, 5}), 0));
  EXPECT_EQ(with_nan[0], 1);
  EXPECT_TRUE(std::isnan(with_nan[1]) && std::isnan(with_nan[2]));
  EXPECT_EQ(gradient_of(f64({1, nan, 5, nan}), [](const Tensor& t) { return prefix_min(t, 0); }), (Values{1, 3, 0, 0}));
}

TEST(Scans, OfNothingGivesTheIdentity) {
  const PrefixOptions exclusive{.exclusive = true};
  EXPECT_EQ(values_of(prefix_sum(f64({5, 7}), 0, exclusive)), (Values{0, 5}));
  EXPECT_EQ(values_of(prefix_prod(f64({5, 7}), 0, exclusive)), (Values{1, 5}));
  EXPECT_EQ(values_of(prefix_max(f64({5, 7}), 0, exclusive)), (Values{-inf, 5}));
  EXPECT_EQ(values_of(prefix_min(f64({5, 7}), 0, exclusive)), (Values{inf, 5}));
  using Long = std::numeric_limits<int64_t>;
  EXPECT_EQ(prefix_max(i64({5}), 0, exclusive).to_vector<int64_t>(), std::vector<int64_t>{Long::lowest()});
  EXPECT_EQ(prefix_min(i64({5}), 0, exclusive).to_vector<int64_t>(), std::vector<int64_t>{Long::max()});
  EXPECT_EQ(values_of(prefix_min(cast(i64({1, 0, 1}), Dtype::boolean), 0)), (Values{1, 0, 0}));
}

TEST(Scans, SumsOfIntegersAreI64AndOf16BitsRunInMore) {
  const Tensor bytes = full({300}, 200, Dtype::u8), flags = ones({300}, Dtype::boolean);
  EXPECT_EQ(prefix_sum(bytes, 0).dtype(), Dtype::i64);
  EXPECT_EQ(values_of(prefix_sum(bytes, 0)).back(), 60000);
  EXPECT_EQ(values_of(prefix_sum(flags, 0)).back(), 300);
  EXPECT_EQ(values_of(prefix_prod(cast(i64({-3, 5, -7}), Dtype::i32), 0)), (Values{-3, -15, 105}));
  EXPECT_EQ(values_of(prefix_sum(ones({10'000}, Dtype::bf16), 0)).back(), 9984);  // 10000 rounded to eight bits, once
}

}  // namespace
}  // namespace spool
