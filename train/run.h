#pragma once
// A run: the training loop with validation, metrics, checkpoints, and the report at its end.
#include <filesystem>
#include <optional>

#include "train/config.h"
#include "train/evaluate.h"

namespace spool::train {

struct RunOptions {
  std::filesystem::path out;         ///< The run's directory.
  std::filesystem::path source_dir;  ///< Where the project's own text is, for want of data.
  std::filesystem::path hf;          ///< Weights to start from, or empty.
  bool resume = false;               ///< Go on from the newest checkpoint in `out`.
  std::optional<int64_t> limit;      ///< Bytes that a step may have alive.
  std::optional<std::filesystem::path> profile;  ///< Where to write a trace of ten steps' kernels; a table of them goes to stderr.
  int64_t resident = 0;              ///< What peak_resident_bytes() said before the program began to work; 0: unknown.
};

struct RunOutcome {
  int64_t steps = 0;
  double loss = 0;                   ///< Mean training loss over the last log interval, nats a token.
  Evaluation validation;             ///< The last one; without tokens if there was none.
  double tokens_per_second = 0;
  int64_t planned_peak = 0, measured_peak = 0;
  std::optional<int64_t> closed_form_peak;  ///< Where there is a closed form for this configuration.
  std::optional<int64_t> process_growth;    ///< How far the process's resident peak rose over `resident`, where the system says so.
  int signal = 0;                    ///< SIGINT or SIGTERM when one ended the run early.
};

/// Trains. Throws ConfigError for an `out` that holds a run already (or none, with `resume`), IoError, and OutOfMemory with a report of the step:
/// when it needs more than `limit`, before anything is written, or when the system refuses bytes; checkpoints stay.
RunOutcome run_training(const RunConfig& config, const RunOptions& options);

}  // namespace spool::train
