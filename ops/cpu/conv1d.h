#pragma once
// One-dimensional convolution on the CPU: forward, and the gradients of input and weight, which are convolutions too. Private to ops/.
//
// Tap j of output t reads element t·stride + j·dilation − left. With one input channel a group, rows of outputs are sums of shifted rows.
// Otherwise each tap is a matrix product that reads x and weight where they lie: y[o, t] += weight[o, i, j]·x[i, t·stride + …]. Sums run over
// taps in order, in f32 or f64; bits do not depend on the number of threads.
#include <spool/tensor/tensor.h>

#include <cstddef>
#include <span>

namespace spool::kernels {

struct Conv1dSizes {
  int64_t batch = 0, in = 0, length = 0, out = 0, kernel = 1, out_length = 0;
  int64_t stride = 1, left = 0, dilation = 1, groups = 1;
  int64_t group_in() const { return in / groups; }
  int64_t group_out() const { return out / groups; }
  /// The element that tap j of output 0 reads.
  int64_t shift(int64_t j) const { return j * dilation - left; }
  /// Outputs [first, last) whose tap at this shift reads elements in [low, high).
  struct Range {
    int64_t first, last;
    int64_t count() const { return last - first; }
  };
  Range outputs(int64_t shift, int64_t low, int64_t high) const;
};

enum class Conv1dPart : uint8_t { forward, input, weight };
int64_t conv1d_scratch(const Conv1dSizes& sizes, Dtype dtype, Conv1dPart part);

// All tensors are contiguous, of one float type.
void conv1d_forward(const Conv1dSizes& sizes, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y, std::span<std::byte> scratch);
void conv1d_input(const Conv1dSizes& sizes, const Tensor& dy, const Tensor& weight, const Tensor& dx, std::span<std::byte> scratch);
void conv1d_weight(const Conv1dSizes& sizes, const Tensor& dy, const Tensor& x, const Tensor& dweight, std::span<std::byte> scratch);

}  // namespace spool::kernels
