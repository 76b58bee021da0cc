#pragma once
// The step of a decoder with softmax attention, told op by op, as far as LLaMA and GPT agree: embedding, blocks, final norm, head and loss.
// What is between is the models' own. Private to the estimates.
#include <spool/nn/detail/schedule.h>

namespace spool::nn::detail {

/// Widths of a decoder, and what differs between the families in what they share.
struct DecoderWidths {
  int64_t hidden, vocabulary, layers;
  int64_t statistics;      ///< Kept by a norm for each row: 1 for rms, 2 for mean and scale.
  bool final_norm = true;  ///< Before the head.
  bool head_bias = false;
};

struct DecoderStep {
  const StepSizes& z;
  const DecoderWidths widths;
  const int64_t e, S, T;  ///< Bytes of an element and of a statistic; tokens.
  const int64_t h, V;
  const int64_t X, R;     ///< Bytes of [T, h]; of a norm's statistics.
  const int64_t copy;     ///< The tokens read or asked for, when they are not contiguous as they stand.
  Schedule s;
  Instant start;          ///< Start of backward.
  int64_t saved = 0;      ///< What the tape keeps then.

  DecoderStep(const StepSizes& sizes, const DecoderWidths& widths, int64_t base);
  virtual ~DecoderStep() = default;
  void run();

 protected:
  virtual void embed() = 0;  ///< From tokens to x.
  virtual void block() = 0;
  virtual void block_backward(int64_t layer) = 0;
  virtual void embed_backward() = 0;  ///< From x's cotangent, dropping it.

  Meta meta(const Shape& shape) const { return {shape, z.dtype}; }
  void linear(std::string_view name, int64_t in, int64_t out) { s.op(name, T * out * e, linear_scratch(T, in, out)); }
  /// Gradient of a weight [out, in] (and of a bias), then of its input [T, in].
  void linear_backward(std::string_view name, int64_t in, int64_t out, bool bias = false);
  /// dx [T, h] and the gradients of the weight and, where there is one, the bias; without one, what came in its place goes.
  void norm_backward(std::string_view name, bool bias);
  int64_t linear_scratch(int64_t rows, int64_t in, int64_t out) const;
  int64_t attention_scratch(int64_t heads, int64_t key_heads, int64_t dim, int64_t window, bool backward) const;

 private:
  void head(int64_t rows, int64_t targets_copy, bool kept);
  void head_backward(int64_t rows, int64_t targets_copy);
  void loss(int64_t chunk);
  void loss_backward(int64_t chunk);
};

}  // namespace spool::nn::detail
