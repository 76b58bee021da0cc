#include <spool/autograd/checkpoint.h>
#include <spool/autograd/tape.h>
#include <spool/nn/detail/next_token_loss.h>
#include <spool/nn/detail/run_blocks.h>
#include <spool/nn/llama.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/scalar.h>
#include <spool/ops/shape.h>
#include <spool/ops/swiglu.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <array>
#include <utility>

namespace spool::nn {
namespace {

constexpr std::array<std::pair<const char*, RotaryScaling::Kind>, 5> scalings{{
    {"default", RotaryScaling::Kind::none},
    {"linear", RotaryScaling::Kind::linear},
    {"ntk", RotaryScaling::Kind::ntk},
    {"dynamic", RotaryScaling::Kind::dynamic},
    {"llama3", RotaryScaling::Kind::llama3},
}};

const auto* scaling_named(const std::string& name) {
  const auto found = std::ranges::find_if(scalings, [&](const auto& s) { return s.first == name; });
  return found == scalings.end() ? nullptr : &*found;
}

const LlamaConfig& validated(const LlamaConfig& config) {
  config.validate();
  return config;
}

Dtype angle_type(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

}  // namespace

// LlamaConfig

RotaryOptions LlamaConfig::rotary() const {
  const RopeScalingConfig& s = rope_scaling;
  const auto* named = scaling_named(s.rope_type);
  return {.dim = head_size(),
          .theta = rope_theta,
          .scaling = {.kind = named ? named->second : RotaryScaling::Kind::none,
                      .factor = s.factor,
                      .low = s.low_freq_factor,
                      .high = s.high_freq_factor,
                      .original = s.original_max_position_embeddings ? s.original_max_position_embeddings : max_position_embeddings},
          .hf_compat = rope_hf_compat};
}

void LlamaConfig::validate() const {
  const auto at_least = [](const char* key, int64_t value, int64_t low) { if (value < low) fail<ConfigError>(key, ": must be at least ", low, ", got ", value); };
  at_least("vocab_size", vocab_size, 1);
  at_least("hidden_size", hidden_size, 1);
  at_least("intermediate_size", intermediate_size, 0);
  at_least("num_hidden_layers", num_hidden_layers, 1);
  at_least("num_attention_heads", num_attention_heads, 1);
  at_least("num_key_value_heads", num_key_value_heads, 0);
  at_least("head_dim", head_dim, 0);
  at_least("max_position_embeddings", max_position_embeddings, 1);
  at_least("sliding_window", sliding_window, 0);
  at_least("rope_scaling.original_max_position_embeddings", rope_scaling.original_max_position_embeddings, 0);
  if (!head_dim && hidden_size % num_attention_heads) fail<ConfigError>("num_attention_heads: ", num_attention_heads, " heads do not divide hidden_size = ", hidden_size, "; set head_dim otherwise");
  if (num_attention_heads % key_value_heads()) fail<ConfigError>("num_key_value_heads: ", key_value_heads(), " does not divide num_attention_heads = ", num_attention_heads);
  if (head_size() % 2) fail<ConfigError>("head_dim: must be even, got ", head_size());
  if (!(rms_norm_eps >= 0 && rms_norm_eps < 1)) fail<ConfigError>("rms_norm_eps: must be in [0, 1), got ", rms_norm_eps);
  if (!(rope_theta > 0)) fail<ConfigError>("rope_theta: must be above 0, got ", rope_theta);
  if (!(initializer_range > 0)) fail<ConfigError>("initializer_range: must be above 0, got ", initializer_range);
  if (!scaling_named(rope_scaling.rope_type)) fail<ConfigError>("rope_scaling.rope_type: unknown scaling \"", rope_scaling.rope_type, "\"; use default, linear, ntk, dynamic or llama3");
  if (!(rope_scaling.factor >= 1)) fail<ConfigError>("rope_scaling.factor: must be at least 1, got ", rope_scaling.factor);
  if (rope_scaling.rope_type == "llama3" && !(rope_scaling.low_freq_factor > 0 && rope_scaling.high_freq_factor > rope_scaling.low_freq_factor))
    fail<ConfigError>("rope_scaling.high_freq_factor: must be above low_freq_factor, and both above 0, got ", rope_scaling.high_freq_factor, " and ", rope_scaling.low_freq_factor);
}

// Attention

namespace {
Linear::Config plain(int64_t in, int64_t out) { return {.in = in, .out = out, .bias = false}; }
}  // namespace

LlamaForCausalLM::Attention::Attention(Slot at, const LlamaConfig& c)
    : Layer(at),
      config(c),
      q_proj(at("q_proj"), plain(c.hidden_size, c.num_attention_heads * c.head_size()), Init::normal(c.initializer_range)),
      k_proj(at("k_proj"), plain(c.hidden_size, c.key_value_heads() * c.head_size()), Init::normal(c.initializer_range)),
      v_proj(at("v_proj"), plain(c.hidden_size, c.key_value_heads() * c.head_size()), Init::normal(c.initializer_range)),
      o_proj(at("o_proj"), plain(c.num_attention_heads * c.head_size(), c.hidden_size), Init::normal(c.initializer_range)) {}

Tensor LlamaForCausalLM::Attention::mixed(const Tensor& x, const Tensor& angles, AttentionKind kind, KeyValueCache* cache, int64_t layer) const {
  const int64_t batch = x.size(0), length = x.size(1), dim = config.head_size();
  const auto heads = [&](const Tensor& projected, int64_t count) { return reshape(projected, {batch, length, count, dim}); };
  const RotaryPairs pairs = config.rope_interleaved ? RotaryPairs::interleaved : RotaryPairs::rotate_half;
  const Tensor q = rotary(heads(q_proj(x), config.num_attention_heads), angles, pairs);
  Tensor k = rotary(heads(k_proj(x), config.key_value_heads()), angles, pairs), v = heads(v_proj(x), config.key_value_heads());
  AttentionOptions options{.causal = true, .window = config.sliding_window};
  if (cache) {
    options.q_offset = cache->position;
    cache->append(layer, k, v);
  }
  const auto attend = kind == AttentionKind::blockwise ? attention : attention_materialised;
  return reshape(attend(q, k, v, options), {batch, length, config.num_attention_heads * dim});
}

Tensor LlamaForCausalLM::Attention::forward(const Tensor& x, const Tensor& angles, AttentionKind kind, KeyValueCache* cache, int64_t layer) const {
  return o_proj(mixed(x, angles, kind, cache, layer));  // queries, keys and values are let go of before
}

// FeedForward

LlamaForCausalLM::FeedForward::FeedForward(Slot at, const LlamaConfig& c)
    : Layer(at),
      gate_proj(at("gate_proj"), plain(c.hidden_size, c.feed_forward_size()), Init::normal(c.initializer_range)),
      up_proj(at("up_proj"), plain(c.hidden_size, c.feed_forward_size()), Init::normal(c.initializer_range)),
      down_proj(at("down_proj"), plain(c.feed_forward_size(), c.hidden_size), Init::normal(c.initializer_range)) {}

Tensor LlamaForCausalLM::FeedForward::forward(const Tensor& x) const {
  Tensor gated;
  {
    const Tensor gate = gate_proj(x);  // named: the order of arguments is the compiler's, and plans are compared event by event
    gated = swiglu(gate, up_proj(x));
  }
  return down_proj(gated);
}

// Block

LlamaForCausalLM::Block::Block(Slot at, const LlamaConfig& c)
    : Layer(at),
      input_layernorm(at("input_layernorm"), {.dim = c.hidden_size, .eps = c.rms_norm_eps}),
      self_attn(at("self_attn"), c),
      post_attention_layernorm(at("post_attention_layernorm"), {.dim = c.hidden_size, .eps = c.rms_norm_eps}),
      mlp(at("mlp"), c) {}

Tensor LlamaForCausalLM::Block::forward(const Tensor& x, const Tensor& angles, const LossOptions& options, KeyValueCache* cache, int64_t layer) const {
  const auto attend = [this, angles, kind = options.attention, cache, layer](const Tensor& input) { return self_attn(input_layernorm(input), angles, kind, cache, layer); };
  const auto attended = [&] { return options.recompute.attention_at(layer) ? checkpoint("attention", attend, x) : attend(x); };
  // What attention returns is let go of as soon as it is added.
  if (options.feed_forward_chunk && options.feed_forward_chunk < x.size(1)) {
    const Tensor sum = x + attended();
    return blockwise(sum, options.feed_forward_chunk, [this](const Tensor& h) { return h + mlp(post_attention_layernorm(h)); });
  }
  const AddedNorm h = post_attention_layernorm.added(x, attended());
  return h.sum + mlp(h.y);
}

// Decoder

LlamaForCausalLM::Decoder::Decoder(Slot at, const LlamaConfig& c)
    : Layer(at),
      config(c),
      embed_tokens(at("embed_tokens"), {.count = c.vocab_size, .dim = c.hidden_size}, Init::normal(c.initializer_range)),
      layers(at("layers"), c.num_hidden_layers, c),
      norm(at("norm"), {.dim = c.hidden_size, .eps = c.rms_norm_eps}) {}

Tensor LlamaForCausalLM::Decoder::forward(const Tensor& tokens, const LossOptions& options, KeyValueCache* cache) const {
  Tensor x = embed_tokens(tokens);
  const Tensor angles = rotary_angles(tokens.size(1), cache ? cache->position : 0, config.rotary(), angle_type(x.dtype()), x.device());
  x = detail::run_blocks(options, layers, std::move(x), [this, angles, options, cache](int64_t i, const Tensor& input) { return layers[i](input, angles, options, cache, i); });
  return norm(x);
}

// LlamaForCausalLM

LlamaForCausalLM::LlamaForCausalLM(Slot at, const LlamaConfig& c) : Layer(at), config_(validated(c)), model(at("model"), config_) {
  if (!c.tie_word_embeddings) lm_head.emplace(at("lm_head"), plain(c.hidden_size, c.vocab_size), Init::normal(c.initializer_range));
}

const Tensor& LlamaForCausalLM::head() const { return lm_head ? lm_head->weight.value : model.embed_tokens.weight.value; }

Tensor LlamaForCausalLM::forward(const Tensor& tokens) const { return linear(model(tokens), head()); }

Tensor LlamaForCausalLM::training_loss(const TokenBatch& batch, const LossOptions& options) const {
  const With path(&Ambient::path, interned_path());
  return detail::next_token_loss("llama", batch, options, head(), [&](const Tensor& tokens) { return model(tokens, options); });
}

std::unique_ptr<DecodeState> LlamaForCausalLM::begin(int64_t batch, int64_t capacity) const {
  const Tensor& table = model.embed_tokens.weight;
  return std::make_unique<KeyValueCache>(config_.num_hidden_layers, Meta{Shape{batch, capacity, config_.key_value_heads(), config_.head_size()}, table.dtype(), table.device()});
}

Tensor LlamaForCausalLM::decode(DecodeState& state, const Tensor& tokens) const {
  const With path(&Ambient::path, interned_path());
  const NoGrad quiet;
  auto& cache = dynamic_cast<KeyValueCache&>(state);
  cache.check_room("llama", tokens.size(1));
  Tensor logits = linear(model(tokens, LossOptions(), &cache), head());
  cache.position += tokens.size(1);
  return logits;
}

}  // namespace spool::nn
