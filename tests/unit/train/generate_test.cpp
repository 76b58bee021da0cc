// Generation: what is fed, where it ends, and that a stop text is found however tokens cut it.
#include "train/generate.h"

#include <spool/autograd/tape.h>
#include <spool/nn/performer.h>

#include <numeric>

#include "fakes.h"
#include "support.h"

namespace spool::train::testing {
namespace {

const ListTokenizer words({"<s>", "</s>", "a", "b", "ab", " the", " cat", ". En", "d of", " it", "\xc3", "\xa9"});
GenerateOptions greedy(int64_t tokens, std::vector<std::string> stop = {}) { return {.tokens = tokens, .sampling = {.temperature = 0}, .stop = std::move(stop)}; }
struct Said {
  std::string text;
  std::vector<std::string> pieces;
  Generated made;
};
Said say(const nn::LanguageModel& model, const Tokenizer& tokenizer, std::string_view prompt, const GenerateOptions& options) {
  Said out;
  out.made = generate(model, tokenizer, prompt, options, [&](std::string_view piece) {
    out.text += piece;
    out.pieces.emplace_back(piece);
  });
  return out;
}

TEST(Generate, FeedsBeginTokenPromptAndEachChoice) {
  const ScriptedModel model(12, {5, 6, 5}, 3);
  const Said said = say(model, words, "ab cat", greedy(3));
  EXPECT_EQ(said.text, " the cat the");
  EXPECT_EQ(said.pieces, (std::vector<std::string>{" the", " cat", " the"})) << "as it comes";
  EXPECT_EQ(model.fed, (std::vector<int32_t>{0, 4, 6, 5, 6})) << "the last choice need not be fed";
  EXPECT_EQ(model.pieces, (std::vector<int64_t>{3, 1, 1}));
  EXPECT_EQ(model.capacity, 6);
  EXPECT_EQ(said.made.prompt_tokens, 3);
  EXPECT_EQ(said.made.tokens, 3);
  EXPECT_EQ(said.made.ending, Ending::tokens);
  EXPECT_EQ(say(ScriptedModel(12, {}, 1), words, "", greedy(0)).text, "");
}

TEST(Generate, AnEndTokenEndsItUnprinted) {
  const Said said = say(ScriptedModel(12, {5, 1, 6}, 2), words, "a", greedy(10));
  EXPECT_EQ(said.text, " the");
  EXPECT_EQ(said.made.tokens, 2);
  EXPECT_EQ(said.made.ending, Ending::end_token);
}

TEST(Generate, AStopTextThatSeveralTokensShareIsFoundAndNotPrinted) {
  const std::vector<int32_t> script{5, 6, 7, 8, 9, 5};  // " the cat. End of it the"
  const Said whole = say(ScriptedModel(12, script, 2), words, "a", greedy(6));
  EXPECT_EQ(whole.text, " the cat. End of it the");
  for (const std::string stop : {"End", ". End of i", "t. End of", "d of it", "the cat"}) {
    const Said said = say(ScriptedModel(12, script, 2), words, "a", greedy(6, {"never", stop}));
    EXPECT_EQ(said.text, whole.text.substr(0, whole.text.find(stop))) << stop;
    EXPECT_EQ(said.made.ending, Ending::stop) << stop;
  }
  EXPECT_EQ(say(ScriptedModel(12, script, 2), words, "a", greedy(6, {"End of the"})).text, whole.text) << "what only began like it is printed";
  EXPECT_EQ(say(ScriptedModel(12, script, 2), words, "a", greedy(3, {"End of it"})).text, " the cat. En") << "also when the tokens run out";
  EXPECT_EQ(say(ScriptedModel(12, script, 2), words, " the cat", greedy(6, {"the cat. "})).made.ending, Ending::tokens) << "the prompt is not looked at";
}

TEST(Generate, BytesOfACharacterArePrintedAsTheyCome) {
  const Said said = say(ScriptedModel(12, {10, 11}, 2), words, "a", greedy(2));
  EXPECT_EQ(said.pieces, (std::vector<std::string>{"\xc3", "\xa9"}));
}

TEST(Generate, StaysWithinThePositionsAndTheTokenizersIds) {
  const Said said = say(ScriptedModel(12, {5, 5, 5, 5, 5}, 2, 5), words, "a", greedy(10));
  EXPECT_EQ(said.made.tokens, 3);
  EXPECT_EQ(said.made.ending, Ending::positions);
  const ScriptedModel small(12, {}, 2, 2);
  EXPECT_EQ(message_of<ConfigError>([&] { say(small, words, "aaaa", greedy(1)); }), "--prompt: has 5 tokens, but the model 2 positions; give a shorter one");
  const ScriptedModel padded(64, {40, 6}, 2);  // 40 is no token: a model's vocabulary may be larger
  EXPECT_EQ(say(padded, words, "a", greedy(2)).made.tokens, 2);
}

TEST(Generate, OptionsOutOfRange) {
  const ScriptedModel model(12, {}, 1);
  EXPECT_TRUE(message_of<ConfigError>([&] { say(model, words, "", {.tokens = -1}); }).starts_with("--tokens: "));
  EXPECT_TRUE(message_of<ConfigError>([&] { say(model, words, "", {.stop = {""}}); }).starts_with("--stop: "));
  EXPECT_TRUE(message_of<ConfigError>([&] { say(model, words, "", {.sampling = {.top_p = 2}}); }).starts_with("--top-p: "));
}

TEST(Generate, APerformerFedInPiecesSaysWhatItsWholeForwardSays) {
  const nn::Performer model(nn::root({.seed = 5}), {.vocab = 256, .d_model = 16, .layers = 2, .heads = 2, .d_ff = 32, .ngram = 2});
  const TokenizerPtr bytes = byte_tokenizer();
  std::string prompt;
  for (int i = 0; i < 2500; ++i) prompt += char(' ' + i * 7 % 90);  // three pieces
  const Said said = say(model, *bytes, prompt, greedy(4));
  EXPECT_EQ(said.made.prompt_tokens, 2500);
  ASSERT_EQ(said.text.size(), 4u);
  const NoGrad quiet;
  for (const char next : said.text) {
    Tensor tokens = empty({1, int64_t(prompt.size())}, Dtype::u8);
    std::copy(prompt.begin(), prompt.end(), reinterpret_cast<char*>(tokens.data<uint8_t>()));
    const auto logits = model.forward(tokens).to_vector<float>();
    const auto last = logits.end() - 256;
    EXPECT_EQ(char(std::max_element(last, logits.end()) - last), next);
    prompt += next;
  }
}

}  // namespace
}  // namespace spool::train::testing
