#pragma once
// GPT-2 (Radford et al. 2019): a pre-norm decoder with learned positions, LayerNorm and GELU; the softmax model that the Performer is
// compared with. Parameters have Hugging Face's names; linear weights are [out, in] as everywhere here, where its GPT-2 files keep [in, out].
#include <spool/nn/language_model.h>
#include <spool/nn/layers.h>

#include <string>

namespace spool::nn {

struct GptConfig {
  int64_t vocab_size = 256;
  int64_t n_positions = 1024;  ///< Longest sequence: the rows of the position table.
  int64_t n_embd = 256;
  int64_t n_layer = 4;
  int64_t n_head = 4;
  int64_t n_inner = 0;  ///< Width of the feed-forward block; 0: 4 · n_embd.
  std::string activation_function = "gelu_new";  ///< gelu_new (the tanh form, as GPT-2) or gelu (erf).
  double layer_norm_epsilon = 1e-5;
  double dropout = 0;  ///< Of embeddings and of both branches.
  bool tie_word_embeddings = true;
  double initializer_range = 0.02;

  int64_t feed_forward_size() const { return n_inner ? n_inner : 4 * n_embd; }
  void validate() const;  ///< Throws ConfigError naming the key.

  template <class Self, class V> static void visit_fields(Self& self, V&& v) {
    v("vocab_size", self.vocab_size, "symbols");
    v("n_positions", self.n_positions, "longest sequence: rows of the position table");
    v("n_embd", self.n_embd, "width of the model");
    v("n_layer", self.n_layer, "layers");
    v("n_head", self.n_head, "attention heads");
    v("n_inner", self.n_inner, "width of the feed-forward block; 0: 4 * n_embd");
    v("activation_function", self.activation_function, "activation: gelu_new (tanh) or gelu (erf)");
    v("layer_norm_epsilon", self.layer_norm_epsilon, "epsilon of the norms: added to the variance");
    v("dropout", self.dropout, "probability of zeroing an activation");
    v("tie_word_embeddings", self.tie_word_embeddings, "tied embeddings: the head uses the embedding's table");
    v("initializer_range", self.initializer_range, "standard deviation of the initial weights");
  }
};

class Gpt : public Layer<Gpt, LanguageModel> {
 public:
  Gpt(Slot at, const GptConfig& config);
  const GptConfig& config() const { return config_; }

  /// Logits [batch, length, vocab] of tokens [batch, length] at positions 0, 1, …
  Tensor forward(const Tensor& tokens) const;

  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.n_positions; }
  Tensor training_loss(const TokenBatch& batch, const LossOptions& options = {}) const override;
  std::unique_ptr<DecodeState> begin(int64_t batch, int64_t capacity) const override;
  Tensor decode(DecodeState& state, const Tensor& tokens) const override;

 private:
  struct Attention : Layer<Attention> {
    Attention(Slot at, const GptConfig& config);
    const GptConfig& config;
    Linear c_attn, c_proj;  ///< c_attn [3 · n_embd, n_embd]: queries, keys, values.
    Tensor forward(const Tensor& x, AttentionKind kind, KeyValueCache* cache, int64_t layer) const;
  };
  struct FeedForward : Layer<FeedForward> {
    FeedForward(Slot at, const GptConfig& config);
    Activation activation;
    Linear c_fc, c_proj;
    Tensor forward(const Tensor& x) const { return c_proj(c_fc(x, activation)); }
  };
  struct Block : Layer<Block> {
    Block(Slot at, const GptConfig& config);
    LayerNorm ln_1;
    Attention attn;
    LayerNorm ln_2;
    FeedForward mlp;
    Dropout attn_dropout, mlp_dropout;
    Tensor forward(const Tensor& x, const LossOptions& options, KeyValueCache* cache, int64_t layer) const;
  };
  struct Decoder : Layer<Decoder> {
    Decoder(Slot at, const GptConfig& config);
    Embedding wte, wpe;
    Dropout drop;
    List<Block> h;
    LayerNorm ln_f;
    Tensor forward(const Tensor& tokens, const LossOptions& options, KeyValueCache* cache) const;
  };
  const Tensor& head() const { return lm_head_ ? lm_head_->weight.value : transformer_.wte.weight.value; }

  const GptConfig config_;
  Decoder transformer_;
  std::optional<Linear> lm_head_;
};

}  // namespace spool::nn
