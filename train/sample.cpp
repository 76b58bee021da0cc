#include "train/sample.h"

#include <spool/tensor/error.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace spool::train {
namespace {

constexpr double never = -std::numeric_limits<double>::infinity();

void penalise(std::vector<double>& logits, double penalty, std::span<const int32_t> seen) {
  std::vector<bool> done(logits.size());
  for (const int32_t token : seen) {
    if (token < 0 || size_t(token) >= logits.size() || done[size_t(token)]) continue;
    done[size_t(token)] = true;
    double& logit = logits[size_t(token)];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

void keep_largest(std::vector<double>& logits, int64_t k) {
  if (k <= 0 || size_t(k) >= logits.size()) return;
  std::vector<double> sorted = logits;
  std::nth_element(sorted.begin(), sorted.begin() + k - 1, sorted.end(), std::greater<>());
  const double least = sorted[size_t(k - 1)];
  for (double& logit : logits)
    if (logit < least) logit = never;
}

std::vector<Candidate> softmax(const std::vector<double>& logits, double best) {
  std::vector<Candidate> out;
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == never) continue;
    out.push_back({int32_t(i), std::exp(logits[i] - best)});
    total += out.back().probability;
  }
  for (Candidate& c : out) c.probability /= total;
  return out;
}

void keep_likeliest(std::vector<Candidate>& all, double top_p) {
  if (top_p >= 1) return;
  std::ranges::stable_sort(all, std::greater<>(), &Candidate::probability);
  double reached = 0;
  size_t count = 0;
  while (count < all.size() && (count == 0 || reached < top_p)) reached += all[count++].probability;
  all.resize(count);
  for (Candidate& c : all) c.probability /= reached;
  std::ranges::sort(all, {}, &Candidate::token);
}

}  // namespace

void SampleOptions::validate() const {
  if (!(temperature >= 0) || std::isinf(temperature)) fail<ConfigError>("--temperature: must be 0 or above, got ", temperature);
  if (top_k < 0) fail<ConfigError>("--top-k: must be 0 (all tokens) or above, got ", top_k);
  if (!(top_p > 0 && top_p <= 1)) fail<ConfigError>("--top-p: must be above 0 and at most 1 (all tokens), got ", top_p);
  if (!(repetition_penalty > 0) || std::isinf(repetition_penalty)) fail<ConfigError>("--repetition-penalty: must be above 0, and 1 for none, got ", repetition_penalty);
}

std::vector<Candidate> candidates(std::span<const double> given, const SampleOptions& options, std::span<const int32_t> seen) {
  std::vector<double> logits(given.begin(), given.end());
  if (options.repetition_penalty != 1) penalise(logits, options.repetition_penalty, seen);
  const bool broken = std::ranges::any_of(logits, [](double logit) { return std::isnan(logit) || logit == -never; });
  const auto best = std::ranges::max_element(logits);
  if (broken || best == logits.end() || *best == never) fail<Error>("sampling: the model's logits are not finite; its weights or its number type do not fit it");
  if (options.temperature == 0) return {{int32_t(best - logits.begin()), 1}};
  const double highest = *best;
  for (double& logit : logits) logit = (logit - highest) / options.temperature;
  keep_largest(logits, options.top_k);
  std::vector<Candidate> out = softmax(logits, 0);
  keep_likeliest(out, options.top_p);
  return out;
}

int32_t draw(std::span<const Candidate> from, Generator& random) {
  if (from.size() == 1) return from[0].token;
  double left = random.uniform();
  for (const Candidate& c : from)
    if ((left -= c.probability) < 0) return c.token;
  return std::ranges::max_element(from, {}, &Candidate::probability)->token;  // rounding left a little over
}

}  // namespace spool::train
