#pragma once
// What decoders are made of, told op by op, for so many positions of each sequence: all of them, or a slice. Private to the estimates.
#include <spool/nn/detail/schedule.h>

#include <initializer_list>
#include <string_view>

namespace spool::nn::detail {

/// Widths of a decoder, and what differs between the families in what they share.
struct DecoderWidths {
  int64_t hidden, vocabulary, layers;
  int64_t statistics;      ///< Kept by a norm for each row: 1 for rms, 2 for mean and scale.
  bool final_norm = true;  ///< Before the head.
  bool head_bias = false;
};

struct DecoderPart {
  const StepSizes& z;
  const DecoderWidths widths;
  Schedule& s;
  const int64_t length;      ///< Positions of each sequence.
  const int64_t e, S, T;     ///< Bytes of an element and of a statistic, as the loss is one; tokens.
  const int64_t h, V;
  const int64_t X, R;        ///< Bytes of [T, h]; of a norm's statistics.
  const int64_t copy;        ///< The tokens read or asked for, when they are not contiguous as they stand.
  bool norms_again = false;  ///< What norms give is made again in backward.
  bool gathered = false;     ///< Every parameter has a gradient already, to which this part's are added.

  int64_t unless_remade(bool kept) const { return kept && !norms_again ? 0 : X; }  ///< What goes of a norm's output when it was read.

  DecoderPart(const StepSizes& sizes, const DecoderWidths& widths, Schedule& schedule, int64_t length);

 protected:
  /// A norm's output, where it is made again for those that read it.
  void norm_again(std::string_view name, int64_t beside = 0) { if (norms_again) s.op(name, X, 0, beside); }
  Meta meta(const Shape& shape) const { return {shape, z.dtype}; }
  void linear(std::string_view name, int64_t in, int64_t out) { linear(name, in, out, T * out * e); }
  void linear(std::string_view name, int64_t in, int64_t out, int64_t results) {
    s.op(name, results, linear_scratch(T, in, out));
    s.work(2.0 * double(T) * double(in) * double(out));
  }
  /// Gradient of a weight [out, in] (and of a bias), then of its input [T, in]. `beside`: the cotangent made contiguous, where it is not.
  void linear_backward(std::string_view name, int64_t in, int64_t out, bool bias = false, int64_t beside = 0) { linear_backward(name, T, in, out, bias, gathered, beside); }
  void linear_backward(std::string_view name, int64_t rows, int64_t in, int64_t out, bool bias, bool added, int64_t beside = 0);
  /// dx [T, h] and the gradients of the weight and, where there is one, the bias; without one, what came in its place goes.
  /// `beside`: x made contiguous.
  void norm_backward(std::string_view name, bool bias, int64_t beside = 0);
  /// The same for a norm whose parts of the weight's gradient come to be even where they are added to one that is there.
  void added_norm_backward(std::string_view name);
  int64_t linear_scratch(int64_t rows, int64_t in, int64_t out) const;
};

/// Whether `op` is among those to recompute; each of those must be in `known`. Throws ConfigError: others have no closed form.
bool remakes(const StepSizes& sizes, std::string_view op, std::initializer_list<std::string_view> known);

/// Throws ConfigError unless everything is kept as it comes.
void require_plain(const StepSizes& sizes);

}  // namespace spool::nn::detail
