#pragma once
// The commands of the `spool` program. Each does its work, prints for people on stderr (or stdout where the output is the point), or one
// JSON document on stdout with --json, and throws the library's errors; main.cpp turns those into exit codes.
#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/budget.h"
#include "train/config.h"
#include "train/generate.h"

namespace spool::train {

/// Where a configuration comes from, as options give it.
struct ConfigOptions {
  std::string preset;
  std::filesystem::path config;
  std::filesystem::path hf;  ///< Weights to start from, or for a plan their config.json.
  std::optional<std::string> data, tokenizer, steps, chunk, seed, batch, seq, dtype, optimizer;
  std::vector<std::string> set;
  std::optional<std::string> budget;  ///< A size, see parse_bytes: how the step is computed is chosen so that it fits.
  RunConfig resolve() const;
  /// Makes a resolved configuration fit --budget; what other options say stays. Nothing without that option. See choose_within.
  std::optional<BudgetChoice> fit(RunConfig& resolved) const;
  /// For planning: the name may also be a known model's, whose --seq counts positions, or the place of a run, a .toml or a config.json.
  RunConfig resolve_plan() const;

 private:
  std::vector<Override> settings() const;
  RunConfig resolve(bool plan) const;
};

struct TrainCommand {
  ConfigOptions config;
  int64_t resident = 0;  ///< See RunOptions.
  std::filesystem::path out, source_dir;
  std::optional<std::string> limit;  ///< A size, see parse_bytes.
  std::optional<std::filesystem::path> profile;  ///< See RunOptions.
  bool resume = false, json = false;
};
int run(const TrainCommand& command);  ///< 0, or 130 / 143 after a signal.

struct PlanCommand {
  ConfigOptions config;
  bool article = false;  ///< The article's formulas beside what is so; of its own example for want of a model and sizes.
  bool json = false;
};
void run(const PlanCommand& command);

struct EvalCommand {
  std::filesystem::path model, tokenizer, data;  ///< `model`: see load_model.
  std::optional<std::string> text;
  std::optional<int64_t> seq;
  bool json = false;
};
void run(const EvalCommand& command);

struct GenerateCommand {
  std::filesystem::path model, tokenizer;
  std::string prompt;
  GenerateOptions options;
  bool json = false;
};
void run(const GenerateCommand& command);

struct ReportCommand {
  std::filesystem::path run;
  std::optional<std::filesystem::path> other;  ///< A run to hold against the first: how its report differs.
  std::optional<std::filesystem::path> html, trace, csv, folded, snapshot;  ///< Files to write instead; all but the first from the plan of the run's step.
  bool json = false;
};
void run(const ReportCommand& command);

struct OpsCommand {
  std::string name;  ///< Empty: all of them.
  bool json = false, markdown = false;
};
void run(const OpsCommand& command);  ///< See op_page.h.
void run_presets(bool json);  ///< The presets.

}  // namespace spool::train
