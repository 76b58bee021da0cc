#pragma once
// Byte-pair encodings as Hugging Face's tokenizer.json describes them. Private to the tokenizers. The reader (tokenizer_bpe_read.cpp) turns
// the file into these rules; the encoder (tokenizer_bpe.cpp) follows them.
//
// A text goes through:
//   1. added tokens that are looked for in the text as it is: the leftmost, and the longest there, become tokens whole. All added tokens are,
//      special or not, as in the reference: a text from elsewhere that spells "</s>" yields that token, so quote what is not trusted.
//      Nothing but the file's own added tokens is treated so.
//   2. for each stretch between them: the normalizer, then added tokens that are looked for in normalized text;
//   3. for each stretch between those: the steps that cut it into words;
//   4. for each word: tokens of its characters (of its bytes, in a byte-level vocabulary), then the merges, lowest rank first.
// Behaviour at bytes that are no UTF-8 is ours, since the reference has none: they match no pattern and count as characters of their own.
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "train/tokenizer_parts.h"
#include "train/tokenizer_pattern.h"

namespace spool::train::detail {

struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool takes_left = false, takes_right = false;  ///< White space around it belongs to it.
};

struct Prepend { std::string text; };        ///< Unless the text is empty.
struct Replace { std::string from, to; };
using NormalizerStep = std::variant<Prepend, Replace>;

/// Cuts at the matches of a pattern: they are words of their own, or (`keep_matches` / `keep_rest` off) dropped.
struct SplitStep {
  SplitPattern pattern;
  bool keep_matches = true, keep_rest = true;
};
/// GPT-2's: a space before each stretch that does not begin with one.
struct SpaceBefore {};
/// SentencePiece's: spaces become `mark`, one is put before (always, or at the beginning of the text), words begin with it.
struct MarkSpaces {
  std::string mark;
  enum class Put : uint8_t { always, first, never } put = Put::always;
  bool split = true;
};
using WordStep = std::variant<SplitStep, SpaceBefore, MarkSpaces>;

struct PairHash {
  size_t operator()(std::pair<int32_t, int32_t> p) const {
    return std::hash<uint64_t>()((uint64_t(uint32_t(p.first)) << 32 | uint32_t(p.second)) * 0x9e3779b97f4a7c15u);
  }
};

struct BpeRules {
  std::vector<AddedToken> added_as_is, added_normalized;
  std::vector<NormalizerStep> normalizer;
  std::vector<WordStep> words;

  bool byte_level = false;      ///< Words are bytes; otherwise characters.
  bool ignore_merges = false;   ///< A word that is a token is that token, whatever the merges lead to.
  bool fuse_unknown = false;    ///< Neighbouring unknown characters become one unknown token.
  std::optional<int32_t> unknown;  ///< Without it, what has no token vanishes, as in the reference.
  std::array<int32_t, 256> byte_tokens{};  ///< Token of a byte (byte level), or its byte token: −1 where there is none.
  bool byte_fallback = false;   ///< Characters without a token become byte tokens, if all of theirs exist.
  std::unordered_map<std::string, int32_t> tokens;  ///< By what they match: bytes or characters.
  std::unordered_map<std::pair<int32_t, int32_t>, Join, PairHash> merges;

  std::vector<std::string> pieces;  ///< What each id adds to a decoded text; empty for special tokens.
  int64_t stripped_spaces = 0;      ///< At the beginning of a decoded text.
  std::optional<int32_t> begin;
  std::vector<int32_t> ends;
};

/// Throws IoError beginning with the name of the file concerned for what is malformed or not supported. The two files beside a tokenizer.json
/// say which tokens begin and end a text; either may be empty.
BpeRules read_bpe_rules(const std::string& name, std::string_view json, std::string_view tokenizer_config, std::string_view generation_config);

}  // namespace spool::train::detail
