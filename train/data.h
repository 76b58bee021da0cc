#pragma once
// Bytes to learn from: where they come from and how they are split. Nothing is decoded and no line ending is translated. Errors are IoErrors in
// one line, with the path and the sizes.
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spool::train {

/// A part of a corpus, in bytes.
struct Part {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Part&) const = default;
};
struct Split {
  Part train, validation, test;
};

/// 90 / 5 / 5 per cent, rounded down; the test part takes the rest.
Split proportional_split(int64_t size);
/// The split of the literature: the first 90,000,000 bytes, the next 5,000,000 and the 5,000,000 after (or what there is of them).
Split enwik8_split(int64_t size);
/// Whether a file is enwik8: 100,000,000 bytes, or at least 95,000,000 and the name says so (extensions aside).
bool is_enwik8(const std::filesystem::path& path, int64_t size);

/// A read-only sequence of bytes. A plain file stays on the disk (the system's cache holds what is used) and is read by position: mapping
/// it would end in a signal if someone shortens it, while a read that comes up short is an error that says so. Compressed files
/// and directories are held in memory. May be read by several threads.
class Corpus {
 public:
  virtual ~Corpus() = default;
  /// Copies bytes [offset, offset + out.size()). Throws IoError if they are no longer there.
  virtual void read(int64_t offset, std::span<uint8_t> out) const = 0;

  int64_t size() const { return size_; }
  const std::string& name() const { return name_; }   ///< The path, for messages and reports.
  const Split& split() const { return split_; }
  const std::string& note() const { return note_; }   ///< How it was split and what it is made of, in words.

 protected:
  Corpus(std::string name, int64_t size) : name_(std::move(name)), size_(size) {}
  std::string name_, note_;
  int64_t size_ = 0;
  Split split_;
  friend struct CorpusMaker;
};
using CorpusPtr = std::shared_ptr<const Corpus>;

/// A corpus from
///   - a plain file;
///   - a gzip file, or a zip archive with exactly one member (both told by their first bytes);
///   - a directory: its text files (no zero byte near the start), hidden ones and links to directories left out, in order of their paths. If
///     the names of two say that they are the training and the validation part (as in ptb.train.txt, ptb.valid.txt), the split follows that.
/// Refuses what is missing, unreadable, empty, damaged, or a git-lfs pointer instead of the data.
CorpusPtr open_corpus(const std::filesystem::path& path);
/// Bytes at hand as a corpus.
CorpusPtr memory_corpus(std::string name, std::vector<uint8_t> bytes);

/// What to learn from if nobody said: data/enwik8, .zip or .gz below the working directory or the source tree, else the project's own text
/// files, and then `notice` says where to get enwik8.
struct DefaultCorpus {
  CorpusPtr corpus;
  std::string notice;  ///< Empty if enwik8 was found.
};
DefaultCorpus open_default_corpus(const std::filesystem::path& working_dir, const std::filesystem::path& source_dir);

}  // namespace spool::train
