#pragma once
// Checkpoints in one safetensors file or in several. The index of several, by convention model.safetensors.index.json beside its shards:
//
//   {"metadata": {"total_size": BYTES, …}, "weight_map": {"NAME": "model-00001-of-00002.safetensors", …}}
//
// Source: what github.com/huggingface/huggingface_hub and transformers write and read. Where they leave a choice:
//   * the tensors are those of the weight_map; others that a shard may hold are passed over;
//   * a name given twice is refused, as are files outside of the index's directory ("../x", "/x"); links inside it are followed;
//   * metadata are passed over: nothing depends on them.
#include <spool/tensor/safetensors.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace spool {

class SafetensorsShards {
 public:
  /// A safetensors file; an index (a name that ends in .json); or a directory with model.safetensors or, without that, with
  /// model.safetensors.index.json. Opens every shard and reads the headers only. IoError in one line: a shard that is missing or malformed, a
  /// tensor that its shard does not hold, a malformed index.
  explicit SafetensorsShards(const std::string& path);

  const std::string& path() const;  ///< The file or the index.
  /// Names in the order of the shards' headers, shards in the order of their names.
  const std::vector<std::string>& names() const;
  bool contains(std::string_view name) const;
  const SafetensorsFile& file(std::string_view name) const;  ///< The file that holds a tensor. Throws IoError when none does.
  Meta meta(std::string_view name) const;                    ///< Type and shape, of which no byte of the tensor need be read.

  Tensor view(std::string_view name) const;  ///< On mapped bytes, see SafetensorsFile::view.
  Tensor read(std::string_view name) const;  ///< A copy, see SafetensorsFile::read.

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

/// Writes model.safetensors into a directory that exists; or, when the tensors take more than `shard_bytes`, shards of at most that many
/// bytes of data, filled in the order given, and then the index. A tensor that is larger has a shard of its own. Throws as
/// `save_safetensors`, and ConfigError for shard_bytes < 1. Files of an earlier checkpoint there are not removed: use a fresh directory.
void save_safetensors_shards(const std::string& directory, const NamedTensors& tensors, int64_t shard_bytes, const SafetensorsMetadata& metadata = {});

}  // namespace spool
