#include "train/config.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <set>

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
  if (model.vocab < 256) reject(fields, "model.vocab", "must be at least 256: the tokens are bytes");
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
}

void validate_optim(const RunConfig& config, const Fields& fields) {
  const OptimConfig& optim = config.optim;
  if (optim.momentum != 0 && optim.name != OptimizerName::sgd) reject(fields, "optim.momentum", "is used by sgd only; adam has beta1");
  if (optim.min_lr > optim.lr) reject(fields, "optim.min_lr", fmt::format("must be at most optim.lr = {}", optim.lr));
  if (optim.schedule == ScheduleName::step && optim.step_at < 1)
    reject(fields, "optim.step_at", "must be at least 1 for schedule step: the steps before the learning rate changes");
}

}  // namespace

bool TrainConfig::chunked_at(int64_t step) const {
  if (mode == Mode::finetune) return step >= steps / 2;
  return mode == Mode::chunked || (mode == Mode::automatic && chunk.has_value());
}

void validate(const RunConfig& config, const Fields& fields) {
  for (const Field& field : fields.items) check(field);
  validate_model(config.model, fields);
  validate_train(config, fields);
  validate_optim(config, fields);
}

RunConfig resolve(const Layers& layers) {
  RunConfig config;
  Fields fields = fields_of(config);
  if (!layers.preset.empty()) read_toml(fields, preset(layers.preset).toml, fmt::format("preset {}", layers.preset), false);
  if (!layers.file.empty()) read_toml_file(fields, layers.file);
  std::set<std::string> seen;
  for (const Override& setting : layers.settings) {
    if (!seen.insert(setting.key).second)
      fail<ConfigError>(fmt::format("{}: '{}' is set twice on the command line; keep one of the two", setting.origin, setting.key));
    apply(fields, setting);
  }
  validate(config, fields);
  return config;
}

}  // namespace spool::train
