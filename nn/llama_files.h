#pragma once
// LLaMA weights from and to the files that the field exchanges: Hugging Face directories and llama2.c's .bin.
#include <spool/nn/llama.h>

#include <filesystem>
#include <memory>

namespace spool::nn {

/// The configuration in a Hugging Face config.json (`path`: the file or its directory) of model type llama or mistral. Keys that do not
/// bear on the architecture are passed over; what this library cannot compute (another type or activation, biases, an unknown
/// rope_scaling) is an error that names the key. IoError for a missing or malformed file, ConfigError for its content.
LlamaConfig read_llama_config(const std::filesystem::path& path);

struct LlamaFileOptions {
  std::optional<Dtype> dtype = {};  ///< Parameters are converted to it; default: the type they are stored in (f16 becomes f32).
  Device device = cpu;              ///< On meta only the configuration is read, and no weights.
};

/// A model from a Hugging Face directory (config.json with model.safetensors, or with model.safetensors.index.json and its shards) or a
/// llama2.c .bin file. Weights are read tensor by tensor. Old files' rotary_emb.inv_freq is ignored. One IoError lists everything missing,
/// unexpected, or of another shape.
std::unique_ptr<Llama> load_llama(const std::filesystem::path& path, const LlamaFileOptions& options = {});

/// Writes config.json, generation_config.json and model.safetensors (shards with an index above `shard_bytes`) so that Hugging Face
/// transformers loads them. A model with interleaved rotary pairs is written with its q and k rows permuted to rotate-half. The directory
/// appears whole or not at all.
void save_llama(const Llama& model, const std::filesystem::path& directory, int64_t shard_bytes = int64_t(5) << 30);

}  // namespace spool::nn
