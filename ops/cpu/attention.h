#pragma once
// Blockwise softmax attention on the CPU. Private to ops/.
//
// A unit of work is a tile of queries: rows of one head, or, where a head has few (decoding), those of several heads of one group. It
// walks over tiles of keys and values. Scores are kept transposed, a key a row and a query a column, so that the softmax over keys runs
// down columns in vector code, and so that no product needs a transposed copy of keys or values:
//
//   forward    S = K·Qᵀ   P = e^{S − m}   O = O·e^{m_old − m} + Pᵀ·V
//   backward   S = K·Qᵀ   P = e^{S − lse}   dP = V·dOᵀ   dS = P∘(dP − D)   dV += P·dO   dK += dS·Q   dQ += dSᵀ·K
//
// with D = rowsum(dO∘O) − dlse. Tiles are converted to the compute type and padded while they are copied into the scratch, so strides,
// 16-bit types and odd head sizes cost nothing further in.
#include <spool/autograd/op.h>
#include <spool/ops/attention.h>

#include <cstddef>
#include <span>

namespace spool::detail {
/// Throws ShapeError and DtypeError for q, k, v and options that do not go together.
void check_attention(std::string_view op, const Metas& qkv, const AttentionOptions& options);
}  // namespace spool::detail

namespace spool::kernels {

struct AttentionSizes {
  int64_t batch, queries, keys, heads, key_heads, dim, value_dim;
  int64_t group() const { return heads / key_heads; }
};
AttentionSizes attention_sizes(const Shape& q, const Shape& k, const Shape& v);

/// Query–key pairs that are visible, of one head.
double visible_pairs(const AttentionSizes& sizes, const AttentionOptions& options);

/// Bytes of scratch. Forward: tiles for each thread that can run. Backward: those, and gradients of keys and values that cannot be summed
/// where they go: for 16-bit types, and where batch × key heads < 8, whose queries are shared out over up to 8 sums.
int64_t attention_scratch(const AttentionSizes& sizes, Dtype dtype, const AttentionOptions& options, bool backward);

/// Fills out and lse (contiguous).
void attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse, const AttentionOptions& options,
                       std::span<std::byte> scratch);

/// Fills dq, dk and dv (contiguous). dlse may be undefined.
struct AttentionGradient {
  const Tensor &dout, &dlse, &q, &k, &v, &out, &lse;
  const Tensor &dq, &dk, &dv;
};
void attention_backward(const AttentionGradient& x, const AttentionOptions& options, std::span<std::byte> scratch);

}  // namespace spool::kernels
