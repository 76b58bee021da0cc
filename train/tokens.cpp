#include "train/tokens.h"

#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::train {
namespace {

class ByteStream : public TokenStream {
 public:
  ByteStream(CorpusPtr corpus, Part part) : TokenStream(std::move(corpus), part.size()), begin_(part.begin) {}
  void read(int64_t offset, std::span<int32_t> out) const override {
    std::vector<uint8_t> bytes(out.size());
    corpus_->read(begin_ + offset, bytes);
    std::ranges::copy(bytes, out.begin());
  }
  std::string_view unit() const override { return "bytes"; }

 private:
  int64_t begin_;
};

class EncodedStream : public TokenStream {
 public:
  EncodedStream(CorpusPtr corpus, std::vector<int32_t> tokens) : TokenStream(std::move(corpus), int64_t(tokens.size())), tokens_(std::move(tokens)) {}
  void read(int64_t offset, std::span<int32_t> out) const override {
    if (offset < 0 || offset + int64_t(out.size()) > size_)
      fail<IndexError>(corpus_->name(), ": asked for tokens ", offset, " to ", offset + int64_t(out.size()), " of ", size_);
    std::copy_n(tokens_.begin() + offset, out.size(), out.begin());
  }
  std::string_view unit() const override { return "tokens"; }

 private:
  std::vector<int32_t> tokens_;
};

}  // namespace

bool is_bytes(const TokenizerPtr& tokenizer) { return !tokenizer || tokenizer->kind() == "bytes"; }

TokenStreamPtr token_stream(CorpusPtr corpus, Part part, const TokenizerPtr& tokenizer) {
  if (is_bytes(tokenizer)) return std::make_shared<ByteStream>(std::move(corpus), part);
  std::vector<uint8_t> bytes(size_t(part.size()));
  corpus->read(part.begin, bytes);
  return std::make_shared<EncodedStream>(std::move(corpus), tokenizer->encode({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

TokenBytes::TokenBytes(const TokenizerPtr& tokenizer) {
  if (is_bytes(tokenizer)) return;
  // A token's piece within a text: at its beginning some lose a space.
  for (int32_t token = 0; token < tokenizer->vocab_size(); ++token) lengths_.push_back(int32_t(tokenizer->piece(token, token).size()));
}

int64_t TokenBytes::of(std::span<const int32_t> tokens) const {
  if (lengths_.empty()) return int64_t(tokens.size());
  int64_t sum = 0;
  for (const int32_t token : tokens) sum += of(token);
  return sum;
}

}  // namespace spool::train
