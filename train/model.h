#pragma once
// The model families that can be trained, and [model] of a configuration: which of them, and that family's own settings.
#include <spool/nn/gpt.h>
#include <spool/nn/language_model.h>
#include <spool/nn/llama.h>
#include <spool/nn/performer.h>

#include <memory>

#include "train/fields.h"

namespace spool::train {

enum class ModelType { performer, llama, gpt };

template <> struct EnumNames<ModelType> { static constexpr std::array<std::string_view, 3> names{"performer", "llama", "gpt"}; };
template <> struct EnumNames<nn::NormPlacement> { static constexpr std::array<std::string_view, 2> names{"branch", "pre"}; };

/// [model]. Its fields are `type` and those of the family that `type` names when they are listed: set the type first (`resolve` does).
struct ModelConfig {
  ModelType type = ModelType::performer;
  nn::PerformerConfig performer;  ///< Of these, the one of `type` counts.
  nn::LlamaConfig llama;
  nn::GptConfig gpt;

  int64_t vocab() const;
  int64_t blocks() const;
  int64_t max_positions() const;  ///< Longest sequence that the model can place; 0: no limit.
  std::string_view vocab_key() const, positions_key() const;  ///< What those two are called in [model].
  void validate() const;          ///< Throws ConfigError "key: …".

  /// f(configuration of the family in force).
  template <class Self, class F> static decltype(auto) chosen(Self& self, F&& f) {
    switch (self.type) {
      case ModelType::performer: break;
      case ModelType::llama: return f(self.llama);
      case ModelType::gpt: return f(self.gpt);
    }
    return f(self.performer);
  }
  template <class Self, class V> static void visit_fields(Self& self, V&& v) {
    v("type", self.type, "model type: performer (linear attention, in slices), llama or gpt (softmax attention); the other keys are those of the type");
    chosen(self, [&]<class Family>(Family& family) { std::remove_const_t<Family>::visit_fields(family, v); });
  }
};

/// Keys ("model.layers") that only other families have, each with what it belongs to, for messages.
std::vector<ForeignKey> foreign_model_keys(ModelType type);

/// The model with fresh weights.
std::unique_ptr<nn::LanguageModel> make_model(const ModelConfig& config, const nn::Options& options);

}  // namespace spool::train
