#pragma once
// Published models known by name, for planning: what their config.json says of their sizes. Presets (presets.h) are what is trained from scratch.
#include <spool/nn/llama.h>

#include <span>
#include <string_view>

#include "train/config.h"

namespace spool::train {

struct KnownModel {
  std::string_view name;
  std::string_view doc;     ///< One line.
  nn::LlamaConfig config;
  int64_t length = 0;       ///< Positions planned unless others are asked for: those it was trained with.
};

std::span<const KnownModel> known_models();
const KnownModel* find_known_model(std::string_view name);  ///< Null when there is none of that name.

/// What a plan of this model starts from: its sizes, one sequence of its length, bf16 with f32 master weights, AdamW. A configuration counts
/// tokens, one more than the positions that are computed.
RunConfig plan_config(const KnownModel& model);

/// Throws ConfigError with the nearest name of a preset or known model, and all of them.
[[noreturn]] void unknown_plan(std::string_view name);
/// "the presets are …; the models are …".
std::string plan_names();

}  // namespace spool::train
