#include "train/checkpoint.h"

#include <nlohmann/json.hpp>
#include <spool/tensor/error.h>
#include <spool/tensor/safetensors.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "train/files.h"

namespace spool::train {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view prefix = "step-";

/// Steps of the checkpoints in a directory, ascending; names that are anything else are passed over.
std::vector<int64_t> steps_in(const fs::path& directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    int64_t step = 0;
    if (!name.starts_with(prefix)) continue;
    const char *begin = name.data() + prefix.size(), *end = name.data() + name.size();
    const auto [rest, bad] = std::from_chars(begin, end, step);
    if (bad == std::errc() && rest == end) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

fs::path directory_of(const fs::path& run, int64_t step) { return run / "checkpoints" / (std::string(prefix) + std::to_string(step)); }

}  // namespace

void save_checkpoint(const fs::path& run, const nn::LanguageModel& model, const Optimizer& optimizer, const RunState& state, int64_t keep) {
  make_directories(run / "checkpoints");
  StagedDirectory staged(directory_of(run, state.step));
  model.save((staged.path() / "model.safetensors").string());
  save_safetensors((staged.path() / "optimizer.safetensors").string(), optimizer.state());
  const nlohmann::ordered_json json{{"schema", "spool.state/1"}, {"step", state.step},       {"seconds", state.seconds},
                                    {"skipped", state.skipped},  {"best", state.best ? nlohmann::ordered_json(*state.best) : nlohmann::ordered_json()}};
  write_file(staged.path() / "state.json", json.dump(2) + "\n");
  staged.publish();
  const auto steps = steps_in(run / "checkpoints");  // only now that the new one is safe do old ones go
  for (size_t i = 0; i + size_t(keep) < steps.size(); ++i) fs::remove_all(directory_of(run, steps[i]));
}

std::optional<fs::path> newest_checkpoint(const fs::path& run) {
  const auto steps = steps_in(run / "checkpoints");
  if (steps.empty()) return {};
  return directory_of(run, steps.back());
}

RunState load_checkpoint(const fs::path& checkpoint, nn::LanguageModel& model, Optimizer& optimizer) {
  const auto json = nlohmann::json::parse(read_file(checkpoint / "state.json"), nullptr, false);
  if (json.is_discarded() || json.value("schema", "") != "spool.state/1") fail<IoError>((checkpoint / "state.json").string(), ": is not a checkpoint's state");
  RunState state{json.value("step", int64_t(0)), json.value("seconds", 0.0), json.value("skipped", int64_t(0)), {}};
  if (json.contains("best") && json["best"].is_number()) state.best = json["best"].get<double>();
  model.load((checkpoint / "model.safetensors").string());
  optimizer.load_state(load_safetensors((checkpoint / "optimizer.safetensors").string()));
  return state;
}

}  // namespace spool::train
