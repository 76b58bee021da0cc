// The header of a safetensors file: the first eight bytes of the input are the file's own length field. What is accepted must describe bytes
// that exist, and must come back from the writer's header.
#include <spool/tensor/detail/safetensors_header.h>

#include <cstring>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spool;
  const std::string_view file = fuzz::text_of(data, size);
  if (size < 8) return 0;
  uint64_t length = 0;
  std::memcpy(&length, data, 8);
  length = std::min<uint64_t>(length, size - 8);
  const auto data_bytes = int64_t(size - 8 - length);
  detail::SafetensorsHeader header;
  if (!fuzz::accepts("file", [&] { header = detail::parse_safetensors_header("file", file.substr(8, length), data_bytes); })) return 0;
  int64_t total = 0;
  for (const auto& entry : header.entries) {
    fuzz::require(entry.offset >= 0 && entry.bytes >= 0 && entry.offset + entry.bytes <= data_bytes, "a tensor outside of the data");
    fuzz::require(numel(entry.shape) * int64_t(dtype_size(entry.dtype)) == entry.bytes, "a tensor whose shape takes another number of bytes");
    total += entry.bytes;
  }
  fuzz::require(total == data_bytes, "tensors that do not cover the data");
  const std::string text = detail::format_safetensors_header("file", header);
  const detail::SafetensorsHeader again = detail::parse_safetensors_header("file", text, data_bytes);
  fuzz::require(again.metadata == header.metadata && again.entries.size() == header.entries.size(), "a header that does not come back");
  for (size_t i = 0; i < again.entries.size(); ++i)
    fuzz::require(again.entries[i].name == header.entries[i].name && again.entries[i].shape == header.entries[i].shape, "an entry that does not come back");
  return 0;
}
