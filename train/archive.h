#pragma once
// Reading compressed files whole. Errors are IoErrors that name the file.
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace spool::train {

enum class Packing { none, gzip, zip };
/// What a file is by its first bytes.
Packing packing_of(std::string_view start);

/// All members of a gzip file, one after the other. Throws if it is damaged or ends early.
std::vector<uint8_t> read_gzip(const std::filesystem::path& path);
/// The only member of a zip archive. Throws, naming the members, if there is not exactly one, and if it is damaged or encrypted.
std::vector<uint8_t> read_zip(const std::filesystem::path& path);

}  // namespace spool::train
