#pragma once
// How tokens are cut into sequences: in order, in a random order, evenly spread; and the sequences of the copying task.
#include <spool/tensor/random.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "train/tokens.h"

namespace spool::train {

/// A part's tokens cut into windows of equal size, in order, without overlap; what is left at the end is dropped.
class Windows {
 public:
  /// `what` names the part in the message if it is shorter than one window.
  Windows(TokenStreamPtr tokens, int64_t window, std::string_view what);
  int64_t count() const { return tokens_->size() / window_; }
  int64_t window() const { return window_; }
  /// Window index mod count: what step `index` of training sees.
  void read(int64_t index, std::span<int32_t> out) const;
  int64_t size() const { return tokens_->size(); }
  /// One window's tokens from any place in the part.
  void read_at(int64_t offset, std::span<int32_t> out) const { tokens_->read(offset, out); }

 private:
  TokenStreamPtr tokens_;
  int64_t window_;
};

/// Where index goes in a random order of 0 … count−1, without a table: a small Feistel network over Philox, walked until it stays within
/// count. Bijective for each key.
int64_t permuted(int64_t index, int64_t count, RandomKey key);

/// A part in a fresh random order each epoch: windows of equal size without overlap, begun at a random offset, each once an epoch.
class ShuffledWindows {
 public:
  ShuffledWindows(TokenStreamPtr tokens, int64_t window, RandomKey key, std::string_view what);
  int64_t count() const { return std::max<int64_t>(1, (windows_.size() - (windows_.window() - 1)) / windows_.window()); }
  int64_t window() const { return windows_.window(); }
  /// The window drawn as number `index`, counted over all epochs.
  void read(int64_t index, std::span<int32_t> out) const;

 private:
  Windows windows_;
  RandomKey key_;
};

/// `wanted` of `count` windows, evenly spread, the same every time; all of them if wanted is 0 or more than there are.
std::vector<int64_t> fixed_windows(int64_t count, int64_t wanted);

/// One sequence of the copying task: a zero, size/2 − 1 draws from 1…255, and all that once more. A pure function of its arguments.
/// `stream` keeps training and validation apart. The second half is what counts.
void copy_sequence(uint64_t seed, std::string_view stream, int64_t step, int64_t row, std::span<int32_t> out);

}  // namespace spool::train
