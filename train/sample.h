#pragma once
// The next token from a model's logits.
#include <spool/tensor/random.h>

#include <cstdint>
#include <span>
#include <vector>

namespace spool::train {

/// How a token is drawn. In this order: the penalty, the temperature, the largest top_k, of those the likeliest that reach top_p, the draw.
struct SampleOptions {
  double temperature = 1;         ///< Logits are divided by it; 0: always the likeliest, of equals the first.
  int64_t top_k = 0;              ///< How many may be drawn, those equal to the last of them too; 0: all.
  double top_p = 1;               ///< The smallest set of likeliest tokens that has this probability may be drawn; at least one.
  double repetition_penalty = 1;  ///< Logits of tokens seen before, once however often: positive ones are divided by it, negative ones multiplied.

  void validate() const;  ///< Throws ConfigError naming the option.
};

struct Candidate {
  int32_t token = 0;
  double probability = 0;
  bool operator==(const Candidate&) const = default;
};

/// The tokens that may be drawn, in order of their ids, and with what probability. `seen`: the tokens so far. A logit of −∞ is never drawn;
/// NaN, +∞ or nothing but −∞ is an Error.
std::vector<Candidate> candidates(std::span<const double> logits, const SampleOptions& options, std::span<const int32_t> seen = {});
/// One of them; takes one number from `random` unless there is no choice.
int32_t draw(std::span<const Candidate> from, Generator& random);

}  // namespace spool::train
