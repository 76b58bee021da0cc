#pragma once
// The index of a checkpoint in several files, read strictly and written. Private to the library.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spool::detail {

/// Names and the files that hold them.
using WeightMap = std::vector<std::pair<std::string, std::string>>;

/// Throws IoError, starting with `path`. Every file is a path that stays below its directory.
WeightMap parse_safetensors_index(const std::string& path, std::string_view text);
std::string format_safetensors_index(const WeightMap& weights, int64_t total_bytes);

/// A file of at most `limit` bytes. Throws IoError; nothing is allocated for a larger one.
std::string read_text_file(const std::string& path, int64_t limit);

}  // namespace spool::detail
