#include <spool/tensor/detail/atomic_file.h>
#include <spool/tensor/detail/safetensors_header.h>
#include <spool/tensor/detail/safetensors_index.h>
#include <spool/tensor/error.h>
#include <spool/tensor/safetensors_shards.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace spool {
namespace {

namespace fs = std::filesystem;
constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

fs::path file_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {single_name, index_name})
    if (fs::exists(path / name, error)) return path / name;
  fail<IoError>(path.string(), ": holds neither ", single_name, " nor ", index_name);
}

}  // namespace

struct SafetensorsShards::Contents {
  explicit Contents(const fs::path& file) : path(file.string()) {
    if (file.extension() != ".json") {
      files.emplace_back(path);
      for (const auto& entry : files[0].entries()) add(entry.name, 0);
      return;
    }
    const detail::WeightMap weights = detail::parse_safetensors_index(path, detail::read_text_file(path, max_safetensors_header));
    std::map<std::string, std::vector<const std::string*>> shards;
    for (const auto& [name, shard] : weights) shards[shard].push_back(&name);
    for (const auto& [shard, names_there] : shards) open(file.parent_path() / shard, shard, names_there);
  }

  void open(const fs::path& shard, const std::string& shard_name, const std::vector<const std::string*>& listed) {
    std::error_code error;
    if (!fs::exists(shard, error)) fail<IoError>(path, ": the shard ", detail::shown(shard_name), " is missing beside it; fetch it too");
    const SafetensorsFile& opened = files.emplace_back(shard.string());
    std::unordered_set<std::string_view> wanted;
    for (const std::string* name : listed) wanted.insert(*name);
    for (const std::string* name : listed)
      if (!opened.contains(*name)) fail<IoError>(path, ": tensor ", detail::shown(*name), " is not in ", detail::shown(shard_name), ", where the index says it is");
    for (const auto& entry : opened.entries())
      if (wanted.contains(entry.name)) add(entry.name, files.size() - 1);
  }

  void add(const std::string& name, size_t file) {
    names.push_back(name);
    where.emplace(name, file);
  }

  std::string path;
  std::vector<SafetensorsFile> files;
  std::vector<std::string> names;
  std::unordered_map<std::string, size_t> where;
};

SafetensorsShards::SafetensorsShards(const std::string& path) : contents_(std::make_shared<const Contents>(file_of(path))) {}

const std::string& SafetensorsShards::path() const { return contents_->path; }
const std::vector<std::string>& SafetensorsShards::names() const { return contents_->names; }
bool SafetensorsShards::contains(std::string_view name) const { return contents_->where.contains(std::string(name)); }

const SafetensorsFile& SafetensorsShards::file(std::string_view name) const {
  const auto it = contents_->where.find(std::string(name));
  if (it == contents_->where.end()) fail<IoError>(path(), ": no tensor ", detail::shown(name), " among the ", int64_t(names().size()), " of this checkpoint");
  return contents_->files[it->second];
}

Meta SafetensorsShards::meta(std::string_view name) const {
  const auto& entry = file(name).entry(name);
  return {entry.shape, entry.dtype};
}
Tensor SafetensorsShards::view(std::string_view name) const { return file(name).view(name); }
Tensor SafetensorsShards::read(std::string_view name) const { return file(name).read(name); }

void save_safetensors_shards(const std::string& directory, const NamedTensors& tensors, int64_t shard_bytes, const SafetensorsMetadata& metadata) {
  if (shard_bytes < 1) fail<ConfigError>("shard_bytes: must be at least 1, got ", shard_bytes);
  const fs::path root(directory);
  detail::check_saveable((root / index_name).string(), tensors);
  std::vector<NamedTensors> shards(1);
  int64_t filled = 0, total = 0;
  for (const auto& item : tensors) {
    const int64_t bytes = item.second.nbytes();
    if (!shards.back().empty() && bytes > shard_bytes - filled) shards.emplace_back(), filled = 0;
    shards.back().push_back(item);
    filled += bytes, total += bytes;
  }
  if (shards.size() == 1) return save_safetensors((root / single_name).string(), tensors, metadata);
  detail::WeightMap weights;
  for (size_t i = 0; i < shards.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    save_safetensors((root / name).string(), shards[i], metadata);
    for (const auto& [tensor_name, tensor] : shards[i]) weights.emplace_back(tensor_name, name);
  }
  const std::string index = detail::format_safetensors_index(weights, total);
  detail::AtomicFile file((root / index_name).string());
  file.write(index.data(), int64_t(index.size()));
  file.commit();
}

}  // namespace spool
