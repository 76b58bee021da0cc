#include "train/loaded.h"

#include <spool/nn/llama_files.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <array>
#include <utility>
#include <nlohmann/json.hpp>

#include "train/checkpoint.h"
#include "train/files.h"
#include "train/step.h"

namespace spool::train {
namespace {

namespace fs = std::filesystem;

struct TokenizerFile {
  std::string_view kind, name;
};
constexpr std::array<TokenizerFile, 3> tokenizer_files{{{"bpe", "tokenizer.json"}, {"sentencepiece", "tokenizer.model"}, {"llama2c", "tokenizer.bin"}}};

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

LoadedModel load_weights(const fs::path& place) {
  LoadedModel out;
  std::unique_ptr<nn::Llama> model = nn::load_llama(place);
  out.config.model.type = ModelType::llama;
  out.config.model.llama = model->config();
  if (fs::is_directory(place) && names_tokenizer(place)) out.config.data.tokenizer = place.string();
  out.config.data.seq = std::min<int64_t>(out.config.data.seq, model->config().max_position_embeddings);
  out.model = std::move(model);
  return out;
}

}  // namespace

bool names_tokenizer(const fs::path& directory) {
  std::error_code ignored;
  return std::ranges::any_of(tokenizer_files, [&](const auto& file) { return fs::exists(directory / file.name, ignored); });
}

LoadedModel load_model(const fs::path& place, const fs::path& tokenizer) {
  const bool run = fs::exists(place / "config.toml");
  if (!run && !fs::exists(place / "config.json") && place.extension() != ".bin")
    fail<IoError>(place.string(), ": is no model; give a run's directory (config.toml), a Hugging Face directory (config.json) or a llama2.c .bin");
  LoadedModel out = run ? load_run(place) : load_weights(place);
  if (!tokenizer.empty()) out.config.data.tokenizer = tokenizer.string();
  if (out.config.data.tokenizer.empty() && out.config.model.vocab() < 256)
    fail<ConfigError>("--tokenizer: is needed: ", place.string(), " has no tokenizer beside it, and its ", out.config.model.vocab(), " ids are too few for bytes");
  if (out.config.data.tokenizer.empty() && !run) out.notice = no_tokenizer_notice;
  out.tokenizer = tokenizer_of(out.config);
  return out;
}

TokenizerPtr tokenizer_of(const RunConfig& config) {
  return config.data.tokenizer.empty() ? byte_tokenizer() : open_tokenizer(config.data.tokenizer, config.model.vocab());
}

void keep_tokenizer(const std::string& source, const Tokenizer& tokenizer, const fs::path& directory) {
  const auto copy = [&](const fs::path& from, const fs::path& to) {
    if (fs::exists(from) && !fs::exists(to)) write_file_atomic(to, read_file(from));
  };
  for (const auto& [kind, name] : tokenizer_files) {
    if (tokenizer.kind() != kind) continue;
    const fs::path file = fs::is_directory(source) ? fs::path(source) / name : fs::path(source);
    copy(file, directory / name);
    for (const auto* companion : {"tokenizer_config.json", "generation_config.json"}) copy(file.parent_path() / companion, directory / companion);
  }
}

}  // namespace spool::train
