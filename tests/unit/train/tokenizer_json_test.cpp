// Hugging Face's tokenizer.json: which tokens begin and end a text, what is not supported, damage.
#include <spool/tensor/error.h>

#include "support.h"
#include "train/files.h"
#include "train/tokenizer.h"

namespace spool::train {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryDirectory;
using Ids = std::vector<int32_t>;

std::string golden(const std::string& name) { return read_file(fs::path(SPOOL_SOURCE_DIR) / "tests/golden" / name); }

/// A file of a few tokens; `more` goes beside the model, `model` into it.
std::string small_file(const std::string& more = "", const std::string& model = "") {
  return R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"bc":4,"abc":5,"Ġ":6,"<0x7A>":7},"merges":["b c","a b","ab c"])" + model + "}" + more + "}";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class TokenizerJsonTest : public ::testing::Test {
 protected:
  TokenizerPtr open(const std::string& text) const { return open_tokenizer(directory_.write("tokenizer.json", text)); }
  std::string refusal(const std::string& text) const {
    const fs::path file = directory_.write("tokenizer.json", text);
    const std::string message = message_of<IoError>([&] { open_tokenizer(file); });
    EXPECT_TRUE(message.starts_with(file.string() + ": ")) << message;
    return message;
  }
  TemporaryDirectory directory_;
};

TEST_F(TokenizerJsonTest, MergesGoByRankNotByLength) {
  EXPECT_EQ(open(small_file())->encode("abc"), (Ids{0, 4})) << "b c ranks before a b";
  EXPECT_EQ(open(small_file("", R"(,"ignore_merges":true)"))->encode("abc"), Ids{5});
  EXPECT_EQ(open(replaced(small_file(), R"("b c","a b","ab c")", R"(["a","b"],["ab","c"],["b","c"])"))->encode("abc"), Ids{5});
}

TEST_F(TokenizerJsonTest, WhatHasNoToken) {
  EXPECT_EQ(open(small_file())->encode("axb"), Ids{3}) << "vanishes without an unknown token";
  EXPECT_EQ(open(small_file("", R"(,"unk_token":"c")"))->encode("axxb"), (Ids{0, 2, 2, 1}));
  EXPECT_EQ(open(small_file("", R"(,"unk_token":"c","fuse_unk":true)"))->encode("axxb\xff\xff"), (Ids{0, 2, 4}));
  EXPECT_EQ(open(small_file("", R"(,"unk_token":"c","byte_fallback":true)"))->encode("zéz"), (Ids{7, 2, 7}));
}

TEST_F(TokenizerJsonTest, BeginAndEnd) {
  const TokenizerPtr plain = open(golden("llama3.json"));
  const auto wide = int32_t(plain->vocab_size() - 1);
  EXPECT_EQ(plain->begin_token(), 0) << "from the template";
  EXPECT_EQ(plain->end_tokens(), Ids{1}) << "by its usual name";
  directory_.write("tokenizer_config.json", R"({"bos_token":"<|end_of_text|>","eos_token":{"content":"<wide>"}})");
  directory_.write("generation_config.json", R"({"bos_token_id":1,"eos_token_id":[1,)" + std::to_string(wide) + ",0]}");
  EXPECT_EQ(open(golden("llama3.json"))->begin_token(), 0);
  EXPECT_EQ(open(golden("llama3.json"))->end_tokens(), (Ids{wide, 1, 0}));
  directory_.write("generation_config.json", "{}");
  EXPECT_EQ(open(golden("gpt2.json"))->begin_token(), std::nullopt) << "its vocabulary has no <|end_of_text|>";
  directory_.write("tokenizer_config.json", R"({"bos_token":"<|endoftext|>","add_bos_token":false})");
  EXPECT_EQ(open(golden("gpt2.json"))->begin_token(), std::nullopt);
  directory_.write("tokenizer_config.json", R"({"bos_token":"<|endoftext|>"})");
  EXPECT_EQ(open(golden("gpt2.json"))->begin_token(), 0);
  directory_.write("generation_config.json", R"({"eos_token_id":100000})");
  EXPECT_NE(message_of<IoError>([&] { open(golden("gpt2.json")); }).find("generation_config.json: eos_token_id: is 100000; from 0 to "), std::string::npos);
  directory_.write("generation_config.json", "{");
  EXPECT_NE(message_of<IoError>([&] { open(golden("gpt2.json")); }).find("generation_config.json: is not valid JSON"), std::string::npos);
}

TEST_F(TokenizerJsonTest, DecodingFollowsTheDecoder) {
  const TokenizerPtr llama2 = open(golden("llama2.json"));
  Ids ids = llama2->encode("a tensor é🙂");
  EXPECT_EQ(llama2->decode(ids), "a tensor é🙂");
  ids.insert(ids.begin(), 1);
  EXPECT_EQ(llama2->decode(ids), "a tensor é🙂") << "the space is stripped after the begin token, too";
  EXPECT_EQ(llama2->decode(Ids{1, 2, 0}), "") << "special tokens add nothing";
  EXPECT_EQ(llama2->decode(llama2->encode("\xff\xc3")), "\xff\xc3");
  for (const char* name : {"metaspace_first.json", "metaspace_always.json"}) EXPECT_EQ(open(golden(name))->decode(open(golden(name))->encode("of a b")), "of a b");
  const TokenizerPtr gpt2 = open(golden("gpt2.json"));
  EXPECT_EQ(gpt2->decode(Ids{int32_t(gpt2->vocab_size() - 1)}), "<extra>") << "an added token that is not special is text";
}

TEST_F(TokenizerJsonTest, WhatChangesTokensAndIsNotSupportedIsNamed) {
  const std::pair<std::string, const char*> cases[] = {
      {small_file(R"(,"normalizer":{"type":"NFC"})"), "normalizer: the normalizer 'NFC' is not supported"},
      {small_file(R"(,"normalizer":{"type":"Sequence","normalizers":[{"type":"Lowercase"}]})"), "normalizer.normalizers[0]: the normalizer 'Lowercase'"},
      {small_file(R"(,"normalizer":{"type":"Replace","pattern":{"Regex":"a"},"content":"b"})"), "replaces an expression"},
      {small_file(R"(,"pre_tokenizer":{"type":"BertPreTokenizer"})"), "the pre_tokenizer 'BertPreTokenizer' is not supported"},
      {small_file(R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"Digits"}]})"), "comes after ByteLevel"},
      {small_file(R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a"},"behavior":"MergedWithNext"})"), "the behavior 'MergedWithNext'"},
      {small_file(R"x(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"})x"), "the split pattern '(a' is not understood at byte 2"},
      {small_file(R"x(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\h+"},"behavior":"Isolated"})x"), "the split pattern uses \\h"},
      {small_file(R"x(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?im:a)"},"behavior":"Isolated"})x"), "the split pattern uses (?im"},
      {small_file(R"(,"decoder":{"type":"WordPiece"})"), "the decoder 'WordPiece' is not supported"},
      {small_file(R"(,"added_tokens":[{"id":8,"content":"x","single_word":true}])"), "matched as a single word"},
      {small_file("", R"(,"dropout":0.1)"), "model.dropout: random merges are not supported"},
      {small_file("", R"(,"end_of_word_suffix":"</w>")"), "model.end_of_word_suffix: is '</w>'"},
      {replaced(small_file(), R"("BPE")", R"("Unigram")"), "model: the model 'Unigram' is not supported"},
      {replaced(small_file(), R"("BPE")", R"("WordPiece")"), "model: the model 'WordPiece' is not supported"},
      {small_file("", R"(,"unk_token":"?")"), "model.unk_token: the token '?' is not in the vocabulary"},
  };
  for (const auto& [text, reason] : cases) EXPECT_NE(refusal(text).find(reason), std::string::npos) << refusal(text) << "\n  " << reason;
}

TEST_F(TokenizerJsonTest, Damage) {
  const std::string good = golden("llama3.json");
  const std::pair<std::string, const char*> cases[] = {
      {good.substr(0, good.size() - 1), "is not valid JSON at byte"},
      {good + '\0', "is not valid JSON at byte"},
      {"{}", "model: is missing; an object is needed"},
      {R"({"model":{"type":"BPE"}})", "model.vocab: is missing"},
      {R"({"model":{"type":"BPE","vocab":{"a":0}}})", "model.merges: is missing"},
      {R"({"model":{"type":"BPE","vocab":{},"merges":[]}})", "there are no tokens"},
      {R"({"model":{"type":"BPE","vocab":{"a":2000000000},"merges":[]}})", "is 2000000000; from 0 to 1002 is possible"},
      {R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})", "is -1; from 0"},
      {R"({"model":{"type":"BPE","vocab":{"a":1.5},"merges":[]}})", "is number where an integer is needed"},
      {R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})", "have the same id 0"},
      {replaced(small_file(), R"("b c")", R"("b d")"), "model.merges[0]: the token 'd' is not in the vocabulary"},
      {replaced(small_file(), R"("b c")", R"("bc")"), "two tokens with a space between, not 'bc'"},
      {replaced(small_file(), R"("b c")", R"(["b"])"), "a merge joins two tokens, not 1"},
      {replaced(small_file(), R"("b c")", "7"), "model.merges[0]: is number where text is needed"},
      {std::string(R"({"a":)").append(100'000, '['), "is nested more than 64 deep"},
      {R"({"a":1e999})", "a number is out of range"},
      {"{\"\xff\":1}", "is not valid JSON at byte"},
  };
  for (const auto& [text, reason] : cases) EXPECT_NE(refusal(text).find(reason), std::string::npos) << refusal(text) << "\n  " << reason;
}

TEST_F(TokenizerJsonTest, APatternThatExplodesGivesUp) {
  const TokenizerPtr tokenizer = open(small_file(R"x(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a+)+$|(a|b|ab)*c"},"behavior":"Isolated"})x"));
  EXPECT_NE(message_of<IoError>([&] { tokenizer->encode(std::string(4000, 'a').append("!")); }).find("the split pattern gives up at byte"), std::string::npos);
}

}  // namespace
}  // namespace spool::train
