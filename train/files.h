#pragma once
// Writing files so that a reader never sees half of one: everything is written under a temporary name, forced to the disk, and renamed.
// Every failure is an IoError that names the path and what the system said ("No space left on device"), and leaves what was there before.
#include <spool/tensor/detail/staged_directory.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace spool::train {

/// Throws IoError "cannot <action> PATH: <reason of the error number>".
[[noreturn]] void fail_io(std::string_view action, const std::filesystem::path& path, int error_number);

/// Creates or replaces a file and forces it to the disk. Not atomic: for files in a StagedDirectory.
void write_file(const std::filesystem::path& path, std::string_view bytes);
/// The same through a temporary name and a rename: a reader sees the old or the new file. A device or a pipe is written to as it stands.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);
/// The whole file.
std::string read_file(const std::filesystem::path& path);
/// mkdir -p.
void make_directories(const std::filesystem::path& path);

/// A directory in the making, published whole: see <spool/tensor/detail/staged_directory.h>.
using StagedDirectory = spool::detail::StagedDirectory;

/// Whether a name is one of those temporary ones ("step-100.tmp-4711-0"): never to be taken for a checkpoint.
bool is_temporary(const std::filesystem::path& name);
/// Removes what an interrupted process left in a directory. Only for the one process that writes there.
void remove_temporaries(const std::filesystem::path& directory);

}  // namespace spool::train
