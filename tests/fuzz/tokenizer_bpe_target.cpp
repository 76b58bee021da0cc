#include "tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spool;
  train::TokenizerPtr tokenizer;
  if (fuzz::accepts("file", [&] { tokenizer = train::detail::read_bpe("file", fuzz::text_of(data, size)); })) fuzz::use_tokenizer(*tokenizer);
  return 0;
}
