#pragma once
// A part of a corpus as tokens: what training and evaluation read.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/data.h"
#include "train/tokenizer.h"

namespace spool::train {

/// Tokens that can be read from any place. May be read by several threads.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  /// Copies tokens [offset, offset + out.size()). Throws IoError if they are no longer there.
  virtual void read(int64_t offset, std::span<int32_t> out) const = 0;
  virtual std::string_view unit() const = 0;  ///< "bytes" or "tokens".

  int64_t size() const { return size_; }
  const CorpusPtr& corpus() const { return corpus_; }

 protected:
  TokenStream(CorpusPtr corpus, int64_t size) : corpus_(std::move(corpus)), size_(size) {}
  CorpusPtr corpus_;
  int64_t size_;
};
using TokenStreamPtr = std::shared_ptr<const TokenStream>;

/// Whether tokens are bytes: no tokenizer, or the one of bytes. Then nothing is encoded or held in memory, and batches are u8.
bool is_bytes(const TokenizerPtr& tokenizer);

/// A part of a corpus: its bytes, read where they lie; or, with a tokenizer, the part's whole text encoded at once and held in memory, 4
/// bytes a token. (Cut by bytes first, then encoded: a word at the border belongs to both parts' ends.)
TokenStreamPtr token_stream(CorpusPtr corpus, Part part, const TokenizerPtr& tokenizer = {});

/// How many bytes of text tokens stand for; what a loss per token is turned into bits per byte with.
class TokenBytes {
 public:
  explicit TokenBytes(const TokenizerPtr& tokenizer);
  int64_t of(int32_t token) const { return lengths_.empty() ? 1 : lengths_[size_t(token)]; }
  int64_t of(std::span<const int32_t> tokens) const;

 private:
  std::vector<int32_t> lengths_;  // empty: one each
};

}  // namespace spool::train
