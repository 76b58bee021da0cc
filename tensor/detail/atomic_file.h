#pragma once
// A file that appears whole or not at all. Private to the library.
#include <cstddef>
#include <cstdint>
#include <string>

namespace spool::detail {

/// "No space left on device" for an errno.
std::string system_message(int error);

/// Writes beside `path`; `commit` puts the result there. Without it the destructor removes what was written.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);  ///< Throws IoError, as do the others, naming the path and the system's reason.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, int64_t count);
  /// Syncs the file, renames it to `path` and syncs the directory.
  void commit();

 private:
  [[noreturn]] void fail_with(const char* action, int error) const;
  std::string path_, temporary_;
  int file_ = -1;
};

}  // namespace spool::detail
