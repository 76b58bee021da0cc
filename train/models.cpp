#include "train/models.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <vector>

#include "train/nearest.h"
#include "train/presets.h"

namespace spool::train {
namespace {

struct Sizes {
  int64_t vocabulary, width, feed_forward, layers, heads, key_heads, positions;
};
nn::LlamaConfig llama(const Sizes& s, double eps, double theta = 10000) {
  return {.vocab_size = s.vocabulary, .hidden_size = s.width, .intermediate_size = s.feed_forward, .num_hidden_layers = s.layers, .num_attention_heads = s.heads,
          .num_key_value_heads = s.key_heads, .max_position_embeddings = s.positions, .rms_norm_eps = eps, .rope_theta = theta};
}

nn::LlamaConfig llama_3_2_1b() {
  nn::LlamaConfig c = llama({128256, 2048, 8192, 16, 32, 8, 131072}, 1e-5, 500000);
  c.rope_scaling = {.rope_type = "llama3", .factor = 32, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position_embeddings = 8192};
  c.tie_word_embeddings = true;
  return c;
}
nn::LlamaConfig mistral_7b() {
  nn::LlamaConfig c = llama({32000, 4096, 14336, 32, 32, 8, 32768}, 1e-5);
  c.sliding_window = 4096;
  return c;
}

/// "Ring Attention with Blockwise Transformers" (2310.01889) trains LLaMA's sizes, and OpenLLaMA's of 3B. It names no widths: they are those of
/// the code that it builds on. `positions`: the longest context of its Table 3, for 65B of its Table 4.
KnownModel ring(std::string_view name, std::string_view doc, const Sizes& sizes) { return {name, doc, llama(sizes, 1e-6), 4096}; }

std::vector<KnownModel> make_models() {
  std::vector<KnownModel> all{
      {"llama-2-7b", "Llama 2, 7B", llama({32000, 4096, 11008, 32, 32, 32, 4096}, 1e-5)},
      {"llama-2-13b", "Llama 2, 13B", llama({32000, 5120, 13824, 40, 40, 40, 4096}, 1e-5)},
      {"llama-2-70b", "Llama 2, 70B: 64 query heads share 8 key heads", llama({32000, 8192, 28672, 80, 64, 8, 4096}, 1e-5)},
      {"llama-3-8b", "Llama 3, 8B", llama({128256, 4096, 14336, 32, 32, 8, 8192}, 1e-5, 500000)},
      {"llama-3.2-1b", "Llama 3.2, 1B: 131,072 positions, tied embeddings", llama_3_2_1b()},
      {"tinyllama", "TinyLlama, 1.1B", llama({32000, 2048, 5632, 22, 32, 4, 2048}, 1e-5)},
      {"mistral-7b", "Mistral 7B v0.1: a query sees 4,096 positions of 32,768", mistral_7b()},
      ring("ring-3b", "the ring attention paper's 3B (OpenLLaMA)", {32000, 3200, 8640, 26, 32, 32, 16384 * 1024}),
      ring("ring-7b", "the ring attention paper's 7B (LLaMA)", {32000, 4096, 11008, 32, 32, 32, 8192 * 1024}),
      ring("ring-13b", "the ring attention paper's 13B (LLaMA)", {32000, 5120, 13824, 40, 40, 40, 4096 * 1024}),
      ring("ring-30b", "the ring attention paper's 30B (LLaMA's 32.5B)", {32000, 6656, 17920, 60, 52, 52, 2048 * 1024}),
      ring("ring-65b", "the ring attention paper's 65B (LLaMA)", {32000, 8192, 22016, 80, 64, 64, 1024 * 1024}),
  };
  for (KnownModel& m : all)
    if (!m.length) m.length = m.config.max_position_embeddings;
  return all;
}

template <class Items> std::vector<std::string_view> names_of(const Items& items) {
  std::vector<std::string_view> out;
  for (const auto& item : items) out.push_back(item.name);
  return out;
}

}  // namespace

std::span<const KnownModel> known_models() {
  static const std::vector<KnownModel> all = make_models();
  return all;
}

const KnownModel* find_known_model(std::string_view name) {
  const auto all = known_models();
  const auto found = std::ranges::find(all, name, &KnownModel::name);
  return found == all.end() ? nullptr : &*found;
}

RunConfig plan_config(const KnownModel& model) {
  RunConfig out;
  out.name = model.name;
  out.model.type = ModelType::llama;
  out.model.llama = model.config;
  out.data.seq = model.length + 1;
  out.data.tokenizer = model.name;  // its own, which no plan opens: tokens are i32 and not bytes
  out.train.dtype = Dtype::bf16;
  out.optim.name = OptimizerName::adamw;
  return out;
}

void unknown_plan(std::string_view name) {
  std::vector<std::string_view> names = names_of(presets());
  for (const std::string_view model : names_of(known_models())) names.push_back(model);
  const auto near = nearest(name, names);
  fail<ConfigError>(fmt::format("unknown preset or model '{}'; {}{}", name, near.empty() ? "" : fmt::format("did you mean '{}'? ", near), plan_names()));
}

std::string plan_names() {
  return fmt::format("the presets are {}; the models are {}", fmt::join(names_of(presets()), ", "), fmt::join(names_of(known_models()), ", "));
}

}  // namespace spool::train
