#include "train/dataset.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>

#include "train/format.h"

namespace spool::train {
namespace {

constexpr int64_t copy_validation_sequences = 64;

void count(Batch& batch, const TokenBytes& lengths) {
  batch.scored = batch.bytes = 0;
  for (int64_t row = 0; row < batch.rows; ++row)
    for (int64_t at = 1; at < batch.seq; ++at) {
      const auto i = size_t(row * batch.seq + at);
      if (!batch.mask.empty() && !batch.mask[i]) continue;
      ++batch.scored;
      batch.bytes += lengths.of(batch.tokens[i]);
    }
}

}  // namespace

Batch Batch::slice(int64_t first, int64_t n) const {
  const auto part = [&](const auto& whole) { return std::remove_cvref_t<decltype(whole)>(whole.begin() + first * seq, whole.begin() + (first + n) * seq); };
  return {.rows = n, .seq = seq, .tokens = part(tokens), .mask = mask.empty() ? mask : part(mask), .scored = scored, .bytes = bytes, .narrow = narrow};
}

Dataset Dataset::open(const DataConfig& data, const DatasetOptions& options) {
  Dataset set(options.tokenizer);
  set.config_ = data;
  set.options_ = options;
  if (data.task == Task::copy) {
    set.validation_ = fixed_windows(options.eval_windows > 0 ? options.eval_windows : copy_validation_sequences, 0);
    set.name_ = "copying task";
    set.note_ = fmt::format("synthetic: {} bytes, then the same again; the second half counts", data.seq / 2);
    return set;
  }
  if (data.path.empty()) {
    auto found = open_default_corpus(".", options.source_dir);
    set.corpus_ = std::move(found.corpus);
    set.notice_ = std::move(found.notice);
  } else {
    set.corpus_ = open_corpus(data.path);
  }
  set.name_ = set.corpus_->name();
  set.note_ = set.corpus_->note();
  const Split& split = set.corpus_->split();
  const TokenStreamPtr training = token_stream(set.corpus_, split.train, options.tokenizer);
  set.train_windows_.emplace(training, data.batch * options.accumulate * data.seq, "training");
  set.shuffled_windows_.emplace(training, data.seq, RandomKey(options.seed).fold("data.order"), "training");
  const TokenStreamPtr validation = token_stream(set.corpus_, split.validation, options.tokenizer);
  set.validation_windows_.emplace(validation, data.seq, "validation");
  set.validation_ = fixed_windows(set.validation_windows_->count(), options.eval_windows);
  if (!is_bytes(options.tokenizer))
    set.note_ += fmt::format("; {} and {} tokens ({}, {} ids)", format_count(training->size()), format_count(validation->size()), options.tokenizer->kind(),
                             format_count(options.tokenizer->vocab_size()));
  return set;
}

Batch Dataset::empty_batch(int64_t rows) const {
  Batch out{.rows = rows, .seq = config_.seq, .tokens = std::vector<int32_t>(size_t(rows * config_.seq)), .mask = {}, .narrow = is_bytes(options_.tokenizer)};
  if (config_.task != Task::copy) return out;
  out.mask.resize(out.tokens.size());
  for (size_t i = 0; i < out.mask.size(); ++i) out.mask[i] = int64_t(i) % config_.seq >= config_.seq / 2;
  return out;
}

Batch Dataset::train(int64_t step) const {
  Batch out = empty_batch(config_.batch * options_.accumulate);
  if (config_.task == Task::text && config_.order == Order::shuffled) {
    for (int64_t row = 0; row < out.rows; ++row) shuffled_windows_->read(step * out.rows + row, out.row(row));
  } else if (config_.task == Task::text) {
    train_windows_->read(step, out.tokens);
  } else {
    for (int64_t row = 0; row < out.rows; ++row) copy_sequence(options_.seed, "train", step, row, out.row(row));
  }
  count(out, lengths_);
  return out;
}

Batch Dataset::validation(int64_t first, int64_t rows) const {
  if (first < 0 || rows < 1 || first >= validation_count())
    fail<IndexError>("validation: asked for ", rows, " sequences from ", first, " of ", validation_count());
  Batch out = empty_batch(std::min(rows, validation_count() - first));
  for (int64_t row = 0; row < out.rows; ++row) {
    const int64_t window = validation_[size_t(first + row)];
    if (config_.task == Task::text) validation_windows_->read(window, out.row(row));
    else copy_sequence(options_.seed, "validation", window, 0, out.row(row));
  }
  count(out, lengths_);
  return out;
}

int64_t Dataset::tokens_per_epoch() const { return train_windows_ ? train_windows_->count() * train_windows_->window() : 0; }

}  // namespace spool::train
