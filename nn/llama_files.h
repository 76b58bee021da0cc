#pragma once
// LLaMA weights from and to the files that the field exchanges: Hugging Face directories and llama2.c's .bin.
#include <spool/nn/llama.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace spool::nn {

/// The configuration in a Hugging Face config.json (`path`: the file or its directory) of model type llama or mistral. Keys that do not
/// bear on the architecture are passed over (a null counts as absent); what this library cannot compute (another type or activation, biases,
/// quantization, an unknown rope_scaling) is an error that names the key. Newer files' rope_parameters and older ones' rope_theta with
/// rope_scaling are both read. sliding_window counts for mistral only and unless use_sliding_window is false, as in the reference. IoError
/// for a missing or malformed file, ConfigError for its content.
LlamaConfig read_llama_config(const std::filesystem::path& path);

struct LlamaFileOptions {
  std::optional<Dtype> dtype = {};  ///< Parameters are converted to it; default: the type they are stored in (f16 becomes f32).
  Device device = cpu;              ///< On meta only the configuration is read, and no weights.
};

/// A model from a Hugging Face directory (config.json with model.safetensors, or with model.safetensors.index.json and its shards) or a
/// llama2.c .bin file (the version without a magic number). Weights are read tensor by tensor, after all names, shapes and the file's size
/// were checked: one IoError lists everything missing, unexpected, or of another shape. Old files' rotary_emb.inv_freq is ignored. A
/// lm_head.weight beside tied embeddings must equal them bit for bit, else the file contradicts its configuration. Weights of several types
/// become f32 (f64 where there is any).
///
/// llama2.c's file, little-endian: int32 dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size (negative: not tied), seq_len; then f32
/// tok_embeddings, and of all layers rms_att, wq, wk, wv, wo, rms_ffn, w1 (gate), w2 (down), w3 (up); rms_final, two tables of rotary angles
/// (ignored), and the head where not tied. Epsilon is 1e-5, theta 10000. Its q and k rows are made for interleaved pairs; they are put in
/// the order for rotate-half, so that such a model is saved and compared like any other.
std::unique_ptr<Llama> load_llama(const std::filesystem::path& path, const LlamaFileOptions& options = {});

/// Tokens that generation needs to know and the model does not.
struct LlamaTokens {
  std::optional<int64_t> begin = {};
  std::vector<int64_t> end = {};
};

/// Writes config.json, generation_config.json and model.safetensors (shards with an index above `shard_bytes`) so that Hugging Face
/// transformers loads them. A model with interleaved rotary pairs is written with its q and k rows permuted to rotate-half, ntk scaling as
/// the larger theta that it is, dynamic scaling's original length as max_position_embeddings, from which the reference counts, and a sliding
/// window as model type mistral. The directory appears whole or not at all, and replaces one that was there.
void save_llama(const Llama& model, const std::filesystem::path& directory, int64_t shard_bytes = int64_t(5) << 30, const LlamaTokens& tokens = {});

}  // namespace spool::nn
