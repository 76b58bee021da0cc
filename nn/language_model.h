#pragma once
// What every causal language model of this library offers. Trainers, evaluation and generation are written against it, so that a new
// model family needs nothing from them.
#include <spool/autograd/scan.h>
#include <spool/nn/module.h>
#include <spool/nn/recompute.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace spool::nn {

/// Token sequences to be learned from. The model reads tokens[:, :-1] and is asked for tokens[:, 1:].
struct TokenBatch {
  Tensor tokens;       ///< u8, i32 or i64 [batch, L].
  Tensor mask;         ///< bool [batch, L] or undefined: whether a token counts as a target. Column 0 never does.
  int64_t scored = 0;  ///< Targets that count: the loss is divided by it. With gradient accumulation, those of all parts of the step.
};
/// A batch without a mask: every token but the first counts.
TokenBatch token_batch(Tensor tokens);

/// Targets [batch, end − begin] of positions [begin, end): the next tokens, with `ignored_target` where the mask says so.
Tensor targets_of(const TokenBatch& batch, int64_t begin, int64_t end);
inline constexpr int64_t ignored_target = -100;

/// How softmax attention is computed.
enum class AttentionKind : uint8_t {
  blockwise,     ///< No length × length matrix exists: `attention`.
  materialised,  ///< The matrix of weights is kept: `attention_materialised`. For comparison.
};

/// How a loss is computed: memory against work, never the result.
struct LossOptions {
  std::optional<int64_t> chunk;  ///< C of Algorithm 1: positions a slice, for models that have one (`sliced()`).
  StatePolicy state = StatePolicy::subtract64;
  Recompute recompute;             ///< Which blocks are run again in backward.
  std::vector<std::string> recompute_ops;  ///< Ops or modules whose results are made again from what backward keeps anyway. See RecomputeOps.
  AttentionKind attention = AttentionKind::blockwise;
  int64_t loss_chunk = 0;          ///< Rows of logits that exist at a time; 0: all. See linear_cross_entropy.
  int64_t feed_forward_chunk = 0;  ///< Positions of the feed-forward block at a time, recomputed in backward; 0: all. See blockwise.
};

/// What a model knows of the tokens that it was fed so far.
struct DecodeState {
  virtual ~DecodeState() = default;
  int64_t position = 0;  ///< Tokens fed: the position of the next one.
};

/// The state of a model with softmax attention: keys and values of the tokens so far, for every layer [batch, capacity, key heads, head_dim].
struct KeyValueCache : DecodeState {
  Tensors keys, values;
  int64_t capacity = 0;
  KeyValueCache(int64_t layers, const Meta& layer);
  /// Writes k and v [batch, n, key heads, head_dim] of a layer's next n tokens and makes them views of all up to and with these.
  void append(int64_t layer, Tensor& k, Tensor& v) const;
  /// Throws ShapeError when n more tokens do not fit.
  void check_room(std::string_view model, int64_t n) const;
};

class LanguageModel : public Module {
 public:
  using Module::Module;
  virtual int64_t vocab_size() const = 0;
  virtual bool sliced() const { return false; }  ///< Whether `LossOptions::chunk` means anything.
  virtual int64_t max_positions() const { return 0; }  ///< Longest sequence the model can place; 0: no limit.

  /// Mean cross-entropy in nats over the scored targets; 0 when nothing is scored. ConfigError for options that the model does not have.
  virtual Tensor training_loss(const TokenBatch& batch, const LossOptions& options) const = 0;

  /// An empty state for `batch` streams of at most `capacity` tokens each.
  virtual std::unique_ptr<DecodeState> begin(int64_t batch, int64_t capacity) const = 0;
  /// Logits [batch, n, vocab] of the next n ≥ 1 tokens [batch, n]; advances the state. Records nothing. `state` comes from this model's `begin`.
  virtual Tensor decode(DecodeState& state, const Tensor& tokens) const = 0;
};

}  // namespace spool::nn
