#pragma once
// Convolution along a sequence (strictly a cross-correlation, as everywhere in deep learning).
#include <spool/tensor/tensor.h>

namespace spool {

/// Zeros before and after a sequence: `.padding = 2` is 2 at both ends, `.padding = {4, 0}` at one.
struct Padding {
  int64_t left = 0, right = 0;
  constexpr Padding() = default;
  constexpr Padding(int64_t both) : left(both), right(both) {}  // NOLINT: a number is meant to work
  constexpr Padding(int64_t l, int64_t r) : left(l), right(r) {}
};

struct Conv1dOptions {
  int64_t stride = 1;
  Padding padding = {};
  int64_t dilation = 1;  ///< Distance between the elements that neighbouring taps read.
  int64_t groups = 1;    ///< Channels are cut into this many parts, each with its own part of the outputs.
  bool causal = false;   ///< (kernel − 1)·dilation zeros on the left, none on the right: y[t] reads nothing after x[t·stride].
};

/// y[b, o, t] = bias[o] + Σ_i Σ_j weight[o, i, j]·x[b, g + i, t·stride + j·dilation − left] for x [batch, in, length], weight [out,
/// in/groups, kernel] and bias [out] or undefined, as in PyTorch; i runs over the in/groups channels from g of the output's group, and x is 0
/// outside of the sequence. y is [batch, out, ⌊(length + left + right − dilation·(kernel − 1) − 1)/stride⌋ + 1]; a sequence that with its
/// padding is shorter than the kernel reaches is refused, but an empty one that is causal gives an empty result. One float type; 16-bit types
/// are computed in f32. groups = in (depthwise) runs over the length in vector code, other groups are a matrix product a tap; nothing is
/// unfolded. Keeps x and weight, as far as the other's gradient needs them; gradients are convolutions, of any order. ShapeError, ConfigError
/// and DtypeError name what does not fit.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv1dOptions options = {});

}  // namespace spool
