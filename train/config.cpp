#include "train/config.h"

#include <fmt/format.h>
#include <spool/nn/llama_files.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <set>

#include "train/loaded.h"
#include "train/models.h"
#include "train/presets.h"

namespace spool::train {
namespace {

// The module states the key first, as in "heads: …": put the place before it.
void validate_model(const ModelConfig& model, const Fields& fields) {
  try {
    model.validate();
  } catch (const ConfigError& e) {
    const std::string text = e.what();
    const Field* field = fields.find("model." + text.substr(0, text.find(':')));
    fail<ConfigError>(fmt::format("{}: model.{}", field ? field->origin : "model", text));
  }
}

// What only some families have. A key is rejected when it asks for something, so that a file may list all of them.
void validate_family(const RunConfig& config, const Fields& fields) {
  const TrainConfig& train = config.train;
  const std::string_view type = EnumNames<ModelType>::names[size_t(config.model.type)];
  if (config.model.type == ModelType::performer) {
    constexpr std::string_view instead = "is not for model.type performer, which recomputes in slices: set train.chunk instead";
    if (train.recompute != nn::Recompute::none) reject(fields, "train.recompute", instead);
    if (train.loss_chunk) reject(fields, "train.loss_chunk", instead);
    if (train.attention != nn::AttentionKind::blockwise) reject(fields, "train.attention", "is not for model.type performer, whose attention has no matrix to keep; leave it out");
    if (train.feed_forward_chunk) reject(fields, "train.feed_forward_chunk", instead);
  } else {
    const auto only = fmt::format("is for model.type performer, and the type is {}; for less memory set train.recompute, loss_chunk or feed_forward_chunk", type);
    if (train.chunk) reject(fields, "train.chunk", only);
    if (train.mode != Mode::automatic) reject(fields, "train.mode", only);
    if (train.state != StatePolicy::subtract64) reject(fields, "train.state", only);
    if (const int64_t blocks = config.model.blocks(); std::max(train.recompute.first, train.recompute.group) > blocks)
      reject(fields, "train.recompute", fmt::format("asks for more blocks than the model's {}", blocks));
  }
  const int64_t most = config.model.max_positions();
  if (most && config.data.seq - 1 > most)
    reject(fields, "data.seq", fmt::format("is too long: the model has {} positions, and a sequence needs all but one of its tokens; set {} higher", most, config.model.positions_key()));
  const bool bytes = config.data.tokenizer.empty();
  if (bytes && config.model.vocab() < 256)
    reject(fields, config.model.vocab_key(), "must be at least 256: the tokens are bytes; or set data.tokenizer");
}

void validate_train(const RunConfig& config, const Fields& fields) {
  const TrainConfig& train = config.train;
  if ((train.mode == Mode::chunked || train.mode == Mode::finetune) && !train.chunk)
    reject(fields, "train.mode", "needs train.chunk, the positions a slice");
  if (train.mode == Mode::full && train.chunk)
    reject(fields, "train.chunk", "has no effect with train.mode = \"full\"; set the mode to chunked or finetune, or leave the chunk out");
  if (config.data.task == Task::copy && (config.data.seq % 2 != 0 || config.data.seq < 4))
    reject(fields, "data.seq", "must be even and at least 4 for the copying task");
  if (config.data.task == Task::copy && !config.data.path.empty())
    reject(fields, "data.path", "has no effect with data.task = \"copy\"; leave it out, or set the task to text");
  if (config.data.task == Task::copy && !config.data.tokenizer.empty())
    reject(fields, "data.tokenizer", "has no effect with data.task = \"copy\", whose tokens are bytes; leave it out, or set the task to text");
}

void validate_optim(const RunConfig& config, const Fields& fields) {
  const OptimConfig& optim = config.optim;
  if (optim.momentum != 0 && optim.name != OptimizerName::sgd) reject(fields, "optim.momentum", "is used by sgd only; adam has beta1");
  if (optim.min_lr > optim.lr) reject(fields, "optim.min_lr", fmt::format("must be at most optim.lr = {}", optim.lr));
  if (optim.schedule == ScheduleName::step && optim.step_at < 1)
    reject(fields, "optim.step_at", "must be at least 1 for schedule step: the steps before the learning rate changes");
}

struct TomlSource {
  std::string text, name;
  bool positions;
};
void read(Fields& fields, const TomlSource& source) { read_toml(fields, source.text, source.name, source.positions); }

constexpr std::string_view type_key = "model.type";
void take_type(RunConfig& config, const TomlSource& source) {
  Fields fields = fields_of(config);
  read_toml_key(fields, type_key, source.text, source.name, source.positions);
}
void apply_only(RunConfig& config, const Override& setting) {
  Fields fields = fields_of(config);
  apply(fields, setting);
}

/// The model and the tokenizer of Hugging Face weights, and their directory's name.
void take_weights_config(RunConfig& config, const std::filesystem::path& hf) {
  config.model.type = ModelType::llama;
  config.model.llama = nn::read_llama_config(hf);
  std::error_code ignored;
  const auto directory = std::filesystem::is_directory(hf, ignored) ? hf : hf.parent_path();
  if (names_tokenizer(directory)) config.data.tokenizer = directory.string();
  const auto name = std::filesystem::weakly_canonical(directory.empty() ? "." : directory, ignored).filename().string();
  if (!name.empty()) config.name = name;
}

}  // namespace

bool TrainConfig::chunked_at(int64_t step) const {
  if (mode == Mode::finetune) return step >= steps / 2;
  return mode == Mode::chunked || (mode == Mode::automatic && chunk.has_value());
}

nn::LossOptions TrainConfig::loss_options(int64_t step) const {
  return {.chunk = chunked_at(step) ? chunk : std::nullopt, .state = state, .recompute = recompute, .recompute_ops = recompute_ops, .attention = attention, .loss_chunk = loss_chunk, .feed_forward_chunk = feed_forward_chunk};
}

void validate(const RunConfig& config, const Fields& fields) {
  for (const Field& field : fields.items) check(field);
  validate_model(config.model, fields);
  validate_family(config, fields);
  validate_train(config, fields);
  validate_optim(config, fields);
}

RunConfig resolve(const Layers& layers) {
  const KnownModel* known = layers.plan ? find_known_model(layers.preset) : nullptr;
  if (layers.plan && !layers.preset.empty() && !known && !find_preset(layers.preset)) unknown_plan(layers.preset);
  const TomlSource given_preset{layers.preset.empty() || known ? "" : std::string(preset(layers.preset).toml), fmt::format("preset {}", layers.preset), false};
  const TomlSource file{layers.file.empty() ? "" : read_config_file(layers.file), layers.file.string(), true};
  RunConfig config = known ? plan_config(*known) : RunConfig();
  // The type comes first: it says which fields [model] has.
  take_type(config, given_preset);
  if (!layers.hf.empty()) {
    Fields fields = fields_of(config);
    read(fields, given_preset);
    take_weights_config(config, layers.hf);
  }
  take_type(config, file);
  for (const Override& setting : layers.settings)
    if (setting.key == type_key) apply_only(config, setting);

  Fields fields = fields_of(config);
  fields.foreign = foreign_model_keys(config.model.type);
  if (layers.hf.empty()) read(fields, given_preset);
  read(fields, file);
  std::set<std::string> seen;
  for (const Override& setting : layers.settings) {
    if (!seen.insert(setting.key).second)
      fail<ConfigError>(fmt::format("{}: '{}' is set twice on the command line; keep one of the two", setting.origin, setting.key));
    apply(fields, setting);
  }
  if (!layers.hf.empty() && config.model.type != ModelType::llama)
    reject(fields, type_key, fmt::format("does not go with --hf: the weights in {} are a llama's", layers.hf.string()));
  validate(config, fields);
  return config;
}

}  // namespace spool::train
