#include <spool/tensor/detail/atomic_file.h>
#include <spool/tensor/error.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace spool::detail {

std::string system_message(int error) { return std::generic_category().message(error); }

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  static std::atomic<uint64_t> count = 0;
  temporary_ = concat(path_, ".tmp-", int64_t(::getpid()), "-", ++count);
  // O_EXCL: a name that someone else uses, or a link laid there, is not followed.
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail_with("create", errno);
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail_with(const char* action, int error) const {
  fail<IoError>(path_, ": cannot ", action, " the file: ", system_message(error), "; what was there before is unchanged");
}

void AtomicFile::write(const void* bytes, int64_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  while (count > 0) {
    const auto done = ::write(file_, from, size_t(std::min<int64_t>(count, int64_t(1) << 30)));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with("write", errno);
    from += done;
    count -= done;
  }
}

void AtomicFile::commit() {
  if (::fsync(file_) != 0) fail_with("write", errno);
  // Some file systems report a full disk only here.
  if (::close(std::exchange(file_, -1)) != 0) fail_with("write", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_with("replace", errno);
  temporary_.clear();
  const auto slash = path_.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int handle = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;  // a directory that may be written but not read cannot be synced
  const int error = ::fsync(handle) == 0 ? 0 : errno;
  ::close(handle);
  if (error != 0 && error != EINVAL && error != ENOTSUP)
    fail<IoError>(path_, ": written, but its directory cannot be synced: ", system_message(error));
}

}  // namespace spool::detail
