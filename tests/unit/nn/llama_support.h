#pragma once
// A trained LLaMA of 260,000 parameters with golden numbers, and what tests of the model share.
#include <fstream>
#include <sstream>

#include "tests/support.h"

namespace spool::test {

/// One line of golden_fp64.txt.
struct GoldenPosition {
  int64_t token = 0, argmax = 0, next = 0;
  double largest = 0, first[4] = {}, lse = 0, nll = 0;
};
struct Golden {
  std::vector<int64_t> tokens;
  std::vector<GoldenPosition> positions;
};
inline Golden read_golden() {
  Golden golden;
  std::ifstream in(data_path("stories260k/golden_fp64.txt"));
  for (std::string line; std::getline(in, line);) {
    std::istringstream text(line);
    std::string word;
    text >> word;
    if (word == "tokens:")
      for (int64_t token; text >> token;) golden.tokens.push_back(token);
    if (word != "pos") continue;
    GoldenPosition p;
    int64_t at;
    text >> at >> word >> p.token >> word >> p.argmax >> word >> p.largest >> word >> p.first[0] >> p.first[1] >> p.first[2] >> p.first[3] >> word >> p.lse >> word >> p.next >> word >> p.nll;
    if (text) golden.positions.push_back(p);
  }
  return golden;
}

inline nn::LlamaConfig stories_config() {
  return {.vocab_size = 512, .hidden_size = 64, .intermediate_size = 172, .num_hidden_layers = 5, .num_attention_heads = 8, .num_key_value_heads = 4, .max_position_embeddings = 512,
          .tie_word_embeddings = true};
}

/// The two files that the trained weights come in: Hugging Face's directory and llama2.c's own.
inline const std::filesystem::path stories_files[] = {"stories260k", "stories260k/stories260K.bin"};

/// The trained weights in a model of another configuration or type.
inline std::unique_ptr<nn::Llama> stories_model(Dtype dtype = Dtype::f64, const nn::LlamaConfig& config = stories_config()) {
  auto model = std::make_unique<nn::Llama>(nn::root({.dtype = dtype}), config);
  NamedTensors state = load_safetensors(data_path("stories260k/model.safetensors").string());
  for (auto& [name, value] : state) value = cast(value, dtype);
  model->load(state);
  return model;
}

inline Tensor token_row(const std::vector<int64_t>& tokens) { return from(tokens, Shape{1, int64_t(tokens.size())}); }

/// Mean of −log p(next token) over the text's tokens.
inline double mean_nll(const nn::Llama& model, const std::vector<int64_t>& tokens) {
  const NoGrad quiet;
  return model.training_loss(nn::token_batch(token_row(tokens))).item();
}

}  // namespace spool::test
