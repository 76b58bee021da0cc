// Text as tokens: what batches hold, and what a loss per token is in bits per byte.
#include "train/tokens.h"

#include <cmath>

#include "fakes.h"
#include "support.h"
#include "train/evaluate.h"
#include "train/step.h"

namespace spool::train::testing {
namespace {

TokenizerPtr list(std::vector<std::string> pieces) { return std::make_shared<ListTokenizer>(std::move(pieces)); }
CorpusPtr corpus_of(const std::string& text) { return memory_corpus("memory", {text.begin(), text.end()}); }
std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}
std::vector<int32_t> all_of(const TokenStream& stream) {
  std::vector<int32_t> out(size_t(stream.size()));
  stream.read(0, out);
  return out;
}

TEST(Tokens, APartIsCutByBytesAndThenEncoded) {
  const TokenizerPtr tokenizer = list({"a", "b", "abb", " the"});
  const CorpusPtr corpus = corpus_of("abbab the abb");
  EXPECT_EQ(all_of(*token_stream(corpus, {0, 5}, tokenizer)), (std::vector<int32_t>{2, 0, 1}));
  EXPECT_EQ(all_of(*token_stream(corpus, {1, 9}, tokenizer)), (std::vector<int32_t>{1, 1, 0, 1, 3})) << "abb is cut at the border";
  EXPECT_EQ(all_of(*token_stream(corpus, {0, 3})), (std::vector<int32_t>{'a', 'b', 'b'}));
  EXPECT_EQ(all_of(*token_stream(corpus, {0, 3}, byte_tokenizer())), (std::vector<int32_t>{'a', 'b', 'b'}));
  const TokenStreamPtr stream = token_stream(corpus, {0, 5}, tokenizer);
  std::vector<int32_t> two(2);
  EXPECT_THROW(stream->read(2, two), IndexError);
}

TEST(Tokens, StandForBytes) {
  const TokenBytes lengths(list({"<s>", "a", "abb", " the"}));
  EXPECT_EQ(lengths.of(std::vector<int32_t>{0, 1, 2, 3}), 0 + 1 + 3 + 4) << "within a text \" the\" keeps its space";
  EXPECT_EQ(TokenBytes(nullptr).of(std::vector<int32_t>{200, 1}), 2);
}

/// A Performer that gives every token the same probability.
RunConfig even(const std::string& path, int64_t vocab) {
  RunConfig config;
  config.model.performer = {.vocab = vocab, .d_model = 16, .layers = 1, .heads = 2, .d_ff = 16};
  config.data = {.path = path, .tokenizer = "a list", .seq = 11, .batch = 3};
  config.optim.lr = 1e-3;
  return config;
}
void make_even(nn::LanguageModel& model) {
  for (const auto& [name, parameter] : model.named_parameters())
    if (name.starts_with("head.")) fill(parameter, 0);
}

TEST(Tokens, BitsPerByteCountTheBytesThatScoredTokensStandFor) {
  const TemporaryDirectory dir;
  const TokenizerPtr tokenizer = list({"a", "b", "abb", " the"});
  const std::string text = repeated("abb the the a", 400);
  const RunConfig config = even(dir.write("text", text).string(), 4);
  const auto model = make_model(config);
  make_even(*model);
  // Every token costs 2 bits. Of "abb the the" + " "?: the blank before "a" is in no piece and is passed over, so 4 tokens stand for 12 bytes.
  const Evaluation whole = evaluate_text(config, *model, corpus_of(text), tokenizer);
  EXPECT_EQ(whole.tokens, 1600 - 1) << "only the first has nothing before it";
  EXPECT_NEAR(whole.loss(), std::log(4.), 1e-6);
  EXPECT_NEAR(whole.bits_per_byte(), 2. * double(whole.tokens) / double(whole.bytes), 1e-6);
  EXPECT_NEAR(whole.bits_per_byte(), 2 * 4 / 12., 1e-2);

  const Dataset data = Dataset::open(config.data, options_of(config, tokenizer));
  const Batch batch = data.train(0);
  EXPECT_FALSE(batch.narrow);
  EXPECT_EQ(batch.tokens[0], 2);
  EXPECT_EQ(batch.scored, 30);
  int64_t bytes = 0;
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t at = 1; at < 11; ++at) bytes += std::array{1, 1, 3, 4}[size_t(batch.tokens[size_t(row * 11 + at)])];
  EXPECT_EQ(batch.bytes, bytes);
  const Evaluation part = evaluate(config, *model, data);
  EXPECT_NEAR(part.bits_per_byte(), part.nats / std::log(2.) / double(part.bytes), 1e-12);
  EXPECT_NEAR(part.bits_per_byte(), 2 * 4 / 12., 3e-2);
}

TEST(Tokens, WithBytesNothingChanges) {
  const RunConfig config = even("", 256);
  const auto model = make_model(config);
  make_even(*model);
  const Evaluation e = evaluate_text(config, *model, corpus_of(repeated("abc", 50)), byte_tokenizer());
  EXPECT_EQ(e.bytes, e.tokens);
  EXPECT_NEAR(e.bits_per_byte(), 8, 1e-6);
  EXPECT_EQ(message_of<IoError>([&] { evaluate_text(config, *model, corpus_of("a"), nullptr); }), "memory: 1 bytes are too few; at least 2 are needed");
}

TEST(Tokens, AStepOfTokensIsPlannedAsItRuns) {
  const TemporaryDirectory dir;
  const TokenizerPtr tokenizer = list({"a", "b", "abb", " the"});
  RunConfig config = even(dir.write("text", repeated("abb the the a", 400)).string(), 4);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    config.train.dtype = dtype;
    const auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    const Dataset data = Dataset::open(config.data, options_of(config, tokenizer));
    const auto model = make_model(config);
    const auto optimizer = make_optimizer(config, *model);
    optimizer->prepare();
    const Plan planned = plan_step(config, false).step;
    const Plan run = record_plan(ledger, [&] { train_step(config, *model, *optimizer, feed(config, data.train(0)), 0); });
    EXPECT_EQ(first_difference(planned.events, run.events), "");
    EXPECT_EQ(planned.peak, run.peak);
    EXPECT_EQ(planned.base, run.base);
  }
}

}  // namespace
}  // namespace spool::train::testing
