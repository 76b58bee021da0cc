// Sampling on logits made by hand: who survives, with what probability, and how often each is drawn.
#include "train/sample.h"

#include <cmath>
#include <limits>

#include "support.h"

namespace spool::train::testing {
namespace {

std::vector<int32_t> survivors(const std::vector<double>& logits, const SampleOptions& options, const std::vector<int32_t>& seen = {}) {
  std::vector<int32_t> out;
  for (const Candidate& c : candidates(logits, options, seen)) out.push_back(c.token);
  return out;
}
std::vector<double> logs(std::vector<double> probabilities) {
  for (double& p : probabilities) p = std::log(p);
  return probabilities;
}
using Ids = std::vector<int32_t>;

TEST(Sample, TopKKeepsTheLargestAndItsEquals) {
  const std::vector<double> logits{1, 5, 3, 5, 2, 3};
  EXPECT_EQ(survivors(logits, {}), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(survivors(logits, {.top_k = 1}), (Ids{1, 3}));
  EXPECT_EQ(survivors(logits, {.top_k = 2}), (Ids{1, 3}));
  EXPECT_EQ(survivors(logits, {.top_k = 3}), (Ids{1, 2, 3, 5}));
  EXPECT_EQ(survivors(logits, {.top_k = 5}), (Ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(survivors(logits, {.top_k = 6}), survivors(logits, {}));
  EXPECT_EQ(survivors(logits, {.top_k = 1000}), survivors(logits, {}));
}

TEST(Sample, TopPKeepsTheSmallestSetThatReachesIt) {
  const auto logits = logs({.125, .5, .25, .125});
  EXPECT_EQ(survivors(logits, {.top_p = 1e-9}), (Ids{1}));
  EXPECT_EQ(survivors(logits, {.top_p = .49}), (Ids{1}));
  EXPECT_EQ(survivors(logits, {.top_p = .51}), (Ids{1, 2}));
  EXPECT_EQ(survivors(logits, {.top_p = .74}), (Ids{1, 2}));
  EXPECT_EQ(survivors(logits, {.top_p = .76}), (Ids{0, 1, 2})) << "of equals, the first";
  EXPECT_EQ(survivors(logits, {.top_p = .9}), (Ids{0, 1, 2, 3}));
  const auto kept = candidates(logits, {.top_p = .7});
  EXPECT_NEAR(kept[0].probability, 2. / 3, 1e-15);
  EXPECT_NEAR(kept[1].probability, 1. / 3, 1e-15);
}

TEST(Sample, TheOrderIsPenaltyTemperatureTopKTopP) {
  // Temperature before top_p: at 2 the probabilities of {.6, .3, .1} flatten to {.473, .334, .193}, so that .8 takes two and .85 all.
  const auto logits = logs({.6, .3, .1});
  EXPECT_EQ(survivors(logits, {.top_p = .85}), (Ids{0, 1}));
  EXPECT_EQ(survivors(logits, {.temperature = 2, .top_p = .8}), (Ids{0, 1}));
  EXPECT_EQ(survivors(logits, {.temperature = 2, .top_p = .85}), (Ids{0, 1, 2}));
  // top_k before top_p: among the two largest of {.4, .3, .3 − ε, …} the first has .57, enough for .5.
  const auto flat = logs({.4, .3, .2, .1});
  EXPECT_EQ(survivors(flat, {.top_p = .5}), (Ids{0, 1}));
  EXPECT_EQ(survivors(flat, {.top_k = 2, .top_p = .5}), (Ids{0}));
  // The penalty before everything: it takes the first place from token 0.
  EXPECT_EQ(survivors({2, 1.5, -1}, {.top_k = 1, .repetition_penalty = 2}, {0}), (Ids{1}));
}

TEST(Sample, ThePenaltyDividesWhatIsPositiveAndMultipliesWhatIsNegative) {
  const auto weight = [](double logit) { return std::exp(logit); };
  const auto seen = candidates(std::vector<double>{3, -3, 0, 1}, {.repetition_penalty = 1.5}, Ids{0, 1, 2, 0, 0});
  const double total = weight(2) + weight(-4.5) + weight(0) + weight(1);
  const double expected[] = {weight(2), weight(-4.5), weight(0), weight(1)};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(seen[i].probability, expected[i] / total, 1e-15) << i << ": once, however often it was there";
  EXPECT_EQ(survivors({1, 2}, {.repetition_penalty = 1.5}, {-1, 7}), (Ids{0, 1})) << "ids of another vocabulary are passed over";
}

TEST(Sample, TemperatureZeroTakesTheFirstOfTheLargest) {
  const std::vector<double> logits{1, 4, 4, 2};
  EXPECT_EQ(candidates(logits, {.temperature = 0}), (std::vector<Candidate>{{1, 1}}));
  EXPECT_EQ(survivors(logits, {.temperature = 0, .top_k = 3, .top_p = .1}), (Ids{1}));
  EXPECT_EQ(survivors(logits, {.temperature = 0, .repetition_penalty = 3}, {1}), (Ids{2}));
  EXPECT_EQ(survivors({1, 4, 3.9}, {.temperature = 1e-300}), (Ids{0, 1, 2}));
  EXPECT_EQ(candidates(std::vector<double>{1, 4, 3.9}, {.temperature = 1e-300})[1].probability, 1);
}

TEST(Sample, WhatCannotBeDrawn) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(survivors({-inf, 1, -inf, 2}, {}), (Ids{1, 3}));
  EXPECT_EQ(survivors({-inf, 1, -inf, 2}, {.top_k = 3}), (Ids{1, 3}));
  for (const auto& logits : {std::vector<double>{-inf, -inf}, {1, std::nan("")}, {1, inf}, {}}) EXPECT_THROW(candidates(logits, {}), Error);
}

TEST(Sample, ADrawIsMadeByProbability) {
  const auto from = candidates(logs({.05, .4, .3, .2, .05}), {.top_k = 3});
  constexpr int64_t draws = 100'000;
  std::vector<int64_t> seen(5);
  Generator random(11);
  for (int64_t i = 0; i < draws; ++i) ++seen[size_t(draw(from, random))];
  EXPECT_EQ(seen[0] + seen[4], 0);
  const double expected[] = {0, .4 / .9, .3 / .9, .2 / .9, 0};
  for (const size_t i : {1, 2, 3}) {
    const double deviation = std::sqrt(double(draws) * expected[i] * (1 - expected[i]));
    EXPECT_NEAR(double(seen[i]), double(draws) * expected[i], 5 * deviation) << i;
  }
}

TEST(Sample, OptionsOutOfRange) {
  const auto refused = [](const SampleOptions& options) { return message_of<ConfigError>([&] { options.validate(); }); };
  for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) EXPECT_TRUE(refused({.temperature = bad}).starts_with("--temperature: "));
  EXPECT_TRUE(refused({.top_k = -1}).starts_with("--top-k: "));
  for (const double bad : {0.0, -1.0, 1.1, std::nan("")}) EXPECT_TRUE(refused({.top_p = bad}).starts_with("--top-p: "));
  for (const double bad : {0.0, -1.0, std::nan("")}) EXPECT_TRUE(refused({.repetition_penalty = bad}).starts_with("--repetition-penalty: "));
  EXPECT_NO_THROW((SampleOptions{.temperature = 0, .top_k = 0, .top_p = 1, .repetition_penalty = .5}.validate()));
}

}  // namespace
}  // namespace spool::train::testing
