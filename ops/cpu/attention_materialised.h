#pragma once
// Softmax attention with its matrix of weights, head by head, as products and passes over rows. Private to ops/.
#include <spool/ops/cpu/attention.h>

namespace spool::kernels {

/// Bytes of scratch: one head's scores, and for 16-bit types sums that cannot be formed where they go.
int64_t materialised_scratch(const AttentionSizes& sizes, Dtype dtype, bool backward);

/// Fills out, and weights [batch, heads, L, S] where they are defined.
void materialised_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& weights, const AttentionOptions& options, std::span<std::byte> scratch);

/// Fills dq, dk and dv.
struct MaterialisedGradient {
  const Tensor &dout, &q, &k, &v, &weights;
  const Tensor &dq, &dk, &dv;
};
void materialised_backward(const MaterialisedGradient& x, const AttentionOptions& options, std::span<std::byte> scratch);

}  // namespace spool::kernels
