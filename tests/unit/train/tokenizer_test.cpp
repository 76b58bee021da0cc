// Tokenizers against the encodings of their references (tests/golden/make_tokenizers.py), round trips, and what must be refused.
#include "train/tokenizer.h"

#include <spool/tensor/error.h>
#include <tests/support.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <sstream>

#include "support.h"
#include "train/files.h"

namespace spool::train {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryDirectory;
using Ids = std::vector<int32_t>;
using namespace std::string_view_literals;

fs::path golden(const std::string& name) { return fs::path(SPOOL_SOURCE_DIR) / "tests/golden" / name; }

struct Case {
  std::string file, text;
  Ids ids;
};

std::vector<Case> golden_cases() {
  std::vector<Case> out;
  std::istringstream lines(read_file(golden("tokenizers.tsv")));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    Case c{.file = line.substr(0, first), .text = {}, .ids = {}};
    for (size_t i = first + 1; i < second; i += 2) c.text += char(std::stoi(line.substr(i, 2), nullptr, 16));
    std::istringstream ids(line.substr(second + 1));
    for (int32_t id = 0; ids >> id;) c.ids.push_back(id);
    out.push_back(std::move(c));
  }
  return out;
}

std::string random_bytes(std::mt19937_64& random, size_t size) {
  std::string out;
  while (out.size() < size) out += char(random() % 4 ? random() % 96 + 32 : random());
  return out;
}

Ids random_tokens(std::mt19937_64& random, int64_t vocab, size_t count) {
  Ids out;
  while (out.size() < count) out.push_back(int32_t(random() % uint64_t(vocab)));
  return out;
}

/// Files whose vocabulary can spell any bytes, and where no token but BOS and its like swallows text.
std::vector<fs::path> reversible() {
  std::vector<fs::path> out{golden("gpt2.json")};
#ifdef SPOOL_SENTENCEPIECE
  out.push_back(golden("sentencepiece.model"));
#endif
  if (const fs::path file = test::data_path("stories260k/tok512.bin"); fs::exists(file)) out.push_back(file);
  return out;
}

TEST(TokenizerTest, EncodingsOfTheReferences) {
  std::map<std::string, TokenizerPtr> open;
  std::map<std::string, int> counts;
  for (const Case& c : golden_cases()) {
#ifndef SPOOL_SENTENCEPIECE
    if (c.file == "sentencepiece.model") continue;
#endif
    TokenizerPtr& tokenizer = open[c.file];
    if (!tokenizer) tokenizer = open_tokenizer(golden(c.file));
    EXPECT_EQ(tokenizer->encode(c.text), c.ids) << c.file << ": \"" << c.text << '"';
    ++counts[c.file];
  }
  EXPECT_GE(counts.size(), 5u);
  for (const auto& [file, count] : counts) EXPECT_GE(count, 70) << file;
}

TEST(TokenizerTest, TextsOfTheGoldenFileComeBack) {
  for (const Case& c : golden_cases()) {
    if (c.file != "gpt2.json" && c.file != "sentencepiece.model") continue;
    if (c.file == "gpt2.json" && c.text.find("<|endoftext|>") != std::string::npos) continue;  // a special token, which adds nothing
    if (c.file == "sentencepiece.model" && c.text.find("▁") != std::string::npos) continue;    // its mark of a space
#ifndef SPOOL_SENTENCEPIECE
    if (c.file == "sentencepiece.model") continue;
#endif
    EXPECT_EQ(open_tokenizer(golden(c.file))->decode(c.ids), c.text) << c.file;
  }
}

TEST(TokenizerTest, AnyBytesComeBack) {
  std::mt19937_64 random(5);
  for (const fs::path& file : reversible()) {
    const TokenizerPtr tokenizer = open_tokenizer(file);
    for (int i = 0; i < 400; ++i) {
      const std::string text = random_bytes(random, size_t(i));
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << file << ' ' << i;
    }
    for (const std::string text : {"\xff", "a\x80z", "\xed\xa0\x80", "\xf0\x9f\x99", "\xc3", "\xef\xbf\xbd", "\xef\xbf\xbd\xff\xef\xbf\xbd", "\xc0\x80"})
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << file;
  }
  const TokenizerPtr bytes = byte_tokenizer();
  const std::string text = random_bytes(random, 1000);
  EXPECT_EQ(bytes->decode(bytes->encode(text)), text);
  EXPECT_EQ(bytes->encode("\xff\0a"sv), (Ids{255, 0, 97}));
}

TEST(TokenizerTest, PiecesDoNotFailAndJoinToTheDecodedText) {
  std::mt19937_64 random(6);
  for (const fs::path& file : reversible()) {
    const TokenizerPtr tokenizer = open_tokenizer(file);
    const Ids ids = random_tokens(random, tokenizer->vocab_size(), 5000);
    std::string joined;
    for (size_t i = 0; i < ids.size(); ++i) joined += tokenizer->piece(ids[i], i ? ids[i - 1] : -1);
    EXPECT_EQ(joined, tokenizer->decode(ids));
    EXPECT_THROW(tokenizer->piece(-1, -1), IndexError);
    EXPECT_THROW(tokenizer->piece(int32_t(tokenizer->vocab_size()), -1), IndexError);
  }
  EXPECT_THROW(byte_tokenizer()->piece(256, -1), IndexError);
}

TEST(TokenizerTest, TheStoriesModelsTokenizer) {
  SPOOL_REQUIRE_DATA("stories260k/tok512.bin");
  const TokenizerPtr tokenizer = open_tokenizer(test::data_path("stories260k/tok512.bin"), 512);
  EXPECT_EQ(tokenizer->kind(), "llama2c");
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  std::istringstream lines(read_file(test::data_path("stories260k/golden_fp64.txt")));
  std::string line, text;
  Ids expected;
  while (std::getline(lines, line)) {
    if (line.starts_with("# text: ")) text = line.substr(8);
    std::istringstream ids(line.starts_with("tokens: ") ? line.substr(8) : "");
    for (int32_t id = 0; ids >> id;) expected.push_back(id);
  }
  ASSERT_EQ(expected.size(), 32u);
  Ids ids = tokenizer->encode(text);
  ids.insert(ids.begin(), *tokenizer->begin_token());
  ids.resize(std::min(ids.size(), expected.size()));  // the file's tokens stop before its text does
  EXPECT_EQ(ids, expected);
  EXPECT_TRUE(text.starts_with(tokenizer->decode(ids)));
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->decode(Ids{1, 259}), "t") << "the space before a text is no part of it";
  EXPECT_EQ(tokenizer->decode(Ids{261, 259}), "a t");
  EXPECT_EQ(tokenizer->end_tokens().front(), 2);
  EXPECT_EQ(tokenizer->decode(Ids{3 + 'x', 2}), "x");
  const std::string message = message_of<IoError>([] { open_tokenizer(test::data_path("stories260k/tok512.bin"), 256); });
  EXPECT_NE(message.find("has 512 tokens, but the model knows 256"), std::string::npos) << message;
}

/// A tokenizer.bin with these texts after the byte tokens, of falling score unless given.
std::string llama2c_file(const std::vector<std::pair<std::string, float>>& tokens) {
  std::string out("\x10\0\0\0", 4);
  const auto add = [&](const std::string& text, float score) {
    const auto length = int32_t(text.size());
    out.append(reinterpret_cast<const char*>(&score), 4).append(reinterpret_cast<const char*>(&length), 4).append(text);
  };
  for (const char* text : {"<unk>", "\n<s>\n", "\n</s>\n"}) add(text, 0);
  char name[7];
  for (int b = 0; b < 256; ++b) std::snprintf(name, sizeof name, "<0x%02X>", b), add(name, 0);
  for (const auto& [text, score] : tokens) add(text, score);
  return out;
}

TEST(TokenizerTest, TheHighestScoreJoinsFirstAndTheLeftmostAmongEquals) {
  const TemporaryDirectory directory;
  // ids: 259 ' ', 260 a, 261 b, 262 ab, 263 ba, 264 aa, 265 <s>-like text, 266 <, 267 s, 268 >
  const fs::path file = directory.write("t.bin", llama2c_file({{" ", -9}, {"a", -9}, {"b", -9}, {"ab", -2}, {"ba", -1}, {"aa", -3}, {"<s>", 9}, {"<", -9}, {"s", -9}, {">", -9}}));
  const TokenizerPtr tokenizer = open_tokenizer(file);
  EXPECT_EQ(tokenizer->encode("aba"), (Ids{259, 260, 263}));
  EXPECT_EQ(tokenizer->encode("aaa"), (Ids{259, 264, 260}));
  EXPECT_EQ(tokenizer->encode("abab"), (Ids{259, 260, 263, 261}));
  EXPECT_EQ(tokenizer->encode("<0x41>"), (Ids{259, 266, 3 + '0', 3 + 'x', 3 + '4', 3 + '1', 268})) << "a byte token is not found by its name";
  EXPECT_EQ(tokenizer->encode("é"), (Ids{259, 3 + 0xc3, 3 + 0xa9}));
}

TEST(TokenizerTest, LongTextsTakeNLogN) {
  SPOOL_REQUIRE_DATA("stories260k/tok512.bin");
  const std::string text = std::string(200'000, 'h') + std::string(200'000, ' ');
  const auto start = std::chrono::steady_clock::now();
  for (const fs::path& file : reversible()) EXPECT_EQ(open_tokenizer(file)->decode(open_tokenizer(file)->encode(text)), text);
  // A quadratic search takes 10¹¹ steps.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(test::slow_build ? 60 : 20));
}

TEST(TokenizerTest, SentencePieceModels) {
#ifndef SPOOL_SENTENCEPIECE
  EXPECT_NE(message_of<IoError>([] { open_tokenizer(golden("sentencepiece.model")); }).find("libsentencepiece-dev"), std::string::npos);
#else
  const TokenizerPtr tokenizer = open_tokenizer(golden("sentencepiece.model"), 360);
  EXPECT_EQ(tokenizer->kind(), "sentencepiece");
  EXPECT_EQ(tokenizer->vocab_size(), 360);
  EXPECT_EQ(tokenizer->begin_token(), 1);
  EXPECT_EQ(tokenizer->end_tokens(), Ids{2});
  EXPECT_EQ(tokenizer->decode(Ids{1, 3 + 'x', 2}), "x") << "control tokens add nothing, byte tokens their byte";
  Ids with_begin = tokenizer->encode("the tensor");
  with_begin.insert(with_begin.begin(), 1);
  EXPECT_EQ(tokenizer->decode(with_begin), "the tensor");
  const TemporaryDirectory directory;
  const std::string model = read_file(golden("sentencepiece.model"));
  const std::string message = message_of<IoError>([&] { open_tokenizer(directory.write("t", model.substr(0, model.size() / 2))); });
  EXPECT_TRUE(message.starts_with((directory / "t").string() + ": SentencePiece cannot read it")) << message;
#endif
}

TEST(TokenizerTest, KindsAreToldByContentAndDirectoriesByName) {
  const TemporaryDirectory directory;
  const auto refused = [&](std::string_view bytes) { return message_of<IoError>([&] { open_tokenizer(directory.write("x", bytes)); }); };
  EXPECT_NE(refused("").find("is empty"), std::string::npos);
  EXPECT_NE(refused("hello").find("no tokenizer of a known kind"), std::string::npos);
  EXPECT_NE(refused("version https://git-lfs.github.com/spec/v1\n").find("pointer of git-lfs"), std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { open_tokenizer(directory / "none"); }).find("no such file"), std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { open_tokenizer(directory.path()); }).find("holds none of"), std::string::npos);
  directory.write("tokenizer.bin", llama2c_file({}));
  EXPECT_EQ(open_tokenizer(directory.path())->kind(), "llama2c");
  directory.write("tokenizer.json", read_file(golden("gpt2.json")));
  EXPECT_EQ(open_tokenizer(directory.path())->kind(), "bpe") << "tokenizer.json comes first";
  const fs::path sparse = directory.write("sparse", "{");
  fs::resize_file(sparse, uintmax_t(1) << 40);
  EXPECT_NE(message_of<IoError>([&] { open_tokenizer(sparse); }).find("more than any tokenizer"), std::string::npos);
}

TEST(TokenizerTest, DamagedLlama2cFiles) {
  const TemporaryDirectory directory;
  const std::string good = llama2c_file({{" ", -1}, {"ab", -2}});
  const auto refused = [&](std::string bytes, const char* reason) {
    const std::string message = message_of<IoError>([&] { open_tokenizer(directory.write("t", bytes)); });
    EXPECT_TRUE(message.starts_with((directory / "t").string())) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  };
  const auto with = [&](size_t at, auto value) {
    std::string out = good;
    std::memcpy(out.data() + at, &value, sizeof value);
    return out;
  };
  EXPECT_EQ(open_tokenizer(directory.write("t", good))->vocab_size(), 261);
  refused(good.substr(0, good.size() - 1), "ends within token 260");
  refused(good.substr(0, good.size() - 7), "ends within token 260");
  refused(with(8, int32_t(0x7fffffff)), "is said to have 2147483647 bytes");
  refused(with(8, int32_t(-1)), "is said to have -1 bytes");
  refused(with(4, std::numeric_limits<float>::quiet_NaN()), "not finite");
  refused(with(0, int32_t(0)), "the longest token is said to have 0 bytes");
  refused(good.substr(0, 4 + 13), "has 1 tokens, fewer than");
}

}  // namespace
}  // namespace spool::train
