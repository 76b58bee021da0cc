#pragma once
// What the kinds of tokenizers share. Private to the tokenizers: users see tokenizer.h.
#include "train/tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace spool::train::detail {

/// Readers of one kind each, from the bytes of a file. Errors are IoErrors of one line that begin with `name`, the file's.
TokenizerPtr read_llama2c(const std::string& name, std::string_view bytes);
TokenizerPtr read_sentencepiece(const std::string& name, std::string_view bytes);
/// `tokenizer_config` and `generation_config` are the texts of the JSON files that lie beside a tokenizer.json, empty where there is none.
TokenizerPtr read_bpe(const std::string& name, std::string_view bytes, std::string_view tokenizer_config = {}, std::string_view generation_config = {});

enum class TokenizerKind { unknown, llama2c, sentencepiece, json };
/// The kind that a file's first bytes show.
TokenizerKind tokenizer_kind(std::string_view bytes);

/// Throws IndexError unless 0 ≤ token < size.
void check_token(std::string_view kind, int32_t token, int64_t size);

/// Bytes of the UTF-8 character that `text` begins with; 0 where it begins with none. Surrogates, overlong forms and what lies above
/// U+10FFFF are no characters. `text` must not be empty.
size_t utf8_character(std::string_view text);

/// The byte of a byte token's name, "<0x0A>" with two upper-case digits.
std::optional<uint8_t> byte_of_name(std::string_view name);
std::string byte_name(uint8_t byte);

/// SentencePiece's mark for a space, U+2581.
inline constexpr std::string_view space_mark = "\xe2\x96\x81";
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

/// The token that two adjacent ones become, and what that costs: the cheapest pair is joined first.
struct Join {
  double cost = 0;
  int32_t token = -1;
};

/// Joins adjacent tokens until no pair can be joined: always the cheapest pair, the leftmost among equals. n log n. Keeps its buffers
/// between calls.
class PairMerger {
 public:
  /// `join(a, b)`: an std::optional<Join> or a pointer to one.
  template <class F> void run(std::vector<int32_t>& tokens, const F& join) {
    const size_t count = tokens.size();
    if (count < 2) return;
    next_.resize(count), previous_.resize(count);
    for (size_t i = 0; i < count; ++i) next_[i] = i + 1, previous_[i] = i - 1;
    candidates_.clear();
    const auto propose = [&](size_t left) {
      const size_t right = next_[left];
      if (right >= count) return;
      if (const auto found = join(tokens[left], tokens[right])) {
        candidates_.push_back({found->cost, left, tokens[left], tokens[right], found->token});
        std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
      }
    };
    for (size_t i = 0; i + 1 < count; ++i) propose(i);
    while (!candidates_.empty()) {
      std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
      const Candidate best = candidates_.back();
      candidates_.pop_back();
      const size_t left = best.position, right = next_[left];
      // Proposed before one of the two became part of another token.
      if (tokens[left] != best.a || right >= count || tokens[right] != best.b) continue;
      tokens[left] = best.token;
      tokens[right] = gone;
      next_[left] = next_[right];
      if (next_[left] < count) previous_[next_[left]] = left;
      propose(left);
      if (previous_[left] < count) propose(previous_[left]);
    }
    std::erase(tokens, gone);
  }

 private:
  static constexpr int32_t gone = -1;
  struct Candidate {
    double cost;
    size_t position;
    int32_t a, b, token;
    bool operator>(const Candidate& other) const { return cost != other.cost ? cost > other.cost : position > other.position; }
  };
  std::vector<size_t> next_, previous_;
  std::vector<Candidate> candidates_;
};

}  // namespace spool::train::detail
