#pragma once
// What a run learns from, as batches. The batch of training step n is a pure function of the configuration and n, so that a resumed run sees
// the same batches without any saved state.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/config.h"
#include "train/windows.h"

namespace spool::train {

/// Sequences side by side. The model reads tokens 0 … seq−2 of each and is asked for tokens 1 … seq−1.
struct Batch {
  int64_t rows = 0, seq = 0;
  std::vector<int32_t> tokens;  ///< [rows, seq]
  std::vector<uint8_t> mask;    ///< [rows, seq], 1 where a token counts as a target; empty if all but each row's first do.
  int64_t scored = 0;           ///< Targets that count.
  int64_t bytes = 0;            ///< Bytes of text that those stand for.
  bool narrow = true;           ///< Tokens are bytes, for u8 tensors; otherwise i32.
  std::span<int32_t> row(int64_t i) { return std::span(tokens).subspan(size_t(i * seq), size_t(seq)); }
  Batch slice(int64_t first, int64_t n) const;  ///< Rows [first, first + n); `scored` and `bytes` stay those of the whole.
};

/// What a dataset is made of besides [data].
struct DatasetOptions {
  uint64_t seed = 42;
  int64_t eval_windows = 0;          ///< Validation sequences; 0: all.
  std::filesystem::path source_dir;  ///< Where the project's own text is, for want of data.
  int64_t accumulate = 1;            ///< Micro-batches a step.
  TokenizerPtr tokenizer = {};       ///< Null: bytes.
};

class Dataset {
 public:
  /// Opens the data of a configuration, or the default ones if it names none (see open_default_corpus). A relative path is looked up in
  /// the working directory. Fails if the training part is shorter than one step or the validation part shorter than one sequence.
  static Dataset open(const DataConfig& data, const DatasetOptions& options);

  /// The sequences of step n, all its micro-batches: text in order, neighbouring sequences at a time, from the start again after the last;
  /// or shuffled; or fresh copying sequences.
  Batch train(int64_t step) const;

  /// Validation sequences: a fixed set, evenly spread over the part.
  int64_t validation_count() const { return int64_t(validation_.size()); }
  /// Rows [first, first + rows) of the set; fewer at its end.
  Batch validation(int64_t first, int64_t rows) const;

  const std::string& name() const { return name_; }      ///< Path of the data, or "copying task".
  const std::string& note() const { return note_; }      ///< Sizes, split, in one line.
  const std::string& notice() const { return notice_; }  ///< Something the user should read, or empty.
  const CorpusPtr& corpus() const { return corpus_; }    ///< Null for the copying task.
  const TokenBytes& token_bytes() const { return lengths_; }
  int64_t tokens_per_epoch() const;                      ///< Training tokens until the data repeat; 0 for the copying task.

 private:
  explicit Dataset(const TokenizerPtr& tokenizer) : lengths_(tokenizer) {}
  Batch empty_batch(int64_t rows) const;

  DataConfig config_;
  DatasetOptions options_;
  CorpusPtr corpus_;
  TokenBytes lengths_;
  std::optional<Windows> train_windows_, validation_windows_;
  std::optional<ShuffledWindows> shuffled_windows_;
  std::vector<int64_t> validation_;  // windows of the set
  std::string name_, note_, notice_;
};

}  // namespace spool::train
