#pragma once
// The memory of a training step from the configuration alone, in closed form: nothing is run, not even on meta. What is added up here by
// hand is compared with plans, which come from running the step, to the byte; if one of the two is wrong, they differ.
//
// Sizes follow the ops' own declarations: what each keeps for backward (`spool ops`) and how much scratch it asks for. Symbols of the
// comments: T = batch · length tokens, h width, a and k query and key heads of d, f feed-forward width, V vocabulary, e bytes an element.
#include <spool/nn/gpt.h>
#include <spool/nn/llama.h>
#include <spool/nn/performer.h>

#include <cstdint>
#include <string>
#include <vector>

namespace spool::nn {

/// What optimizers keep: moments, and an f32 master copy for parameters of 16 bits.
enum class OptimizerState : uint8_t {
  none,      ///< SGD
  momentum,  ///< SGD with momentum: one moment.
  adam,      ///< Adam, AdamW: two.
};
/// Bytes of optimizer state for `elements` parameters of a type.
int64_t optimizer_bytes(OptimizerState kind, int64_t elements, Dtype dtype);

/// One training step: forward, backward, optimizer. Tokens are i32, or u8 where `byte_tokens`; no mask.
struct StepSizes {
  int64_t batch = 1;
  int64_t length = 512;  ///< Positions that are computed: tokens a sequence, less one.
  Dtype dtype = Dtype::f32;
  bool byte_tokens = false;
  LossOptions loss = {};
  OptimizerState optimizer = OptimizerState::adam;
};

/// Bytes live at one instant of a step, everything included.
struct Instant {
  std::string at;
  int64_t bytes = 0;
  int64_t scratch = 0;  ///< How much of them is declared scratch.
};

struct Estimate {
  int64_t parameters = 0;       ///< Elements; tied ones once.
  int64_t parameter_bytes = 0;  ///< With those of buffers, which have no gradient: favor+'s random directions.
  int64_t gradient_bytes = 0, optimizer_bytes = 0;
  int64_t saved_bytes = 0;      ///< What the tape keeps when backward starts, parameters not counted.
  Instant start_of_backward;    ///< Parameters, optimizer state, everything saved, the loss.
  Instant end_of_backward;      ///< Parameters, optimizer state, all gradients.
  Instant optimizer_step;
  Instant peak;                 ///< The highest of all instants, those between the three included.
};

/// Throws ConfigError for what the model does not have. Takes as long for a million slices as for a few: those in the middle are alike.
Estimate estimate(const LlamaConfig& config, const StepSizes& sizes);
Estimate estimate(const GptConfig& config, const StepSizes& sizes);
Estimate estimate(const PerformerConfig& config, const StepSizes& sizes);

/// Bytes that one block keeps for backward: e·(4h + (2a + 2k)·d + 3f) + 8 + 4a a token with f32 statistics.
int64_t block_saved_bytes(const LlamaConfig& config, const StepSizes& sizes);

}  // namespace spool::nn
