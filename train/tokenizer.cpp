#include "train/tokenizer.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <system_error>

#include "train/files.h"
#include "train/tokenizer_parts.h"

namespace spool::train {
namespace fs = std::filesystem;
namespace {

/// The largest known vocabularies take 35 MB as JSON.
constexpr uintmax_t largest_file = uintmax_t(256) << 20;

class ByteTokenizer : public Tokenizer {
 public:
  std::string_view kind() const override { return "bytes"; }
  int64_t vocab_size() const override { return 256; }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> out;
    out.reserve(text.size());
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return out;
  }
  std::string piece(int32_t token, int32_t) const override {
    detail::check_token(kind(), token, vocab_size());
    return std::string(1, char(token));
  }
  std::optional<int32_t> begin_token() const override { return {}; }
  std::vector<int32_t> end_tokens() const override { return {}; }
};

std::string read_small_file(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) fail<IoError>(path.string(), ": there is no such file");
  if (!fs::is_regular_file(path, error)) fail<IoError>(path.string(), ": is not a regular file");
  const uintmax_t size = fs::file_size(path, error);
  if (error) fail_io("read", path, error.value());
  if (size > largest_file) fail<IoError>(path.string(), ": has ", uint64_t(size), " bytes, more than any tokenizer; give the tokenizer's file");
  return read_file(path);
}

std::string beside(const fs::path& path, const char* name) {
  const fs::path other = path.parent_path() / name;
  std::error_code error;
  return fs::exists(other, error) ? read_small_file(other) : std::string();
}

fs::path file_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer.bin"})
    if (fs::exists(path / name, error)) return path / name;
  fail<IoError>(path.string(), ": holds none of tokenizer.json, tokenizer.model and tokenizer.bin");
}

TokenizerPtr read(const fs::path& path) {
  const std::string name = path.string(), bytes = read_small_file(path);
  switch (detail::tokenizer_kind(bytes)) {
    case detail::TokenizerKind::llama2c: return detail::read_llama2c(name, bytes);
    case detail::TokenizerKind::sentencepiece: return detail::read_sentencepiece(name, bytes);
    case detail::TokenizerKind::json:
      return detail::read_bpe(name, bytes, beside(path, "tokenizer_config.json"), beside(path, "generation_config.json"));
    case detail::TokenizerKind::unknown: break;
  }
  if (bytes.starts_with("version https://git-lfs")) fail<IoError>(name, ": is a pointer of git-lfs; fetch the file that it stands for");
  fail<IoError>(name, bytes.empty() ? ": is empty" : ": is no tokenizer of a known kind", "; known are Hugging Face's tokenizer.json, SentencePiece's tokenizer.model and llama2.c's tokenizer.bin");
}

}  // namespace

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string out;
  int32_t previous = -1;
  for (const int32_t token : tokens) out += piece(token, previous), previous = token;
  return out;
}

TokenizerPtr byte_tokenizer() {
  static const auto only = std::make_shared<const ByteTokenizer>();
  return only;
}

TokenizerPtr open_tokenizer(const fs::path& path, std::optional<int64_t> vocab_size) {
  const fs::path file = file_of(path);
  const TokenizerPtr tokenizer = read(file);
  if (vocab_size && tokenizer->vocab_size() > *vocab_size)
    fail<IoError>(file.string(), ": has ", tokenizer->vocab_size(), " tokens, but the model knows ", *vocab_size, "; use the tokenizer that was made for the model");
  return tokenizer;
}

namespace detail {

TokenizerKind tokenizer_kind(std::string_view bytes) {
  // llama2.c: a length of at most 65,535 as four bytes, and no shorter than one token. No text and no protocol buffer has those two zeros:
  // SentencePiece's begin with field 1, its length, and field 1 of what is inside.
  if (bytes.size() >= 12 && bytes[2] == 0 && bytes[3] == 0) return TokenizerKind::llama2c;
  if (bytes.size() >= 3 && bytes[0] == '\n' && static_cast<unsigned char>(bytes[1]) >= 2 && static_cast<unsigned char>(bytes[1]) < 128 && bytes[2] == '\n')
    return TokenizerKind::sentencepiece;
  const size_t start = bytes.find_first_not_of(" \t\r\n");
  return start != bytes.npos && bytes[start] == '{' ? TokenizerKind::json : TokenizerKind::unknown;
}

void check_token(std::string_view kind, int32_t token, int64_t size) {
  if (token < 0 || token >= size) fail<IndexError>("tokenizer (", kind, "): token ", token, " is outside of the vocabulary of ", size);
}

size_t utf8_character(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned first = at(0), second = at(1);
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return follows(1) ? 2 : 0;
  if (first < 0xf0) {
    const bool overlong = first == 0xe0 && second < 0xa0, surrogate = first == 0xed && second >= 0xa0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  const bool overlong = first == 0xf0 && second < 0x90, beyond = first > 0xf4 || (first == 0xf4 && second >= 0x90);
  return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
}

std::optional<uint8_t> byte_of_name(std::string_view name) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  if (name.size() != 6 || !name.starts_with("<0x") || name[5] != '>') return {};
  const size_t high = digits.find(name[3]), low = digits.find(name[4]);
  if (high == digits.npos || low == digits.npos) return {};
  return uint8_t(high * 16 + low);
}

std::string byte_name(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t found = from.empty() ? text.npos : text.find(from, at);
    out += text.substr(at, found == text.npos ? found : found - at);
    if (found == text.npos) break;
    out += to;
    at = found + from.size();
  }
  return out;
}

}  // namespace detail
}  // namespace spool::train
