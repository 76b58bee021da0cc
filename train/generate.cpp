#include "train/generate.h"

#include <spool/autograd/tape.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace spool::train {
namespace {

/// A byte drawn from softmax(logits / temperature).
uint8_t sample(const std::vector<double>& logits, double temperature, Generator& random) {
  const auto best = std::ranges::max_element(logits);
  if (temperature == 0) return uint8_t(best - logits.begin());
  std::vector<double> weights(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) total += weights[i] = std::exp((logits[i] - *best) / temperature);
  double left = random.uniform() * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return uint8_t(i);
  }
  return uint8_t(best - logits.begin());
}

}  // namespace

void generate(const nn::Performer& model, std::string_view prompt, const GenerateOptions& options, const std::function<void(uint8_t)>& emit) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) fail<ConfigError>("--temperature: must be 0 or above, got ", options.temperature);
  if (options.tokens < 0) fail<ConfigError>("--tokens: must be 0 or above, got ", options.tokens);
  if (prompt.empty()) prompt = "\n";
  const NoGrad quiet;
  Generator random(RandomKey(options.seed).fold("generate"));
  auto stream = model.stream(1);
  const int64_t vocab = model.config().vocab;
  std::vector<double> logits;
  const auto feed = [&](std::string_view bytes) {
    Tensor tokens = empty({1, int64_t(bytes.size())}, Dtype::u8);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(tokens.data<uint8_t>()));
    const auto all = model.advance(stream, tokens).to_vector<double>();
    logits.assign(all.end() - vocab, all.end());
  };
  constexpr size_t piece = 1024;
  for (size_t at = 0; at < prompt.size(); at += piece) feed(prompt.substr(at, piece));
  for (int64_t i = 0; i < options.tokens; ++i) {
    const uint8_t byte = sample(logits, options.temperature, random);
    emit(byte);
    const char c = char(byte);
    feed({&c, 1});
  }
}

}  // namespace spool::train
