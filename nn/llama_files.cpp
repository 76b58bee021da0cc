#include <spool/nn/detail/llama_files.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/detail/atomic_file.h>
#include <spool/tensor/detail/safetensors_header.h>
#include <spool/tensor/detail/safetensors_index.h>
#include <spool/tensor/detail/staged_directory.h>
#include <spool/tensor/error.h>
#include <spool/tensor/safetensors_shards.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace spool::nn {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view head_name = "lm_head.weight", table_name = "model.embed_tokens.weight";

/// A model without weights, and without a trace on the ledger.
std::unique_ptr<Llama> outline(const LlamaConfig& config) {
  const With quiet(&Ambient::ledger, std::make_shared<Ledger>());
  return std::make_unique<Llama>(root({.device = meta()}), config);
}

/// Names that a file of this configuration may hold and a model has no place for.
bool passed_over(const std::string& name, const LlamaConfig& config) {
  return name.ends_with("rotary_emb.inv_freq") || (config.tie_word_embeddings && name == head_name);
}

void check_fit(const SafetensorsShards& files, const LlamaConfig& config) {
  std::string problems;
  std::unordered_set<std::string> own;
  for (const auto& [name, tensor] : outline(config)->named_parameters()) {
    own.insert(name);
    if (!files.contains(name)) {
      problems += concat("; missing ", name, " ", tensor.shape());
      continue;
    }
    const Meta there = files.meta(name);
    if (there.shape != tensor.shape()) problems += concat("; ", name, " is ", tensor.shape(), " by config.json and ", there.shape, " there");
    else if (!is_float(there.dtype)) problems += concat("; ", name, " is of type ", dtype_name(there.dtype), " there");
  }
  for (const std::string& name : files.names())
    if (!own.contains(name) && !passed_over(name, config)) problems += concat("; unexpected ", spool::detail::shown(name), " ", to_string(files.meta(name)));
  if (!problems.empty()) fail<IoError>(files.path(), ": the weights do not fit the configuration", problems);
  if (!config.tie_word_embeddings || !files.contains(head_name)) return;
  const Tensor head = files.view(head_name), table = files.view(table_name);
  if (meta_of(head) != meta_of(table) || std::memcmp(head.raw(), table.raw(), size_t(head.nbytes())) != 0)
    fail<IoError>(files.path(), ": lm_head.weight differs from model.embed_tokens.weight, though config.json says tie_word_embeddings; set it to false");
}

Dtype stored_type(const SafetensorsShards& files, const LlamaConfig& config) {
  std::optional<Dtype> common;
  for (const std::string& name : files.names()) {
    if (passed_over(name, config)) continue;
    const Dtype type = files.meta(name).dtype;
    if (!common) common = type;
    else if (*common != type) common = *common == Dtype::f64 || type == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  }
  return common == Dtype::f16 ? Dtype::f32 : common.value_or(Dtype::f32);
}

void write_text(const fs::path& path, const std::string& text) {
  spool::detail::AtomicFile file(path.string());
  file.write(text.data(), int64_t(text.size()));
  file.commit();
}

}  // namespace

Tensor detail::rotate_half_order(const Tensor& weight, int64_t heads) {
  const int64_t in = weight.size(1), half = weight.size(0) / heads / 2;
  return weight.view_as({heads, 2, half, in}, {2 * half * in, in, 2 * in, 1}, weight.offset());
}

std::unique_ptr<Llama> load_llama(const fs::path& path, const LlamaFileOptions& options) {
  std::error_code error;
  if (!fs::exists(path, error)) fail<IoError>(path.string(), ": there is no such file or directory");
  if (!fs::is_directory(path, error)) {
    if (path.extension() != ".bin") fail<IoError>(path.string(), ": is neither a directory nor a .bin file of llama2.c; give the directory that holds config.json");
    return detail::load_llama2c(path.string(), options);
  }
  const std::string config_path = (path / "config.json").string();
  constexpr int64_t largest_config = int64_t(16) << 20;
  const detail::LlamaConfigFile file = detail::parse_llama_config(config_path, spool::detail::read_text_file(config_path, largest_config));
  if (options.device.meta) return std::make_unique<Llama>(root({.dtype = options.dtype.value_or(file.dtype), .device = options.device}), file.config);
  const SafetensorsShards files(path.string());
  check_fit(files, file.config);
  const Dtype dtype = options.dtype ? *options.dtype : stored_type(files, file.config);
  auto out = std::make_unique<Llama>(root({.dtype = dtype, .device = options.device, .initialise = false}), file.config);
  const With op(&Ambient::op, "load");
  for (const auto& [name, tensor] : out->named_parameters()) copy(tensor, files.view(name));
  return out;
}

void save_llama(const Llama& model, const fs::path& directory, int64_t shard_bytes, const LlamaTokens& tokens) {
  const LlamaConfig& config = model.config();
  NamedTensors state = model.named_parameters();
  if (config.rope_interleaved) {
    for (auto& [name, tensor] : state) {
      const bool queries = name.ends_with("q_proj.weight");
      if (!queries && !name.ends_with("k_proj.weight")) continue;
      const Tensor ordered = contiguous_copy(detail::rotate_half_order(tensor, queries ? config.num_attention_heads : config.key_value_heads()));
      tensor = ordered.view_as(tensor.shape(), contiguous_strides(tensor.shape()), 0);
    }
  }
  spool::detail::StagedDirectory staged(directory);
  save_safetensors_shards(staged.path().string(), state, shard_bytes, {{"format", "pt"}});
  const Dtype dtype = model.model.embed_tokens.weight.value.dtype();
  write_text(staged.path() / "config.json", detail::format_llama_config(config, dtype, tokens));
  write_text(staged.path() / "generation_config.json", detail::format_generation_config(tokens));
  staged.publish();
}

}  // namespace spool::nn
