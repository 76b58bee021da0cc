#pragma once
// The JSON header of a safetensors file, read strictly and written. Private to the library.
#include <spool/tensor/safetensors.h>

namespace spool::detail {

struct SafetensorsHeader {
  std::vector<SafetensorsFile::Entry> entries;  ///< In the order of the text.
  SafetensorsMetadata metadata;
};

/// Reads a header that is followed by `data_bytes` bytes. Throws IoError, starting with `path`.
SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view text, int64_t data_bytes);

/// The header as text, padded with spaces so that 8 + its size is a multiple of 8. Throws IoError when text is not UTF-8.
std::string format_safetensors_header(const std::string& path, const SafetensorsHeader& header);

/// Throws IoError, starting with `path`, unless these tensors can be saved together (see save_safetensors).
void check_saveable(const std::string& path, const NamedTensors& tensors);

/// A name as one readable piece of a line: quoted, control characters replaced, long ones cut.
std::string shown(std::string_view name);

}  // namespace spool::detail
