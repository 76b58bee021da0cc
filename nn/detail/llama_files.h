#pragma once
// Parts of llama_files.cpp. Private to the library.
#include <spool/nn/llama_files.h>

#include <string>

namespace spool::nn::detail {

/// A configuration, and what else config.json says of the weights.
struct LlamaConfigFile {
  LlamaConfig config;
  Dtype dtype = Dtype::f32;  ///< torch_dtype or dtype; f16 is given as f32, in which it is computed.
};
LlamaConfigFile parse_llama_config(const std::string& name, std::string_view text);
/// config.json and generation_config.json of a model with rotate-half pairs.
std::string format_llama_config(const LlamaConfig& config, Dtype dtype, const LlamaTokens& tokens);
std::string format_generation_config(const LlamaTokens& tokens);

/// The rows of a weight [heads · d, in] made for interleaved pairs, in the order for rotate-half: row 2j + i of a head goes to i · d/2 + j.
/// A view [heads, 2, d/2, in].
Tensor rotate_half_order(const Tensor& weight, int64_t heads);

std::unique_ptr<Llama> load_llama2c(const std::string& name, const LlamaFileOptions& options);

}  // namespace spool::nn::detail
