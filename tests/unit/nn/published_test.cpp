// Formulas as others published them: the numbers that they print, and the eager inventory against a list of saved tensors.
#include <spool/nn/published.h>

#include <gtest/gtest.h>

#include "tests/support.h"

namespace spool::test {
namespace {

namespace published = nn::published;
using published::Megatron;

constexpr published::Sizes seven{.batch = 8, .length = 2048, .width = 4096, .feed_forward = 11008, .heads = 32, .key_heads = 32, .head_dim = 128, .layers = 32, .vocabulary = 32000};

TEST(Published, TheArticlesExample) {
  const published::Article a = published::article(seven, 2);
  EXPECT_EQ(a.mlp.total, 1'396'703'232) << "as printed, with 6hf";
  EXPECT_EQ(a.mlp.sum, 1'937'768'448) << "its own terms added up: 12hf";
  EXPECT_EQ(a.mlp.weights, 2 * 135'266'304);
  EXPECT_EQ(a.mlp.activations, 855'638'016);
  EXPECT_EQ(a.attention.weights, 2 * 17'170'432) << "3ha + h²";
  EXPECT_EQ(a.total, 137'086'631'936);
  EXPECT_EQ(a.total, 32 * (a.mlp.total + a.attention.total));
  EXPECT_EQ(published::parameters(seven), 6'738'415'616);
}

TEST(Published, ArticleTermsOverShapes) {
  for (const int64_t p : {1, 2, 4}) {
    for (const published::Sizes& z : {seven, published::Sizes{.batch = 3, .length = 7, .width = 12, .feed_forward = 20, .heads = 3, .key_heads = 1, .head_dim = 4, .layers = 2, .vocabulary = 50}}) {
      const published::Article a = published::article(z, p);
      for (const published::ArticleLayer& layer : {a.mlp, a.attention}) {
        EXPECT_EQ(layer.gradient, layer.weights);
        EXPECT_EQ(layer.optimizer, 2 * layer.weights);
        EXPECT_EQ(layer.sum, layer.weights + layer.gradient + layer.optimizer + layer.activations);
      }
      EXPECT_EQ(a.mlp.sum - a.mlp.total, p * 6 * z.width * z.feed_forward);
      EXPECT_EQ(a.attention.sum - a.attention.total, p * (6 * z.width * z.heads - 2 * z.width * z.width));
    }
  }
}

/// A tensor that the eager layer saves: elements and bytes of each.
struct Kept {
  const char* what;
  int64_t elements, each;
};
int64_t listed(const published::Sizes& z) {
  const int64_t x = z.batch * z.length * z.width, gated = z.batch * z.length * z.feed_forward, scores = z.batch * z.heads * z.length * z.length;
  const int64_t heads = z.batch * z.heads * z.length * z.head_dim, rows = z.batch * z.length;
  const Kept list[] = {
      {"norm 1: x in f32", x, 4}, {"norm 1: rstd", rows, 4}, {"norm 1: normalised", x, 2}, {"input of q, k, v", x, 2},
      {"q, turned", heads, 2}, {"k, turned and repeated", heads, 2}, {"v, repeated", heads, 2}, {"softmax in f32", scores, 4}, {"softmax in bf16", scores, 2}, {"input of o", heads, 2},
      {"norm 2: x in f32", x, 4}, {"norm 2: rstd", rows, 4}, {"norm 2: normalised", x, 2}, {"input of gate, up", x, 2},
      {"gate", gated, 2}, {"silu(gate)", gated, 2}, {"up", gated, 2}, {"input of down", gated, 2}};
  int64_t sum = 0;
  for (const Kept& k : list) sum += k.elements * k.each;
  return sum;
}

TEST(Published, EagerLayerIsItsListOfSavedTensors) {
  // Five shapes: batch, positions, width, feed-forward, query and key heads. Keys and values are repeated, so key heads change nothing.
  constexpr int64_t shapes[5][6] = {{1, 16, 64, 176, 4, 4}, {2, 16, 64, 176, 4, 2}, {2, 24, 64, 176, 4, 1}, {3, 8, 128, 344, 8, 8}, {1, 33, 96, 256, 4, 4}};
  for (const auto& s : shapes) {
    const published::Sizes z{.batch = s[0], .length = s[1], .width = s[2], .feed_forward = s[3], .heads = s[4], .key_heads = s[5], .head_dim = s[2] / s[4], .layers = 1, .vocabulary = 100};
    const int64_t formula = z.tokens() * (24 * z.width + 8 * z.feed_forward + 6 * z.heads * z.length + 8);
    EXPECT_EQ(published::eager_layer(z).total(), formula);
    EXPECT_EQ(published::eager_layer(z).total(), listed(z)) << z.batch << "×" << z.length;
  }
  EXPECT_EQ(32 * published::eager_layer(seven).total(), 303'873'130'496) << "Llama 2 7B, batch 8, 2,048 positions";
  EXPECT_EQ(published::eager_loss(seven), 7'340'032'000);
}

TEST(Published, Megatron) {
  // GPT-3 of 175 B: 96 layers of width 12,288, 96 heads, 2,048 positions; micro-batch 1. 5as/h is 80.
  const published::Sizes gpt3{.batch = 1, .length = 2048, .width = 12288, .feed_forward = 4 * 12288, .heads = 96, .key_heads = 96, .head_dim = 128, .layers = 96, .vocabulary = 51200};
  const int64_t sbh = int64_t(2048) * 12288;
  EXPECT_EQ(published::megatron_layer(gpt3, Megatron::none), sbh * (34 + 80));
  EXPECT_EQ(published::megatron_layer(gpt3, Megatron::tensor, 8), sbh * (10 + 3 + 10));
  EXPECT_EQ(published::megatron_layer(gpt3, Megatron::sequence, 8), sbh * (34 + 80) / 8);
  EXPECT_EQ(published::megatron_layer(gpt3, Megatron::selective, 8), sbh * 34 / 8) << "70 % less, as the paper says";
  EXPECT_EQ(published::megatron_layer(gpt3, Megatron::full), 2 * sbh);
  EXPECT_EQ(published::megatron_layer(gpt3, Megatron::tensor, 1), published::megatron_layer(gpt3, Megatron::none));
  EXPECT_THROW(published::megatron_layer(gpt3, Megatron::tensor, 0), ConfigError);
}

TEST(Published, MegatronLmScript) {
  const published::MegatronLm lm = published::megatron_lm(seven), shared = published::megatron_lm(seven, 4);
  EXPECT_EQ(lm.parameters - published::parameters(seven), (2 * 32 + 1) * 4096) << "a bias for each norm";
  EXPECT_EQ(lm.state, 18 * lm.parameters);
  EXPECT_EQ(shared.state, 9 * lm.parameters);
  EXPECT_EQ(lm.activations_swiglu - lm.activations, int64_t(32) * 16384 * 2 * 11008);
  EXPECT_EQ(lm.activations, int64_t(32) * 16384 * (18 * 4096 + 4 * 11008) + int64_t(16384) * (8 + 4096 + 4 * 4096 + 4 * 32000));
}

}  // namespace
}  // namespace spool::test
