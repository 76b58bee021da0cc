// llama2.c's tokenizer.bin, little-endian:
//
//   int32     length of the longest token, in bytes
//   per token, in the order of the ids, to the end of the file:
//     float32 score
//     int32   length
//     bytes   text
//
// 0 is the unknown token, 1 begins a text, 2 ends one, and 3 … 258 are the bytes, named <0x00> … <0xFF>. Source: export and run of
// github.com/karpathy/llama2.c. Where we choose: control and byte tokens are never found by their text ("<0x41>" is six characters), and
// bytes that are no UTF-8 become byte tokens one by one.
#include <spool/tensor/error.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "train/tokenizer_parts.h"

namespace spool::train::detail {
namespace {

constexpr int32_t begin = 1, end = 2, first_byte = 3, first_text = first_byte + 256;

static_assert(std::endian::native == std::endian::little, "tokenizer.bin: numbers are read as they lie in memory, which must be little-endian");

class Llama2cTokenizer : public Tokenizer {
 public:
  Llama2cTokenizer(const std::string& name, std::string_view bytes) {
    const size_t total = bytes.size();
    const auto take = [&]<class T>(T& value) {
      std::memcpy(&value, bytes.data(), sizeof value);
      bytes.remove_prefix(sizeof value);
    };
    int32_t longest = 0;
    if (total < sizeof longest) fail<IoError>(name, ": ends within its first number");
    take(longest);
    if (longest <= 0) fail<IoError>(name, ": the longest token is said to have ", longest, " bytes; not a tokenizer.bin of llama2.c");
    while (!bytes.empty()) {
      const size_t id = tokens_.size();
      float score = 0;
      int32_t length = 0;
      if (bytes.size() < sizeof score + sizeof length) fail<IoError>(name, ": ends within token ", id);
      take(score), take(length);
      if (!std::isfinite(score)) fail<IoError>(name, ": the score of token ", id, " is not finite");
      if (length < 0 || length > longest) fail<IoError>(name, ": token ", id, " is said to have ", length, " bytes; the longest has ", longest);
      if (size_t(length) > bytes.size()) fail<IoError>(name, ": ends within token ", id, ", at byte ", total);
      tokens_.push_back({std::string(bytes.substr(0, size_t(length))), score});
      bytes.remove_prefix(size_t(length));
    }
    if (tokens_.size() < size_t(first_text)) fail<IoError>(name, ": has ", tokens_.size(), " tokens, fewer than the ", first_text, " that control and bytes take");
    for (int b = 0; b < 256; ++b)
      if (tokens_[size_t(first_byte + b)].text != byte_name(uint8_t(b))) fail<IoError>(name, ": token ", first_byte + b, " is not the byte ", byte_name(uint8_t(b)));
    for (size_t id = first_text; id < tokens_.size(); ++id)
      if (!tokens_[id].text.empty()) ids_.emplace(tokens_[id].text, int32_t(id));
  }

  std::string_view kind() const override { return "llama2c"; }
  int64_t vocab_size() const override { return int64_t(tokens_.size()); }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> out;
    if (text.empty()) return out;
    out.reserve(text.size() + 1);
    append_character(out, " ");
    while (!text.empty()) {
      const size_t length = std::max<size_t>(utf8_character(text), 1);
      append_character(out, text.substr(0, length));
      text.remove_prefix(length);
    }
    std::string joined;
    PairMerger().run(out, [&](int32_t a, int32_t b) -> std::optional<Join> {
      if (a < first_text || b < first_text) return {};
      joined = tokens_[size_t(a)].text;
      joined += tokens_[size_t(b)].text;
      const auto it = ids_.find(joined);
      if (it == ids_.end()) return {};
      return Join{-double(tokens_[size_t(it->second)].score), it->second};
    });
    return out;
  }

  std::string piece(int32_t token, int32_t previous) const override {
    check_token(kind(), token, vocab_size());
    if (token == begin || token == end) return {};
    if (token >= first_byte && token < first_text) return std::string(1, char(token - first_byte));
    const std::string& text = tokens_[size_t(token)].text;
    const bool strip = (previous == -1 || previous == begin) && text.starts_with(' ');
    return text.substr(strip ? 1 : 0);
  }
  std::optional<int32_t> begin_token() const override { return begin; }
  /// The models that come with such files end a text by beginning the next.
  std::vector<int32_t> end_tokens() const override { return {end, begin}; }

 private:
  struct Token {
    std::string text;
    float score = 0;
  };

  void append_character(std::vector<int32_t>& out, std::string_view character) const {
    const auto it = ids_.find(std::string(character));
    if (it != ids_.end()) return out.push_back(it->second);
    for (const char c : character) out.push_back(first_byte + static_cast<unsigned char>(c));
  }

  std::vector<Token> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace

TokenizerPtr read_llama2c(const std::string& name, std::string_view bytes) { return std::make_shared<const Llama2cTokenizer>(name, bytes); }

}  // namespace spool::train::detail
