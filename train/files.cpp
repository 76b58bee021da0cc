#include "train/files.h"

#include <fcntl.h>
#include <spool/tensor/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

namespace spool::train {
namespace fs = std::filesystem;
namespace {

using spool::detail::sync_path;
using spool::detail::temporary_name;
constexpr std::string_view marker = spool::detail::temporary_marker;

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

}  // namespace

void fail_io(std::string_view action, const fs::path& path, int error_number) {
  spool::detail::fail_system(action, path, error_number);
}

void write_file(const fs::path& path, std::string_view bytes) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC, "create");
  file.write(bytes);
  file.sync();
  file.close();
}

void write_file_atomic(const fs::path& path, std::string_view bytes) {
  std::error_code unknown;
  const fs::file_status there = fs::status(path, unknown);
  if (fs::is_other(there)) return write_file(path, bytes);  // a rename would put a file in the place of /dev/stdout
  const fs::path temporary = temporary_name(path);
  try {
    write_file(temporary, bytes);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_io("rename to", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_path(parent_of(path));
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
