// Random small models written by Hugging Face transformers (tests/golden/make_models.py): the same logits, loss and gradients here.
#include <cmath>
#include <map>

#include "tests/support.h"

namespace spool::test {
namespace {

std::string golden_directory(const std::string& name) { return std::string(SPOOL_SOURCE_DIR) + "/tests/golden/models/" + name; }

double difference(const Tensor& got, const Tensor& expected) {
  const auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  EXPECT_EQ(a.size(), b.size());
  double error = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) error += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  return std::sqrt(error / size);
}

/// Logits within 1e-4, loss and every gradient to a relative 1e-5, whatever is recomputed.
void compare(const nn::LanguageModel& model, const std::function<Tensor(const Tensor&)>& logits_of, const std::string& directory) {
  std::map<std::string, Tensor> golden;
  for (const auto& [name, value] : load_safetensors(directory + "/golden.safetensors")) golden.emplace(name, value);
  const Tensor tokens = golden.at("tokens");
  {
    const NoGrad quiet;
    const auto got = logits_of(tokens).to_vector<double>(), expected = golden.at("logits").to_vector<double>();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << "logit " << i;
  }
  for (const nn::LossOptions& options : {nn::LossOptions{}, nn::LossOptions{.recompute = nn::Recompute::block, .loss_chunk = 9, .feed_forward_chunk = 7}}) {
    Tape tape;
    const Tensor loss = model.training_loss(nn::token_batch(tokens), options);
    EXPECT_NEAR(loss.item(), golden.at("loss").item(), 1e-5 * golden.at("loss").item());
    tape.backward(loss);
    size_t compared = 0;
    for (const auto& [name, parameter] : model.named_parameters()) {
      ASSERT_TRUE(golden.contains("grad." + name)) << name;
      ASSERT_TRUE(parameter.grad().defined()) << name;
      EXPECT_LE(difference(parameter.grad(), golden.at("grad." + name)), 1e-5) << name;
      ++compared;
    }
    size_t expected = 0;
    for (const auto& [name, value] : golden) expected += name.starts_with("grad.");
    EXPECT_EQ(compared, expected);
    const_cast<nn::LanguageModel&>(model).zero_grad();
  }
}

nn::LlamaConfig sizes() {
  return {.vocab_size = 64, .hidden_size = 48, .intermediate_size = 48, .num_hidden_layers = 2, .num_attention_heads = 6, .num_key_value_heads = 2, .max_position_embeddings = 128};
}

void compare_llama(const std::string& name, const nn::LlamaConfig& config) {
  nn::Llama model(nn::root(), config);
  model.load(golden_directory(name) + "/model.safetensors");
  compare(model, [&](const Tensor& tokens) { return model(tokens); }, golden_directory(name));
}

TEST(GoldenModels, LlamaGroupedUntiedScaled) {
  nn::LlamaConfig config = sizes();
  config.rope_theta = 500000;
  config.rope_scaling = {.rope_type = "llama3", .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position_embeddings = 32};
  compare_llama("llama", config);
}

TEST(GoldenModels, LlamaTiedWithItsOwnHeadSize) {
  nn::LlamaConfig config = sizes();
  config.head_dim = 12;
  config.num_key_value_heads = 3;
  config.tie_word_embeddings = true;
  compare_llama("llama_tied", config);
}

TEST(GoldenModels, MistralWithAWindow) {
  nn::LlamaConfig config = sizes();
  config.head_dim = 16;
  config.sliding_window = 9;
  compare_llama("mistral", config);
}

TEST(GoldenModels, Gpt2) {
  nn::Gpt model(nn::root(), {.vocab_size = 64, .n_positions = 64, .n_embd = 32, .n_layer = 2, .n_head = 4});
  NamedTensors state;
  for (auto& [name, value] : load_safetensors(golden_directory("gpt2") + "/golden.safetensors"))
    if (name.starts_with("value.")) state.emplace_back(name.substr(6), value);
  model.load(state);
  compare(model, [&](const Tensor& tokens) { return model(tokens); }, golden_directory("gpt2"));
}

TEST(Gpt, ACacheAndRecomputationChangeNothing) {
  Rng rng(2);
  const nn::Gpt model(nn::root({.dtype = Dtype::f64}), {.vocab_size = 40, .n_positions = 32, .n_embd = 24, .n_layer = 2, .n_head = 3});
  const Tensor tokens = rng.integers({2, 20}, 0, 40, Dtype::i32);
  const auto whole = model(tokens).to_vector<double>();
  const auto state = model.begin(2, 20);
  std::vector<double> last;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 7}, {7, 8}, {8, 20}}) last = model.decode(*state, slice(tokens, 1, begin, end)).to_vector<double>();
  for (size_t row = 0; row < 2; ++row)
    for (size_t i = 0; i < 12 * 40; ++i) ASSERT_NEAR(last[row * 12 * 40 + i], whole[(row * 20 + 8) * 40 + i], 1e-12);
}

TEST(Gpt, DropoutFallsTheSameInRecomputation) {
  Rng rng(2);
  const nn::TokenBatch batch = nn::token_batch(rng.integers({2, 20}, 0, 40, Dtype::i32));
  std::vector<std::vector<double>> results;
  for (const nn::LossOptions& options : {nn::LossOptions{}, nn::LossOptions{.recompute = nn::Recompute::attention}, nn::LossOptions{.recompute = nn::Recompute::block},
                                         nn::LossOptions{.feed_forward_chunk = 6}}) {
    const nn::Gpt model(nn::root({.dtype = Dtype::f64}), {.vocab_size = 40, .n_positions = 32, .n_embd = 24, .n_layer = 2, .n_head = 3, .dropout = 0.3});
    const With random(&Ambient::random, RandomKey(7));
    Tape tape;
    const Tensor loss = model.training_loss(batch, options);
    tape.backward(loss);
    std::vector<double> all{loss.item()};
    for (const auto& [name, parameter] : model.named_parameters()) {
      const auto values = parameter.grad().to_vector<double>();
      all.insert(all.end(), values.begin(), values.end());
    }
    results.push_back(all);
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
  for (size_t i = 0; i < results[0].size(); ++i) ASSERT_NEAR(results[3][i], results[0][i], 1e-12);
}

}  // namespace
}  // namespace spool::test
