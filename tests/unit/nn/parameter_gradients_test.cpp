// Every parameter of every model learns from one step: its gradient is there, finite and not zero.
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <cmath>

namespace spool::test {
namespace {

Tensor tokens(int64_t batch, int64_t length, int64_t vocab) {
  Rng rng(3);
  return rng.integers({batch, length + 1}, 0, vocab);
}

void expect_all_learn(const nn::LanguageModel& model, const nn::LossOptions& options, const std::string& what) {
  for (const auto& [name, parameter] : model.named_parameters()) parameter.set_grad({});
  Tape tape;
  tape.backward(model.training_loss(nn::token_batch(tokens(2, 11, model.vocab_size())), options));
  for (const auto& [name, parameter] : model.named_parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << what << ": " << name;
    const double size = norm(parameter.grad()).item();
    EXPECT_TRUE(std::isfinite(size) && size > 0) << what << ": " << name << " has a gradient of norm " << size;
  }
}

TEST(Cases, A11EveryParameterGetsAGradient) {
  for (const char* feature : {"sqr", "relu", "elu+1", "favor+"})
    for (const auto place : {nn::NormPlacement::branch, nn::NormPlacement::pre}) {
      const nn::Performer model(nn::root({.dtype = Dtype::f64}), {.vocab = 17, .d_model = 16, .layers = 2, .heads = 2, .d_ff = 24, .feature = feature, .norm = place, .ngram = 2, .out_projection = true});
      expect_all_learn(model, {}, concat("performer, ", feature));
      expect_all_learn(model, {.chunk = 4}, concat("performer in slices, ", feature));
    }
  const nn::Llama llama(nn::root({.dtype = Dtype::f64}),
                        {.vocab_size = 17, .hidden_size = 16, .intermediate_size = 24, .num_hidden_layers = 2, .num_attention_heads = 4, .num_key_value_heads = 2, .max_position_embeddings = 32, .tie_word_embeddings = false});
  const nn::Gpt gpt(nn::root({.dtype = Dtype::f64}), {.vocab_size = 17, .n_positions = 11, .n_embd = 16, .n_layer = 2, .n_head = 2});
  for (const auto attention : {nn::AttentionKind::blockwise, nn::AttentionKind::materialised}) {
    expect_all_learn(llama, {.attention = attention}, "llama");
    expect_all_learn(gpt, {.attention = attention}, "gpt");
  }
}

// The gradients of weight and bias are reduced from the cotangent while the gradient of x could be written over it.
TEST(Cases, A20ThreeThousandBackwardPassesOfLayerNormGiveOneBitPattern) {
  const int before = num_threads();
  set_num_threads(3);
  Rng rng(5);
  const Tensor x = rng.normal({401, 64}).requires_grad(true), weight = rng.normal({64}).requires_grad(true), bias = rng.normal({64}).requires_grad(true), g = rng.normal({401, 64});
  std::vector<std::vector<double>> first;
  for (int i = 0; i < 3000; ++i) {
    for (const Tensor& t : {x, weight, bias}) t.set_grad({});
    Tape tape;
    const Tensor y = layer_norm(x, weight, bias) + 0.0;  // so that the cotangent that arrives belongs to nobody else
    tape.backward({y}, {g});
    const std::vector<std::vector<double>> now = {x.grad().to_vector<double>(), weight.grad().to_vector<double>(), bias.grad().to_vector<double>()};
    if (first.empty()) first = now;
    ASSERT_EQ(now, first) << "run " << i;
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace spool::test
