#pragma once
// The step of a decoder with softmax attention, as far as LLaMA and GPT agree: embedding, blocks, final norm, head and loss. What is
// between is the models' own. Private to the estimates.
#include <spool/nn/detail/decoder_part.h>

#include <string_view>
#include <vector>

namespace spool::nn::detail {

struct DecoderStep : DecoderPart {
  DecoderStep(const StepSizes& sizes, const DecoderWidths& widths, Schedule& schedule, bool gathered);
  virtual ~DecoderStep() = default;
  void forward();   ///< From the tokens to the loss, before it is scaled.
  void scaled();    ///< What goes once the loss is scaled.
  int64_t kept_by_loss() const { return T * V * e + T * S + (z.masked ? targets_ : 0) + ids(); }  ///< Logits, log-sums, tokens and what counts of them.
  void backward();  ///< From that loss' cotangent, dropping it.

 protected:
  virtual void embed() = 0;  ///< From tokens to x.
  /// From x, which stays, to the block's output. What is not kept goes.
  virtual void block(bool attention_kept, bool feed_forward_kept) = 0;
  /// From the output's cotangent to x's; all that was kept and x go. `again`: the attention part runs again first.
  virtual void block_backward(int64_t index, bool again) = 0;
  virtual void embed_backward() = 0;  ///< From x's cotangent, dropping it.
  /// Bytes that attention gives besides its result, when backward follows and when none does: its log-sums, or the weights.
  int64_t attention_record(int64_t heads, bool kept) const { return !materialised() ? T * heads * S : kept ? z.batch * heads * length * length * e : 0; }
  bool materialised() const { return z.loss.attention == AttentionKind::materialised; }
  /// What the attention op declares, and its work.
  int64_t attention_scratch(int64_t heads, int64_t key_heads, int64_t dim, int64_t window, bool backward) const;

 private:
  /// Blocks begin … end − 1 are run, and run again, together.
  struct Unit {
    int64_t begin, end;
    bool scope, attention;
    bool like(const Unit& o) const { return end - begin == o.end - o.begin && scope == o.scope && attention == o.attention; }
  };
  std::vector<Unit> units() const;
  template <class F> void each(std::vector<Unit> units, const F& f);
  void head(int64_t rows, int64_t targets_copy, bool kept);
  void head_backward(int64_t rows, int64_t targets_copy);
  void loss();
  void loss_backward();
  int64_t ids() const { return z.batch * (z.length + 1) * (z.byte_tokens ? 1 : 4) + (z.masked ? z.batch * (z.length + 1) : 0); }
  void masked_targets();
  void scope_backward(int64_t begin, int64_t end);
  const int64_t targets_;  ///< Bytes of targets that are not read where the tokens lie.
  const int64_t chunk_;  ///< Rows of logits at a time; 0: all.
};

/// Throws ConfigError when slices are asked for, since softmax attention has none, and when recomputation is asked of blocks that are not there.
void require_whole(const StepSizes& sizes, int64_t layers);

}  // namespace spool::nn::detail
