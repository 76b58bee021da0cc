#pragma once
// Text from a trained Performer, byte by byte, with its state of fixed size.
#include <spool/nn/performer.h>
#include <spool/tensor/random.h>

#include <functional>
#include <string_view>

namespace spool::train {

struct GenerateOptions {
  int64_t tokens = 200;
  double temperature = 1;  ///< 0: always the likeliest byte.
  uint64_t seed = 0;
};

/// Feeds `prompt` (a single newline when it is empty), then samples and hands each byte to `emit`. Throws ConfigError for a temperature
/// below 0.
void generate(const nn::Performer& model, std::string_view prompt, const GenerateOptions& options, const std::function<void(uint8_t)>& emit);

}  // namespace spool::train
