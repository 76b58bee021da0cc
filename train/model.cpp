#include "train/model.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::train {
namespace {

int64_t vocab_of(const nn::PerformerConfig& c) { return c.vocab; }
int64_t vocab_of(const auto& c) { return c.vocab_size; }
int64_t blocks_of(const nn::PerformerConfig& c) { return c.layers; }
int64_t blocks_of(const nn::LlamaConfig& c) { return c.num_hidden_layers; }
int64_t blocks_of(const nn::GptConfig& c) { return c.n_layer; }
// Scaled rotary positions are there to go beyond the trained length.
int64_t limit_of(const nn::PerformerConfig&) { return 0; }
int64_t limit_of(const nn::GptConfig& c) { return c.n_positions; }
int64_t limit_of(const nn::LlamaConfig& c) { return c.rope_scaling.rope_type == "default" ? c.max_position_embeddings : 0; }

Fields fields_of_type(ModelConfig& config, ModelType type) {
  config.type = type;
  Fields out;
  ModelConfig::visit_fields(config, FieldLister(out, "model"));
  return out;
}

}  // namespace

int64_t ModelConfig::vocab() const {
  return chosen(*this, [](const auto& family) { return vocab_of(family); });
}
int64_t ModelConfig::blocks() const {
  return chosen(*this, [](const auto& family) { return blocks_of(family); });
}
int64_t ModelConfig::max_positions() const {
  return chosen(*this, [](const auto& family) { return limit_of(family); });
}
std::string_view ModelConfig::vocab_key() const { return type == ModelType::performer ? "model.vocab" : "model.vocab_size"; }
std::string_view ModelConfig::positions_key() const { return type == ModelType::gpt ? "model.n_positions" : "model.max_position_embeddings"; }
void ModelConfig::validate() const {
  chosen(*this, [](const auto& family) { family.validate(); });
}

std::vector<ForeignKey> foreign_model_keys(ModelType type) {
  ModelConfig scratch;
  const Fields own = fields_of_type(scratch, type);
  std::vector<ForeignKey> out;
  const auto& names = EnumNames<ModelType>::names;
  for (size_t i = 0; i < names.size(); ++i) {
    if (ModelType(i) == type) continue;
    for (const Field& field : fields_of_type(scratch, ModelType(i)).items) {
      if (own.find(field.key)) continue;
      const auto known = std::ranges::find(out, field.key, &ForeignKey::key);
      if (known == out.end()) out.push_back({field.key, fmt::format("it belongs to model.type {}", names[i])});
      else known->advice += fmt::format(" or {}", names[i]);
    }
  }
  for (ForeignKey& key : out) key.advice += fmt::format(", and the type is {}", names[size_t(type)]);
  return out;
}

std::unique_ptr<nn::LanguageModel> make_model(const ModelConfig& config, const nn::Options& options) {
  switch (config.type) {
    case ModelType::performer: break;
    case ModelType::llama: return std::make_unique<nn::Llama>(nn::root(options), config.llama);
    case ModelType::gpt: return std::make_unique<nn::Gpt>(nn::root(options), config.gpt);
  }
  return std::make_unique<nn::Performer>(nn::root(options), config.performer);
}

}  // namespace spool::train
