#pragma once
// Checkpoints: RUN/checkpoints/step-N/{model.safetensors, optimizer.safetensors, state.json}, published as a whole or not at all.
#include <spool/nn/language_model.h>
#include <spool/optim/optimizer.h>

#include <filesystem>
#include <optional>

namespace spool::train {

/// What a run needs besides tensors to go on as if it had never stopped. Data and random numbers are functions of the step.
struct RunState {
  int64_t step = 0;               ///< Steps made.
  double seconds = 0;             ///< Training time so far.
  int64_t skipped = 0;            ///< Steps whose loss or gradient was not finite.
  std::optional<double> best;     ///< Lowest validation loss so far, in nats.
};

void save_checkpoint(const std::filesystem::path& run, const nn::LanguageModel& model, const Optimizer& optimizer, const RunState& state, int64_t keep);
/// Directory of the newest checkpoint of a run, or nothing.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run);
RunState load_checkpoint(const std::filesystem::path& checkpoint, nn::LanguageModel& model, Optimizer& optimizer);

}  // namespace spool::train
