#include "train/loaded.h"

#include <spool/tensor/error.h>

#include <array>
#include <utility>
#include <nlohmann/json.hpp>

#include "train/checkpoint.h"
#include "train/files.h"
#include "train/step.h"

namespace spool::train {
namespace {

namespace fs = std::filesystem;

LoadedModel load_run(const fs::path& run) {
  const auto checkpoint = newest_checkpoint(run);
  if (!checkpoint) fail<IoError>(run.string(), ": holds no checkpoint; a run writes one at its end and every train.save_every steps");
  LoadedModel out;
  out.config = resolve({.preset = {}, .file = run / "config.toml", .hf = {}, .settings = {}});
  if (!out.config.data.tokenizer.empty()) out.config.data.tokenizer = run.string();  // keep_tokenizer put it there
  out.model = make_model(out.config);
  out.model->load((*checkpoint / "model.safetensors").string());
  out.step = nlohmann::json::parse(read_file(*checkpoint / "state.json"), nullptr, false).value("step", int64_t(0));
  return out;
}

}  // namespace

LoadedModel load_model(const fs::path& place, const fs::path& tokenizer) {
  if (!fs::exists(place / "config.toml")) fail<IoError>(place.string(), ": holds no run; give the directory that `spool train --out` wrote");
  LoadedModel out = load_run(place);
  if (!tokenizer.empty()) out.config.data.tokenizer = tokenizer.string();
  out.tokenizer = tokenizer_of(out.config);
  return out;
}

TokenizerPtr tokenizer_of(const RunConfig& config) {
  return config.data.tokenizer.empty() ? byte_tokenizer() : open_tokenizer(config.data.tokenizer, config.model.vocab());
}

void keep_tokenizer(const std::string& source, const Tokenizer& tokenizer, const fs::path& directory) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> names{{{"bpe", "tokenizer.json"}, {"sentencepiece", "tokenizer.model"}, {"llama2c", "tokenizer.bin"}}};
  for (const auto& [kind, name] : names) {
    if (tokenizer.kind() != kind) continue;
    const fs::path file = fs::is_directory(source) ? fs::path(source) / name : fs::path(source), copy = directory / name;
    std::error_code ignored;
    if (!fs::equivalent(file, copy, ignored)) write_file_atomic(copy, read_file(file));
  }
}

}  // namespace spool::train
