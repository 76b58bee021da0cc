#pragma once
// A Performer over so many positions of each sequence, told op by op: all of them, or a slice whose states are handed in and out. Private
// to the estimates.
#include <spool/nn/detail/decoder_part.h>

namespace spool::nn::detail {

/// Sizes of one layer's state.
struct PerformerState {
  const bool wide;       ///< f64, whatever the model's type.
  const int64_t size;    ///< Bytes of an element.
  const int64_t bytes;   ///< Of the whole state, [batch, heads, M, d + 1].
  PerformerState(const PerformerConfig& config, const StepSizes& sizes);
};

/// What becomes of the states at both ends of a part.
struct PerformerEnds {
  bool handed = false;     ///< The state after the part stays: the next part's, or backward's.
  bool inverted = false;   ///< The state before the part is subtracted from the one after it ...
  bool replaces = false;   ///< ... which goes then.
  bool cotangent = false;  ///< The state after the part has a cotangent, from the part after this one.
  bool wanted = false;     ///< The state before the part gets one.
  bool shared_loss = false; ///< The loss' cotangent is that of other parts, too.
};

struct PerformerPart : DecoderPart {
  PerformerPart(const PerformerConfig& config, const StepSizes& sizes, const PerformerState& state, Schedule& schedule, int64_t begin, int64_t end);

  PerformerEnds ends;

  /// From the tokens to the loss. `kept`: everything that backward needs stays.
  void forward(bool kept);
  /// From the loss' cotangent, which goes unless it is shared, to all gradients; what was kept goes.
  void backward();

  /// What stays of each: the embeddings and the tokens with those in front, a block, the logits, the loss' log-sums and targets.
  struct Kept {
    int64_t embedded = 0, block = 0, logits = 0, loss = 0;
  };
  Kept kept();

 private:
  void embed();
  void embed_backward();
  void projection(std::string_view name, bool mapped, bool kept);
  void projection_backward(std::string_view name, bool mapped);
  void features(bool kept);
  void features_backward();
  void attention(bool kept);
  void attention_backward(bool owns_cotangent);
  void feed_forward(bool kept);
  void block(bool kept);
  void block_backward();
  void head(bool kept);
  void head_backward();
  void dropout() { if (c.dropout > 0) s.op("dropout", X); }
  int64_t dropped() const { return c.dropout > 0 ? X : 0; }
  int64_t attention_scratch(std::string_view op) const;

  const PerformerConfig& c;
  const PerformerState& state;
  const bool pre, favor;
  const bool activation_again;
  const int64_t f, F;            // feed-forward width, bytes of [T, f]
  const int64_t half_x, sines;   // bytes of the learned half of the embeddings, and of one sequence's sinusoids
  const int64_t M, P, N;         // features a head; bytes of queries' or keys' features, and of a number for each head
  const int64_t den;             // bytes of the denominators
  const int64_t targets;         // bytes of targets with a mask
  const int64_t lacking;         // tokens that stand before the first and are not there
  const int64_t padded;          // bytes of the tokens with those in front; 0 when they are read where they lie
};

}  // namespace spool::nn::detail
