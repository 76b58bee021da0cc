#pragma once
// The memory of a training step from the configuration alone, in closed form: nothing is run, not even on meta. What is added up here by
// hand is compared with plans, which come from running the step, to the byte; if one of the two is wrong, they differ.
//
// Sizes follow the ops' own declarations: what each keeps for backward (`spool ops`) and how much scratch it asks for. Symbols of the
// comments: T = batch · length tokens, h width, a and k query and key heads of d, f feed-forward width, V vocabulary, e bytes an element.
#include <spool/nn/gpt.h>
#include <spool/nn/llama.h>
#include <spool/nn/performer.h>
#include <spool/tensor/ledger.h>

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

/// One training step: forward and backward of each micro-batch, optimizer. Tokens are i32, or u8 where `byte_tokens`.
struct StepSizes {
  int64_t batch = 1;
  int64_t length = 512;  ///< Positions that are computed: tokens a sequence, less one.
  Dtype dtype = Dtype::f32;
  bool byte_tokens = false;
  bool masked = false;      ///< Some tokens do not count as targets.
  int64_t accumulate = 1;   ///< Micro-batches, whose gradients add up.
  LossOptions loss = {};
  OptimizerState optimizer = OptimizerState::adam;
};

/// Bytes live at one instant of a step, everything included.
struct Instant {
  std::string at;
  int64_t bytes = 0;
  int64_t scratch = 0;    ///< How much of them is declared scratch,
  int64_t gradients = 0;  ///< and how much gradients of parameters.
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
  /// Arithmetic of the step without the optimizer's, to compare ways to compute it: operations of products and attention (a multiply-add
  /// counts two), and one for each byte that any op writes.
  double work = 0;

  /// The peak by category. Whether an activation is kept or passing is not told apart: all of them are `saved`.
  CategoryBytes at_peak() const;
};

/// Throws ConfigError for what the model does not have. Takes as long for a million slices or a hundred
/// blocks as for a few: those in the middle are alike.
Estimate estimate(const LlamaConfig& config, const StepSizes& sizes);
Estimate estimate(const GptConfig& config, const StepSizes& sizes);
Estimate estimate(const PerformerConfig& config, const StepSizes& sizes);

/// One module, or `count` alike.
struct ModuleEstimate {
  std::string path;         ///< "model.layers.*.mlp"; empty: what is in no module, the batch and the loss with its logits.
  int64_t count = 1;
  int64_t parameters = 0;   ///< Elements of all of them together.
  int64_t saved_bytes = 0;  ///< What the tape keeps of what they and the modules in them allocate, parameters not counted, of all together.
};
/// What each module has, and keeps when backward starts, with nothing recomputed and nothing in pieces: the part of each in
/// Estimate::parameters and saved_bytes, which they add up to. ConfigError for other sizes than that, and for slices.
std::vector<ModuleEstimate> module_estimates(const LlamaConfig& config, const StepSizes& sizes);
std::vector<ModuleEstimate> module_estimates(const GptConfig& config, const StepSizes& sizes);
std::vector<ModuleEstimate> module_estimates(const PerformerConfig& config, const StepSizes& sizes);

/// Bytes that one block keeps for backward: e·(4h + (2a + 2k)·d + 3f) + 8 + 4a a token with f32 statistics.
int64_t block_saved_bytes(const LlamaConfig& config, const StepSizes& sizes);

}  // namespace spool::nn
