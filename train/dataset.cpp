#include "train/dataset.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::train {
namespace {
constexpr int64_t copy_validation_sequences = 64;
}

Dataset Dataset::open(const DataConfig& data, uint64_t seed, int64_t eval_windows, const std::filesystem::path& source_dir) {
  Dataset set;
  set.config_ = data;
  set.seed_ = seed;
  if (data.task == Task::copy) {
    set.validation_ = fixed_windows(eval_windows > 0 ? eval_windows : copy_validation_sequences, 0);
    set.name_ = "copying task";
    set.note_ = fmt::format("synthetic: {} bytes, then the same again; the second half counts", data.seq / 2);
    return set;
  }
  if (data.path.empty()) {
    auto found = open_default_corpus(".", source_dir);
    set.corpus_ = std::move(found.corpus);
    set.notice_ = std::move(found.notice);
  } else {
    set.corpus_ = open_corpus(data.path);
  }
  set.name_ = set.corpus_->name();
  set.note_ = set.corpus_->note();
  set.train_windows_.emplace(set.corpus_, set.corpus_->split().train, data.batch * data.seq, "training");
  set.shuffled_windows_.emplace(set.corpus_, set.corpus_->split().train, data.seq, RandomKey(seed).fold("data.order"), "training");
  set.validation_windows_.emplace(set.corpus_, set.corpus_->split().validation, data.seq, "validation");
  set.validation_ = fixed_windows(set.validation_windows_->count(), eval_windows);
  return set;
}

Batch Dataset::empty_batch(int64_t rows) const {
  const bool copy = config_.task == Task::copy;
  Batch out{.rows = rows, .seq = config_.seq, .tokens = std::vector<uint8_t>(size_t(rows * config_.seq))};
  out.scored = rows * (copy ? config_.seq / 2 : config_.seq - 1);
  if (!copy) return out;
  out.mask.resize(out.tokens.size());
  for (size_t i = 0; i < out.mask.size(); ++i) out.mask[i] = int64_t(i) % config_.seq >= config_.seq / 2;
  return out;
}

Batch Dataset::train(int64_t step) const {
  Batch out = empty_batch(config_.batch);
  if (config_.task == Task::text && config_.order == Order::shuffled) {
    for (int64_t row = 0; row < out.rows; ++row) shuffled_windows_->read(step * out.rows + row, out.row(row));
  } else if (config_.task == Task::text) {
    train_windows_->read(step, out.tokens);
  } else {
    for (int64_t row = 0; row < out.rows; ++row) copy_sequence(seed_, "train", step, row, out.row(row));
  }
  return out;
}

Batch Dataset::validation(int64_t first, int64_t rows) const {
  if (first < 0 || rows < 1 || first >= validation_count())
    fail<IndexError>("validation: asked for ", rows, " sequences from ", first, " of ", validation_count());
  Batch out = empty_batch(std::min(rows, validation_count() - first));
  for (int64_t row = 0; row < out.rows; ++row) {
    const int64_t window = validation_[size_t(first + row)];
    if (config_.task == Task::text) validation_windows_->read(window, out.row(row));
    else copy_sequence(seed_, "validation", window, 0, out.row(row));
  }
  return out;
}

int64_t Dataset::bytes_per_epoch() const { return train_windows_ ? train_windows_->count() * train_windows_->window() : 0; }

}  // namespace spool::train
