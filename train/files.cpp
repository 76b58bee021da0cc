#include "train/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spool/tensor/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

namespace spool::train {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view marker = ".tmp-";

fs::path temporary_name(const fs::path& target) {
  static std::atomic<int> counter{0};
  fs::path name = target;
  return name += fmt::format("{}{}-{}", marker, ::getpid(), counter++);
}

// "dir/" has no file name: what is renamed must have one.
fs::path without_slash(fs::path path) { return path.has_filename() ? path : path.parent_path(); }
fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, std::string_view action) : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) fail_io(action, path, errno);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), size_t(1) << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_io("write", path_, errno);
      bytes.remove_prefix(size_t(n));
    }
  }
  // Some things have nothing to force (EINVAL): pipes, special files.
  void sync() {
    if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) fail_io("write", path_, errno);
  }
  void close() {
    if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail_io("write", path_, errno);
  }

 private:
  const fs::path path_;
  int fd_;
};

void sync_path(const fs::path& path, int flags) {
  Descriptor descriptor(path, flags, "open");
  descriptor.sync();
}

void sync_tree(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) sync_tree(entry.path());
    else if (entry.is_regular_file()) sync_path(entry.path(), O_RDONLY);
  }
  sync_path(directory, O_RDONLY | O_DIRECTORY);
}

// One system call where the file system can swap two names, else two renames.
void replace_directory(const fs::path& from, const fs::path& target) {
  if (::rename(from.c_str(), target.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail_io("rename to", target, errno);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    std::error_code ignored;
    fs::remove_all(from, ignored);
    return;
  }
  const fs::path old = temporary_name(target);
  if (::rename(target.c_str(), old.c_str()) != 0) fail_io("replace", target, errno);
  if (::rename(from.c_str(), target.c_str()) != 0) {
    const int error_number = errno;
    ::rename(old.c_str(), target.c_str());
    fail_io("rename to", target, error_number);
  }
  std::error_code ignored;
  fs::remove_all(old, ignored);
}

}  // namespace

void fail_io(std::string_view action, const fs::path& path, int error_number) {
  fail<IoError>(fmt::format("cannot {} {}: {}", action, path.string(), std::generic_category().message(error_number)));
}

void write_file(const fs::path& path, std::string_view bytes) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC, "create");
  file.write(bytes);
  file.sync();
  file.close();
}

void write_file_atomic(const fs::path& path, std::string_view bytes) {
  const fs::path temporary = temporary_name(path);
  try {
    write_file(temporary, bytes);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_io("rename to", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_path(parent_of(path), O_RDONLY | O_DIRECTORY);
}

std::string read_file(const fs::path& path) {
  Descriptor probe(path, O_RDONLY, "read");
  std::error_code error;
  if (fs::is_directory(path, error)) fail_io("read", path, EISDIR);
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) fail_io("read", path, EIO);
  return bytes;
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error)) fail_io("create directory", path, ENOTDIR);
  if (error) fail_io("create directory", path, error.value());
}

StagedDirectory::StagedDirectory(fs::path target) : target_(without_slash(std::move(target))), path_(temporary_name(target_)) {
  make_directories(parent_of(target_));
  if (::mkdir(path_.c_str(), 0777) != 0) fail_io("create directory", path_, errno);
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
    fail_io("read", e.path1(), e.code().value());
  }
  replace_directory(path_, target_);
  published_ = true;
  sync_path(parent_of(target_), O_RDONLY | O_DIRECTORY);
}

bool is_temporary(const fs::path& name) {
  const std::string text = name.filename().string();
  const size_t at = text.rfind(marker);
  return at != std::string::npos && at + marker.size() < text.size() &&
         text.find_first_not_of("0123456789-", at + marker.size()) == std::string::npos;
}

void remove_temporaries(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (is_temporary(it->path())) found.push_back(it->path());
  for (const fs::path& path : found) {
    fs::remove_all(path, error);
    if (error) fail_io("remove", path, error.value());
  }
}

}  // namespace spool::train
