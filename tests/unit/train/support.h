#pragma once
// What the trainer's tests share.
#include <gtest/gtest.h>
#include <spool/tensor/error.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "train/dataset.h"

namespace spool::train::testing {
namespace fs = std::filesystem;

/// What the trainer would open a run's data with, and four validation sequences.
inline DatasetOptions options_of(const RunConfig& config, TokenizerPtr tokenizer = {}) {
  return {.seed = uint64_t(config.train.seed), .eval_windows = 4, .source_dir = SPOOL_SOURCE_DIR, .accumulate = config.train.accumulate, .tokenizer = std::move(tokenizer)};
}

/// A directory that lives as long as a test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static std::atomic<int> counter{0};
    path_ = fs::temp_directory_path() / ("spool-train-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    fs::create_directories(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  fs::path operator/(std::string_view name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  /// Writes a file, making its directories.
  fs::path write(std::string_view name, std::string_view bytes) const {
    const fs::path file = path_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }

 private:
  fs::path path_;
};

/// The message of the error that `f` throws; fails unless it is an E of one line.
template <class E, class F> std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    EXPECT_EQ(std::string_view(e.what()).find('\n'), std::string_view::npos) << e.what();
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another error: " << e.what();
    return "";
  }
  ADD_FAILURE() << "nothing thrown";
  return "";
}

/// Without the right to read everything: a superuser acts as nobody while this lives.
class OrdinaryUser {
 public:
  OrdinaryUser() {
    if (::geteuid() == 0) changed_ = ::seteuid(65534) == 0;
  }
  ~OrdinaryUser() {
    if (changed_ && ::seteuid(0) != 0) std::abort();
  }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;
  bool works() const { return ::geteuid() != 0; }

 private:
  bool changed_ = false;
};

/// Names in a directory, sorted.
inline std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(directory)) out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace spool::train::testing
