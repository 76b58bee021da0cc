#pragma once
// A directory that appears whole or not at all. Private to the library.
#include <filesystem>
#include <string_view>

namespace spool::detail {

/// Throws IoError "cannot <action> PATH: <reason of the error number>".
[[noreturn]] void fail_system(std::string_view action, const std::filesystem::path& path, int error_number);

/// A name beside `target` that nothing else uses: "target.tmp-4711-0".
std::filesystem::path temporary_name(const std::filesystem::path& target);
inline constexpr std::string_view temporary_marker = ".tmp-";

/// Forces a file or a directory's entries to the disk.
void sync_path(const std::filesystem::path& path);

/// A directory in the making, beside the one it is to become. Files are put into `path()` by whatever means; `publish()` forces them to the
/// disk and gives the directory its name, replacing one that has it already. Without publish, or if that fails, it is removed.
class StagedDirectory {
 public:
  explicit StagedDirectory(std::filesystem::path target);
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void publish();

 private:
  std::filesystem::path target_, path_;
  bool published_ = false;
};

}  // namespace spool::detail
