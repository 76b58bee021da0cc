#pragma once
// The Performer of "Sub-Linear Memory: How to Make Performers SLiM" (Likhosherstov et al., NeurIPS 2021), as its reference code builds it:
// a causal language model whose attention is linear, so that a sequence can be run slice by slice with a state of fixed size.
#include <spool/autograd/scan.h>
#include <spool/nn/language_model.h>
#include <spool/nn/layers.h>
#include <spool/ops/linear_attention.h>

#include <string>
#include <vector>

namespace spool::nn {

/// Where a layer normalises. `branch`: h = x + LN(Att(x)), the language-modelling runs; `pre`: h = x + Att(LN(x)), the copying task.
enum class NormPlacement { branch, pre };

struct PerformerConfig {
  int64_t vocab = 256;
  int64_t d_model = 256;  ///< A multiple of 4 and of `heads`.
  int64_t layers = 3;
  int64_t heads = 4;
  int64_t d_ff = 1024;
  std::string feature = "sqr";  ///< g of the paper: sqr, relu, elu+1, abs, favor+ or favor+_n (n random blocks).
  NormPlacement norm = NormPlacement::branch;
  int64_t ngram = 1;            ///< Tokens embedded at a position: it and the ngram − 1 before it, summed. The paper's models have 1.
  bool out_projection = false;  ///< A map W_O after the heads; the reference has none.
  double dropout = 0;
  double eps = 1e-16;           ///< Added to the denominator; see linear_attention.

  /// Features a head: M of the paper.
  int64_t features() const;
  /// Elements of all states of one sequence: layers · M · (d + 1) · heads.
  int64_t state_elements() const { return layers * features() * (d_model / heads + 1) * heads; }
  void validate() const;  ///< Throws ConfigError naming the key.

  template <class Self, class V>
  static void visit_fields(Self& self, V&& v) {
    v("vocab", self.vocab, "symbols");
    v("d_model", self.d_model, "width of the model");
    v("layers", self.layers, "layers");
    v("heads", self.heads, "attention heads");
    v("d_ff", self.d_ff, "width of the feed-forward block");
    v("feature", self.feature, "feature map: sqr, relu, elu+1, abs, favor+ or favor+_n");
    v("norm", self.norm, "where a layer normalises: branch or pre");
    v("ngram", self.ngram, "tokens embedded at a position: the token and those before it; the paper has 1");
    v("out_projection", self.out_projection, "a linear map after the heads");
    v("dropout", self.dropout, "probability of zeroing an activation");
    v("eps", self.eps, "added to the attention's denominator");
  }
};

class Performer : public Layer<Performer, LanguageModel> {
 public:
  Performer(Slot at, const PerformerConfig& config);
  const PerformerConfig& config() const { return config_; }

  /// Logits [batch, length, vocab] for tokens [batch, length] that start at `position`, from zero state; nothing stands before them.
  Tensor forward(const Tensor& tokens, int64_t position = 0) const;

  /// Mean cross-entropy in nats over the scored targets, all positions on one tape. 0 when nothing is scored.
  Tensor loss(const TokenBatch& batch) const;
  /// The same number through `scan` in slices of `chunk` positions: memory for one slice, one more forward pass.
  Tensor chunked_loss(const TokenBatch& batch, int64_t chunk, StatePolicy policy = StatePolicy::subtract64, double* residue = nullptr) const;

  /// Σ of cross-entropy over the scored targets of positions [begin, end), with the states of the layers taken from and left with `carry`
  /// (state i is layer i's): one term of Algorithm 1, for those who walk the slices themselves.
  Tensor slice_loss(const TokenBatch& batch, int64_t begin, int64_t end, Carry& carry) const;

  /// A stream that is fed piece by piece: a state [batch, heads, M, d + 1] for each layer, the position of the next token, and the
  /// ngram − 1 tokens before it.
  struct Stream : DecodeState {
    Tensors states;
    Tensor recent;
  };
  Stream stream(int64_t batch, Dtype state_dtype = Dtype::f32) const;
  /// Logits of the next tokens [batch, n] of the stream, n ≥ 1; advances it. One token costs the same at any position.
  Tensor advance(Stream& stream, const Tensor& tokens) const;

  int64_t vocab_size() const override { return config_.vocab; }
  bool sliced() const override { return true; }
  Tensor training_loss(const TokenBatch& batch, const LossOptions& options) const override;
  std::unique_ptr<DecodeState> begin(int64_t batch, int64_t capacity) const override;  ///< The size of the state does not depend on `capacity`.
  Tensor decode(DecodeState& state, const Tensor& tokens) const override { return advance(dynamic_cast<Stream&>(state), tokens); }

  /// Draws the random features of favor+ anew (a no-op for the other maps).
  void redraw_features(RandomKey key);

 private:
  struct Attention : Layer<Attention> {
    Attention(Slot at, const PerformerConfig& config);
    const PerformerConfig& config;
    Linear query, key, value;
    std::optional<Linear> output;
    std::optional<Buffer> omega;
    Tensor forward(const Tensor& x, Carry& carry, int layer) const;
    LinearAttentionOptions options() const;
    Tensor features(const Tensor& projected) const;
  };
  struct Block : Layer<Block> {
    Block(Slot at, const PerformerConfig& config);
    const PerformerConfig& config;
    Attention attention;
    LayerNorm attention_norm;
    Linear up, down;
    LayerNorm feed_forward_norm;
    Dropout attention_dropout, feed_forward_dropout;
    Tensor forward(const Tensor& x, Carry& carry, int layer, int64_t position) const;
    Tensor feed_forward(const Tensor& x) const;
  };

  /// Columns [begin, end) of tokens and the ngram − 1 before them; token 0 where the sequence has none.
  Tensor window(const Tensor& tokens, int64_t begin, int64_t end) const;
  /// Sum of the embeddings of each position's tokens, those of a window.
  Tensor embedded(const Tensor& window) const;
  Tensor hidden(const Tensor& window, int64_t position, Carry& carry) const;

  const PerformerConfig config_;
  Embedding embed_;
  List<Embedding> preceding_;  // one token back, two back, …
  List<Block> layers_;
  Linear head_;
};

}  // namespace spool::nn
