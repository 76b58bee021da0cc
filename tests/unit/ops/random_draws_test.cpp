// Draws against their distributions, with fixed keys. Bounds are chi-square quantiles of about 1 − 10⁻⁶.
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace spool {
namespace {

/// Σ (seen − expected)²/expected, and the value that it exceeds once in a million (Wilson and Hilferty 1931).
double chi_square(const std::vector<double>& seen, const std::vector<double>& expected) {
  double total = 0;
  for (size_t i = 0; i < seen.size(); ++i) total += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
  return total;
}
double rare(double freedom) {
  const double a = 2 / (9 * freedom), root = 1 - a + 4.75 * std::sqrt(a);
  return freedom * root * root * root;
}

std::vector<double> counts(const std::vector<int64_t>& draws, size_t kinds) {
  std::vector<double> out(kinds, 0.0);
  for (const int64_t d : draws) out[size_t(d)] += 1;
  return out;
}

TEST(Uniform, NeedsARange) {
  EXPECT_EQ(uniform({3}, RandomKey(1), 2, 2).to_vector<double>(), (std::vector<double>{2, 2, 2}));
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{{1, 0}, {std::nan(""), 1}, {0, infinity}, {-1e308, 1e308}})
    EXPECT_THROW(uniform({3}, RandomKey(1), low, high), ConfigError) << low << " " << high;
}

TEST(Bernoulli, FrequenciesAndExtremes) {
  for (const double p : {0.001, 0.3, 0.97}) {
    const double n = 200'000, seen = sum(bernoulli(p, {200'000}, RandomKey(3))).item();
    EXPECT_NEAR(seen, n * p, 5 * std::sqrt(n * p * (1 - p))) << p;
  }
  EXPECT_EQ(sum(bernoulli(0, {10'000}, RandomKey(1))).item(), 0);
  EXPECT_EQ(sum(bernoulli(1, {10'000}, RandomKey(1))).item(), 10'000);
  EXPECT_EQ(bernoulli(0.5, {2, 3}, RandomKey(1)).dtype(), Dtype::boolean);
  EXPECT_EQ(bernoulli(0.5, {2, 3}, RandomKey(1), Dtype::bf16, meta()).shape(), (Shape{2, 3}));
  EXPECT_THROW(bernoulli(-0.1, {2}, RandomKey(1)), ConfigError);
  EXPECT_THROW(bernoulli(std::nan(""), {2}, RandomKey(1)), ConfigError);
}

TEST(Bernoulli, ANumberIsATensorOfThatNumber) {
  const Tensor p = full({3, 1000}, 0.3, Dtype::f64);
  EXPECT_EQ(bernoulli(0.3, {3, 1000}, RandomKey(5)).to_vector<bool>(), bernoulli(p, RandomKey(5)).to_vector<bool>());
  const Tensor each = from({{0, 1, 0.5}}, Dtype::f32);
  const auto draws = bernoulli(expand(each, {20'000, 3}), RandomKey(8), Dtype::i64);
  const auto seen = sum(draws, 0).to_vector<double>();
  EXPECT_EQ(seen[0], 0);
  EXPECT_EQ(seen[1], 20'000);
  EXPECT_NEAR(seen[2], 10'000, 5 * std::sqrt(5000.0));
}

TEST(Bernoulli, NeighboursAndKeysAreIndependent) {
  const int64_t n = 100'000;
  const auto a = bernoulli(0.5, {n}, RandomKey(1)).to_vector<uint8_t>(), b = bernoulli(0.5, {n}, RandomKey(1).fold(1)).to_vector<uint8_t>();
  std::vector<double> pairs(4, 0.0), keys(4, 0.0);
  for (size_t i = 0; i + 1 < a.size(); i += 2) pairs[size_t(2 * a[i] + a[i + 1])] += 1;
  for (size_t i = 0; i < a.size(); ++i) keys[size_t(2 * a[i] + b[i])] += 1;
  EXPECT_LT(chi_square(pairs, std::vector<double>(4, double(n) / 8)), rare(3));
  EXPECT_LT(chi_square(keys, std::vector<double>(4, double(n) / 4)), rare(3));
}

TEST(Randperm, EveryOrderIsEquallyLikely) {
  std::map<std::vector<int64_t>, double> seen;
  const int64_t rounds = 24'000;
  for (int64_t i = 0; i < rounds; ++i) seen[randperm(4, RandomKey(2).fold(uint64_t(i))).to_vector<int64_t>()] += 1;
  std::vector<double> frequency;
  for (const auto& [order, count] : seen) frequency.push_back(count);
  ASSERT_EQ(frequency.size(), 24u);
  EXPECT_LT(chi_square(frequency, std::vector<double>(24, double(rounds) / 24)), rare(23));
}

TEST(Randperm, HoldsEachNumberOnce) {
  for (const int64_t n : {0, 1, 2, 1000}) {
    auto order = randperm(n, RandomKey(4)).to_vector<int64_t>();
    EXPECT_EQ(order, randperm(n, RandomKey(4)).to_vector<int64_t>());
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(order[size_t(i)], i);
  }
  EXPECT_NE(randperm(1000, RandomKey(4)).to_vector<int64_t>(), randperm(1000, RandomKey(5)).to_vector<int64_t>());
  EXPECT_EQ(randperm(5, RandomKey(4), meta()).shape(), Shape{5});
  EXPECT_THROW(randperm(-1, RandomKey(4)), ShapeError);
}

TEST(Multinomial, FollowsTheWeights) {
  const std::vector<double> weights{0.5, 0, 3, 1.5, 0, 5};
  const int64_t n = 60'000;
  const auto seen = counts(multinomial(from(weights), n, RandomKey(6)).to_vector<int64_t>(), weights.size());
  EXPECT_EQ(seen[1] + seen[4], 0);  // a weight of 0 is never drawn
  std::vector<double> some, expected;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    some.push_back(seen[i]);
    expected.push_back(double(n) * weights[i] / 10);
  }
  EXPECT_LT(chi_square(some, expected), rare(3));
}

TEST(Multinomial, WithoutReplacementFollowsTheWeightsThatAreLeft) {
  const std::vector<double> weights{1, 2, 3, 4};
  const int64_t rows = 48'000;
  const Tensor draws = multinomial(expand(from(weights), {rows, 4}), 3, RandomKey(7), false);
  std::map<std::vector<int64_t>, double> seen;
  const auto flat = draws.to_vector<int64_t>();
  for (int64_t r = 0; r < rows; ++r) seen[{flat[size_t(3 * r)], flat[size_t(3 * r + 1)], flat[size_t(3 * r + 2)]}] += 1;
  std::vector<double> some, expected;
  for (int64_t a = 0; a < 4; ++a)
    for (int64_t b = 0; b < 4; ++b)
      for (int64_t c = 0; c < 4; ++c) {
        if (a == b || b == c || a == c) continue;
        const double wa = weights[size_t(a)], wb = weights[size_t(b)], wc = weights[size_t(c)];
        some.push_back(seen[{a, b, c}]);
        expected.push_back(double(rows) * wa / 10 * wb / (10 - wa) * wc / (10 - wa - wb));
      }
  ASSERT_EQ(some.size(), seen.size());
  EXPECT_LT(chi_square(some, expected), rare(23));
}

TEST(Multinomial, AllThatHaveAWeight) {
  const Tensor weights = from({0, 1e-300, 0, 1, 1e300}, {}, Dtype::f64);
  auto draws = multinomial(weights, 3, RandomKey(8), false).to_vector<int64_t>();
  EXPECT_EQ(draws, (std::vector<int64_t>{4, 3, 1}));  // in the order that such weights make all but certain
  for (const int64_t d : multinomial(weights, 1000, RandomKey(8)).to_vector<int64_t>()) EXPECT_EQ(d, 4);
  EXPECT_EQ(multinomial(from({0.25}), 3, RandomKey(1)).to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0}));
}

TEST(Multinomial, RowsAndSamplesAreIndependent) {
  const int64_t rows = 30'000;
  const auto flat = multinomial(ones({rows, 3}), 2, RandomKey(9)).to_vector<int64_t>();
  std::vector<double> pairs(9, 0.0), rows_in_pairs(9, 0.0);
  for (int64_t r = 0; r < rows; ++r) pairs[size_t(3 * flat[size_t(2 * r)] + flat[size_t(2 * r + 1)])] += 1;
  for (int64_t r = 0; r + 1 < rows; r += 2) rows_in_pairs[size_t(3 * flat[size_t(2 * r)] + flat[size_t(2 * r + 2)])] += 1;
  EXPECT_LT(chi_square(pairs, std::vector<double>(9, double(rows) / 9)), rare(8));
  EXPECT_LT(chi_square(rows_in_pairs, std::vector<double>(9, double(rows) / 18)), rare(8));
}

TEST(Multinomial, TheSameForAnyNumberOfThreads) {
  const int before = num_threads();
  const Tensor weights = uniform({500, 100}, RandomKey(1), 0.1, 1);
  set_num_threads(1);
  const auto one = multinomial(weights, 20, RandomKey(2), false).to_vector<int64_t>();
  set_num_threads(3);
  EXPECT_EQ(multinomial(weights, 20, RandomKey(2), false).to_vector<int64_t>(), one);
  set_num_threads(before);
}

}  // namespace
}  // namespace spool
