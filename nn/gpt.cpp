#include <spool/autograd/checkpoint.h>
#include <spool/autograd/tape.h>
#include <spool/nn/detail/next_token_loss.h>
#include <spool/nn/detail/run_blocks.h>
#include <spool/nn/gpt.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/attention.h>
#include <spool/ops/expand.h>
#include <spool/ops/scalar.h>
#include <spool/ops/shape.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cmath>

namespace spool::nn {
namespace {

const GptConfig& validated(const GptConfig& config) {
  config.validate();
  return config;
}
Init weights(const GptConfig& c) { return Init::normal(c.initializer_range); }
/// What ends in the residual stream starts smaller, by 1/√(2 · layers), so that the stream's variance does not grow with depth.
Init into_residual(const GptConfig& c) { return Init::normal(c.initializer_range / std::sqrt(2.0 * double(c.n_layer))); }

}  // namespace

void GptConfig::validate() const {
  const auto at_least = [](const char* key, int64_t value, int64_t low) { if (value < low) fail<ConfigError>(key, ": must be at least ", low, ", got ", value); };
  at_least("vocab_size", vocab_size, 1);
  at_least("n_positions", n_positions, 1);
  at_least("n_embd", n_embd, 1);
  at_least("n_layer", n_layer, 1);
  at_least("n_head", n_head, 1);
  at_least("n_inner", n_inner, 0);
  if (n_embd % n_head) fail<ConfigError>("n_head: ", n_head, " heads do not divide n_embd = ", n_embd);
  if (activation_function != "gelu_new" && activation_function != "gelu") fail<ConfigError>("activation_function: unknown function \"", activation_function, "\"; use gelu_new or gelu");
  if (!(layer_norm_epsilon >= 0 && layer_norm_epsilon < 1)) fail<ConfigError>("layer_norm_epsilon: must be in [0, 1), got ", layer_norm_epsilon);
  if (!(dropout >= 0 && dropout < 1)) fail<ConfigError>("dropout: must be in [0, 1), got ", dropout);
  if (!(initializer_range > 0)) fail<ConfigError>("initializer_range: must be above 0, got ", initializer_range);
}

Gpt::Attention::Attention(Slot at, const GptConfig& c)
    : Layer(at), config(c), c_attn(at("c_attn"), {.in = c.n_embd, .out = 3 * c.n_embd}, weights(c)), c_proj(at("c_proj"), {.in = c.n_embd, .out = c.n_embd}, into_residual(c)) {}

Tensor Gpt::Attention::forward(const Tensor& x, AttentionKind kind, KeyValueCache* cache, int64_t layer) const {
  const Shape heads{x.size(0), x.size(1), 3, config.n_head, config.n_embd / config.n_head};
  const Tensor qkv = reshape(c_attn(x), heads);
  const Tensor q = select(qkv, 2, 0);
  Tensor k = select(qkv, 2, 1), v = select(qkv, 2, 2);
  AttentionOptions options{.causal = true};
  if (cache) {
    options.q_offset = cache->position;
    cache->append(layer, k, v);
  }
  const auto attend = kind == AttentionKind::blockwise ? attention : attention_materialised;
  return c_proj(reshape(attend(q, k, v, options), x.shape()));
}

Gpt::FeedForward::FeedForward(Slot at, const GptConfig& c)
    : Layer(at),
      activation(c.activation_function == "gelu" ? Activation::gelu_erf : Activation::gelu_tanh),
      c_fc(at("c_fc"), {.in = c.n_embd, .out = c.feed_forward_size()}, weights(c)),
      c_proj(at("c_proj"), {.in = c.feed_forward_size(), .out = c.n_embd}, into_residual(c)) {}

Gpt::Block::Block(Slot at, const GptConfig& c)
    : Layer(at),
      ln_1(at("ln_1"), {.dim = c.n_embd, .eps = c.layer_norm_epsilon}),
      attn(at("attn"), c),
      ln_2(at("ln_2"), {.dim = c.n_embd, .eps = c.layer_norm_epsilon}),
      mlp(at("mlp"), c),
      attn_dropout(at("attn_dropout"), c.dropout),
      mlp_dropout(at("mlp_dropout"), c.dropout) {}

Tensor Gpt::Block::forward(const Tensor& x, const LossOptions& options, KeyValueCache* cache, int64_t layer) const {
  const auto attend = [this, kind = options.attention, cache, layer](const Tensor& input) { return attn_dropout(attn(ln_1(input), kind, cache, layer)); };
  const Tensor h = x + (options.recompute.attention_at(layer) ? checkpoint("attention", attend, x) : attend(x));
  // Dropout is outside of the pieces: which elements fall is a function of the position in the sequence.
  const Tensor fed = blockwise(h, options.feed_forward_chunk, [this](const Tensor& part) { return mlp(ln_2(part)); });
  return h + mlp_dropout(fed);
}

Gpt::Decoder::Decoder(Slot at, const GptConfig& c)
    : Layer(at),
      wte(at("wte"), {.count = c.vocab_size, .dim = c.n_embd}, weights(c)),
      wpe(at("wpe"), {.count = c.n_positions, .dim = c.n_embd}, weights(c)),
      drop(at("drop"), c.dropout),
      h(at("h"), c.n_layer, c),
      ln_f(at("ln_f"), {.dim = c.n_embd, .eps = c.layer_norm_epsilon}) {}

Tensor Gpt::Decoder::forward(const Tensor& tokens, const LossOptions& options, KeyValueCache* cache) const {
  const int64_t first = cache ? cache->position : 0, length = tokens.size(1), most = wpe.weight.value.size(0);
  if (first + length > most) fail<ShapeError>("gpt: ", first + length, " positions are more than n_positions = ", most);
  const auto embedded = [&] {
    const Tensor words = wte(tokens);
    return words + expand(narrow(wpe.weight, 0, first, length), words.shape());
  };
  Tensor x = drop(embedded());
  x = detail::run_blocks(options, h, std::move(x), [this, options, cache](int64_t i, const Tensor& input) { return h[i](input, options, cache, i); });
  return ln_f(x);
}

Gpt::Gpt(Slot at, const GptConfig& c) : Layer(at), config_(validated(c)), transformer_(at("transformer"), config_) {
  if (!c.tie_word_embeddings) lm_head_.emplace(at("lm_head"), Linear::Config{.in = c.n_embd, .out = c.vocab_size, .bias = false}, weights(c));
}

Tensor Gpt::forward(const Tensor& tokens) const { return linear(transformer_(tokens, LossOptions(), nullptr), head()); }

Tensor Gpt::training_loss(const TokenBatch& batch, const LossOptions& options) const {
  const With path(&Ambient::path, interned_path());
  return detail::next_token_loss("gpt", batch, options, head(), [&](const Tensor& tokens) { return transformer_(tokens, options, nullptr); });
}

std::unique_ptr<DecodeState> Gpt::begin(int64_t batch, int64_t capacity) const {
  const Tensor& table = transformer_.wte.weight;
  return std::make_unique<KeyValueCache>(config_.n_layer, Meta{Shape{batch, capacity, config_.n_head, config_.n_embd / config_.n_head}, table.dtype(), table.device()});
}

Tensor Gpt::decode(DecodeState& state, const Tensor& tokens) const {
  const With path(&Ambient::path, interned_path());
  const NoGrad quiet;
  auto& cache = dynamic_cast<KeyValueCache&>(state);
  cache.check_room("gpt", tokens.size(1));
  Tensor logits = linear(transformer_(tokens, LossOptions(), &cache), head());
  cache.position += tokens.size(1);
  return logits;
}

}  // namespace spool::nn
