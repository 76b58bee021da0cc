#include <spool/tensor/detail/atomic_file.h>
#include <spool/tensor/detail/staged_directory.h>
#include <spool/tensor/error.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

namespace spool::detail {
namespace fs = std::filesystem;
namespace {

// "dir/" has no file name: what is renamed must have one.
fs::path without_slash(fs::path path) { return path.has_filename() ? path : path.parent_path(); }
fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error)) fail_system("create directory", path, ENOTDIR);
  if (error) fail_system("create directory", path, error.value());
}

void sync_tree(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) sync_tree(entry.path());
    else if (entry.is_regular_file()) sync_path(entry.path());
  }
  sync_path(directory);
}

// One system call where the file system can swap two names, else two renames.
void replace_directory(const fs::path& from, const fs::path& target) {
  if (::rename(from.c_str(), target.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail_system("rename to", target, errno);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    std::error_code ignored;
    fs::remove_all(from, ignored);
    return;
  }
  const fs::path old = temporary_name(target);
  if (::rename(target.c_str(), old.c_str()) != 0) fail_system("replace", target, errno);
  if (::rename(from.c_str(), target.c_str()) != 0) {
    const int error_number = errno;
    ::rename(old.c_str(), target.c_str());
    fail_system("rename to", target, error_number);
  }
  std::error_code ignored;
  fs::remove_all(old, ignored);
}

}  // namespace

void fail_system(std::string_view action, const fs::path& path, int error_number) {
  fail<IoError>("cannot ", action, " ", path.string(), ": ", system_message(error_number));
}

fs::path temporary_name(const fs::path& target) {
  static std::atomic<int> counter{0};
  fs::path name = target;
  return name += concat(temporary_marker, int64_t(::getpid()), "-", counter++);
}

void sync_path(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail_system("open", path, errno);
  const int error = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  // Some things have nothing to force (EINVAL): pipes, special files.
  if (error && error != EINVAL && error != EROFS) fail_system("write", path, error);
}

StagedDirectory::StagedDirectory(fs::path target) : target_(without_slash(std::move(target))), path_(temporary_name(target_)) {
  make_directories(parent_of(target_));
  if (::mkdir(path_.c_str(), 0777) != 0) fail_system("create directory", path_, errno);
}

StagedDirectory::~StagedDirectory() {
  if (published_) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void StagedDirectory::publish() {
  try {
    sync_tree(path_);
  } catch (const fs::filesystem_error& e) {
    fail_system("read", e.path1(), e.code().value());
  }
  replace_directory(path_, target_);
  published_ = true;
  sync_path(parent_of(target_));
}

}  // namespace spool::detail
