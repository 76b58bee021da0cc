#pragma once
// What a tokenizer that was accepted must do, whatever its file holds.
#include "fuzz.h"
#include "train/tokenizer_parts.h"

namespace spool::fuzz {

inline void use_tokenizer(const train::Tokenizer& tokenizer) {
  using namespace std::string_view_literals;
  const int64_t size = tokenizer.vocab_size();
  require(size > 0, "an empty vocabulary");
  for (const std::string_view text : {""sv, " "sv, "a ab abc  the\n\n"sv, "<s>1234 don't \xf0\x9f\x99\x82\xe2\x96\x81\xff\xc3\0x"sv}) {
    std::vector<int32_t> tokens;
    // A pattern whose search explodes is the file's, and says so.
    if (!accepts("", [&] { tokens = tokenizer.encode(text); })) continue;
    for (const int32_t token : tokens) require(token >= 0 && token < size, "a token outside of the vocabulary");
    tokenizer.decode(tokens);
  }
  for (int32_t token = 0; token < std::min<int64_t>(size, 1000); ++token) tokenizer.piece(token, -1);
  if (const auto begin = tokenizer.begin_token()) require(*begin >= 0 && *begin < size, "a begin token outside of the vocabulary");
  for (const int32_t end : tokenizer.end_tokens()) require(end >= 0 && end < size, "an end token outside of the vocabulary");
}

}  // namespace spool::fuzz
