#pragma once
// LLaMA 1, 2, 3, 3.1 and 3.2, and Mistral: a pre-norm decoder with rotary positions, grouped-query attention and a gated feed-forward
// block. Modules, parameters and configuration keys have Hugging Face's names, so that weights are exchanged as they are (llama_files.h).
// Attention is blockwise: no length × length matrix exists, forward or backward.
#include <spool/nn/language_model.h>
#include <spool/nn/layers.h>
#include <spool/ops/attention.h>
#include <spool/ops/rotary.h>

#include <string>

namespace spool::nn {

/// How positions beyond the trained length are brought into it; Hugging Face's `rope_scaling`.
struct RopeScalingConfig {
  std::string rope_type = "default";  ///< default, linear, ntk, dynamic or llama3; see RotaryScaling.
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_max_position_embeddings = 0;  ///< 0: the model's max_position_embeddings.

  template <class Self, class V> static void visit_fields(Self& self, V&& v) {
    v("rope_type", self.rope_type, "scaling of rotary positions: default, linear, ntk, dynamic or llama3");
    v("factor", self.factor, "scaling factor: of positions or wavelengths");
    v("low_freq_factor", self.low_freq_factor, "llama3: wavelengths longer than original / this are scaled in full");
    v("high_freq_factor", self.high_freq_factor, "llama3: wavelengths shorter than original / this are left alone");
    v("original_max_position_embeddings", self.original_max_position_embeddings, "length that the frequencies were trained for; 0: max_position_embeddings");
  }
};

struct LlamaConfig {
  int64_t vocab_size = 256;
  int64_t hidden_size = 256;
  int64_t intermediate_size = 0;    ///< 0: 8/3 of hidden_size, up to a multiple of 32.
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 0;  ///< 0: as many as attention heads. Query head h uses key head h / (heads / key heads).
  int64_t head_dim = 0;             ///< 0: hidden_size / num_attention_heads.
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000;
  RopeScalingConfig rope_scaling;
  bool tie_word_embeddings = false;
  int64_t sliding_window = 0;  ///< Mistral: positions that a query sees, itself included; 0: all.
  double initializer_range = 0.02;
  bool rope_interleaved = false;  ///< Pairs (2j, 2j + 1) as in Meta's own files, instead of (j, j + head_dim/2) as in Hugging Face's.
  bool rope_hf_compat = false;    ///< Rotary angles as f32 products, as Hugging Face forms them, instead of f64.

  int64_t key_value_heads() const { return num_key_value_heads ? num_key_value_heads : num_attention_heads; }
  int64_t head_size() const { return head_dim ? head_dim : hidden_size / num_attention_heads; }
  int64_t feed_forward_size() const { return intermediate_size ? intermediate_size : (8 * hidden_size / 3 + 31) / 32 * 32; }
  RotaryOptions rotary() const;
  void validate() const;  ///< Throws ConfigError naming the key.

  template <class Self, class V> static void visit_fields(Self& self, V&& v) {
    v("vocab_size", self.vocab_size, "symbols");
    v("hidden_size", self.hidden_size, "width of the model");
    v("intermediate_size", self.intermediate_size, "width of the feed-forward block; 0: 8/3 of hidden_size, up to a multiple of 32");
    v("num_hidden_layers", self.num_hidden_layers, "layers");
    v("num_attention_heads", self.num_attention_heads, "attention heads");
    v("num_key_value_heads", self.num_key_value_heads, "key and value heads; 0: as many as attention heads");
    v("head_dim", self.head_dim, "width of a head; 0: hidden_size / num_attention_heads");
    v("max_position_embeddings", self.max_position_embeddings, "longest sequence that the model was made for");
    v("rms_norm_eps", self.rms_norm_eps, "epsilon of the norms: added to the mean square");
    v("rope_theta", self.rope_theta, "base of the rotary frequencies");
    v("rope_scaling", self.rope_scaling, "rotary scaling");
    v("tie_word_embeddings", self.tie_word_embeddings, "tied embeddings: the head uses the embedding's table");
    v("sliding_window", self.sliding_window, "window: positions that a query sees, itself included; 0: all");
    v("initializer_range", self.initializer_range, "standard deviation of the initial weights");
    v("rope_interleaved", self.rope_interleaved, "rotary pairs (2j, 2j + 1) instead of (j, j + head_dim/2)");
    v("rope_hf_compat", self.rope_hf_compat, "rotary angles as f32 products, as Hugging Face forms them");
  }
};

class LlamaForCausalLM : public Layer<LlamaForCausalLM, LanguageModel> {
 public:
  LlamaForCausalLM(Slot at, const LlamaConfig& config);
  const LlamaConfig& config() const { return config_; }

  /// Logits [batch, length, vocab] of tokens [batch, length] at positions 0, 1, …
  Tensor forward(const Tensor& tokens) const;

  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.max_position_embeddings; }
  Tensor training_loss(const TokenBatch& batch, const LossOptions& options = {}) const override;
  std::unique_ptr<DecodeState> begin(int64_t batch, int64_t capacity) const override;
  Tensor decode(DecodeState& state, const Tensor& tokens) const override;

  struct Attention : Layer<Attention> {
    Attention(Slot at, const LlamaConfig& config);
    const LlamaConfig& config;
    Linear q_proj, k_proj, v_proj, o_proj;
    /// x [batch, length, hidden]; angles of its positions; with a cache, the layer's keys and values are appended at cache->position.
    Tensor forward(const Tensor& x, const Tensor& angles, AttentionKind kind, KeyValueCache* cache, int64_t layer) const;
    Tensor mixed(const Tensor& x, const Tensor& angles, AttentionKind kind, KeyValueCache* cache, int64_t layer) const;  ///< The heads' results side by side, before o_proj.
  };
  struct FeedForward : Layer<FeedForward> {
    FeedForward(Slot at, const LlamaConfig& config);
    Linear gate_proj, up_proj, down_proj;
    Tensor forward(const Tensor& x) const;  ///< down(silu(gate(x)) · up(x))
  };
  struct Block : Layer<Block> {
    Block(Slot at, const LlamaConfig& config);
    RmsNorm input_layernorm;
    Attention self_attn;
    RmsNorm post_attention_layernorm;
    FeedForward mlp;
    Tensor forward(const Tensor& x, const Tensor& angles, const LossOptions& options = {}, KeyValueCache* cache = nullptr, int64_t layer = 0) const;
  };
  struct Decoder : Layer<Decoder> {
    Decoder(Slot at, const LlamaConfig& config);
    const LlamaConfig& config;
    Embedding embed_tokens;
    List<Block> layers;
    RmsNorm norm;
    /// Normalised hidden states [batch, length, hidden].
    Tensor forward(const Tensor& tokens, const LossOptions& options = {}, KeyValueCache* cache = nullptr) const;
  };

 private:
  const Tensor& head() const;
  const LlamaConfig config_;

 public:
  Decoder model;
  std::optional<Linear> lm_head;  ///< Absent when the embeddings are tied.
};
using Llama = LlamaForCausalLM;

}  // namespace spool::nn
