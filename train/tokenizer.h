#pragma once
// Text to tokens and back. Four kinds, told apart by what a file holds: bytes (no file), llama2.c's tokenizer.bin, SentencePiece's
// tokenizer.model, and Hugging Face's tokenizer.json (byte-pair encodings).
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spool::train {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string_view kind() const = 0;  ///< "bytes", "llama2c", "sentencepiece" or "bpe".
  virtual int64_t vocab_size() const = 0;     ///< Ids are 0 … vocab_size() − 1.
  /// The text's tokens, without a begin or end token. Never fails for any bytes: what has no token of its own is spelled by byte tokens
  /// where the vocabulary has them, and by the unknown token where it does not.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// What `token` adds to a text that ends with `previous` (−1: the text begins): bytes, which may be a part of a character. Begin, end and
  /// other control tokens add nothing. IndexError for an id outside of the vocabulary.
  virtual std::string piece(int32_t token, int32_t previous) const = 0;
  virtual std::optional<int32_t> begin_token() const = 0;  ///< What a text starts with, where the vocabulary has such a token.
  virtual std::vector<int32_t> end_tokens() const = 0;     ///< Tokens that end a text.

  std::string decode(std::span<const int32_t> tokens) const;  ///< The pieces, joined.
};
using TokenizerPtr = std::shared_ptr<const Tokenizer>;

TokenizerPtr byte_tokenizer();
/// A tokenizer file, its kind told by its content. A directory: its tokenizer.json, tokenizer.model or tokenizer.bin, in this order. IoError,
/// one line with the path, for what is missing, damaged or of an unknown kind. `vocab_size`, where given, is the model's: llama2.c's files
/// do not say theirs, and a tokenizer with more ids than the model is refused.
TokenizerPtr open_tokenizer(const std::filesystem::path& path, std::optional<int64_t> vocab_size = {});

}  // namespace spool::train
