#pragma once
// A run: the training loop with validation, metrics, checkpoints, and the report at its end.
#include <spool/nn/performer.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "train/config.h"
#include "train/step.h"

namespace spool::train {

struct RunOptions {
  std::filesystem::path out;         ///< The run's directory.
  std::filesystem::path source_dir;  ///< Where the project's own text is, for want of data.
  bool resume = false;               ///< Go on from the newest checkpoint in `out`.
};

struct RunOutcome {
  int64_t steps = 0;
  double loss = 0;                   ///< Mean training loss over the last log interval, nats.
  double validation_loss = 0;        ///< Nats; NaN without validation.
  double tokens_per_second = 0;
  int64_t planned_peak = 0, measured_peak = 0;
  int signal = 0;                    ///< SIGINT or SIGTERM when one ended the run early.
};

/// Trains. Throws ConfigError for an `out` that holds a run already (or none, with `resume`), IoError, OutOfMemory.
RunOutcome run_training(const RunConfig& config, const RunOptions& options);

/// Mean loss in nats over the validation sequences of a dataset.
struct Evaluation {
  int64_t tokens = 0;
  double loss = 0;
};
/// `keep_going(done, of)` is asked before each batch of sequences; on false the rest is left out.
Evaluation evaluate(const RunConfig& config, nn::Performer& model, const Dataset& data, const std::function<bool(int64_t done, int64_t of)>& keep_going = {});
/// The same over all of some bytes, cut into the configuration's sequences; the last one may be shorter.
Evaluation evaluate_bytes(const RunConfig& config, nn::Performer& model, const CorpusPtr& corpus);

/// The configuration and newest weights of a run.
struct LoadedRun {
  RunConfig config;
  std::unique_ptr<nn::Performer> model;
  int64_t step = 0;
};
LoadedRun load_run(const std::filesystem::path& run);

inline double bits_per_byte(double nats) { return nats / 0.69314718055994530942; }

}  // namespace spool::train
