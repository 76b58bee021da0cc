// The index of a checkpoint in several files: no file that is accepted lies outside of the index's directory.
#include <spool/tensor/detail/safetensors_index.h>

#include <filesystem>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spool;
  detail::WeightMap weights;
  if (!fuzz::accepts("file", [&] { weights = detail::parse_safetensors_index("file", fuzz::text_of(data, size)); })) return 0;
  for (const auto& [name, file] : weights) {
    const auto path = (std::filesystem::path("/a/b") / file).lexically_normal().string();
    fuzz::require(path.starts_with("/a/b/") && path.size() > 5, "a shard outside of the directory");
  }
  return 0;
}
