#include <spool/nn/published.h>
#include <spool/tensor/error.h>

namespace spool::nn::published {

Sizes sizes_of(const LlamaConfig& c, int64_t batch, int64_t length) {
  return {.batch = batch, .length = length, .width = c.hidden_size, .feed_forward = c.feed_forward_size(), .heads = c.num_attention_heads, .key_heads = c.key_value_heads(),
          .head_dim = c.head_size(), .layers = c.num_hidden_layers, .vocabulary = c.vocab_size, .tied = c.tie_word_embeddings};
}

int64_t parameters(const Sizes& z) {
  const int64_t block = 2 * z.width * z.head_dim * (z.heads + z.key_heads) + 3 * z.width * z.feed_forward + 2 * z.width;
  return (z.tied ? 1 : 2) * z.vocabulary * z.width + z.layers * block + z.width;
}

Article article(const Sizes& z, int64_t p) {
  const int64_t h = z.width, f = z.feed_forward, a = z.heads;
  const auto layer = [p](int64_t weights, int64_t printed, int64_t activations) {
    return ArticleLayer{.weights = p * weights, .gradient = p * weights, .optimizer = 2 * p * weights, .activations = p * activations, .total = p * (printed + activations), .sum = p * (4 * weights + activations)};
  };
  Article out;
  out.mlp = layer(3 * h * f, 6 * h * f, z.tokens() * (h + 2 * f));
  out.attention = layer(3 * h * a + h * h, 6 * (h * a + h * h), z.batch * (3 * a * z.length * z.head_dim + a * z.length * z.length + z.length * h));
  out.total = z.layers * (out.mlp.total + out.attention.total);
  return out;
}

EagerLayer eager_layer(const Sizes& z) {
  const int64_t t = z.tokens();
  return {.norms = 2 * t * (8 * z.width + 4), .attention = 8 * t * z.heads * z.head_dim, .scores = 6 * t * z.heads * z.length, .mlp = 8 * t * z.feed_forward};
}
int64_t eager_loss(const Sizes& z) { return 14 * z.tokens() * z.vocabulary; }

int64_t megatron_layer(const Sizes& z, Megatron kind, int64_t parallel) {
  if (parallel < 1) fail<ConfigError>("megatron_layer: parallel must be at least 1, got ", parallel);
  const int64_t sbh = z.tokens() * z.width, scores = 5 * z.tokens() * z.heads * z.length;
  switch (kind) {
    case Megatron::none: return 34 * sbh + scores;
    case Megatron::tensor: return 10 * sbh + (24 * sbh + scores) / parallel;
    case Megatron::sequence: return (34 * sbh + scores) / parallel;
    case Megatron::selective: return 34 * sbh / parallel;
    case Megatron::full: break;
  }
  return 2 * sbh;
}

MegatronLm megatron_lm(const Sizes& z, int64_t data_parallel) {
  const int64_t h = z.width, t = z.tokens();
  MegatronLm out;
  out.parameters = z.layers * (2 * h * z.head_dim * (z.heads + z.key_heads) + 3 * h * z.feed_forward + 4 * h) + 2 * h + (z.tied ? 1 : 2) * z.vocabulary * h;
  out.state = data_parallel ? 6 * out.parameters + 12 * out.parameters / data_parallel : 18 * out.parameters;
  const int64_t ends = t * (8 + h) + 4 * t * (h + z.vocabulary);
  out.activations = z.layers * t * (18 * h + 4 * z.feed_forward) + ends;
  out.activations_swiglu = z.layers * t * (18 * h + 6 * z.feed_forward) + ends;
  return out;
}

}  // namespace spool::nn::published
