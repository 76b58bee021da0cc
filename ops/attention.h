#pragma once
// Exact softmax attention, block by block: no query × key matrix ever exists. Forward runs the online softmax over tiles of keys (Milakov
// and Gimelshein 2018); backward forms each tile of probabilities again from q, k and the rows' lse (Dao et al. 2022). With h a query
// head, h' = h / (heads / key heads) its key head, i a query at position q_offset + i and j a key at position k_offset + j:
//
//   s_ij  = scale · q_i·k_j  where j is visible to i, −∞ elsewhere
//   lse_i = log Σ_j e^{s_ij}        out_i = Σ_j e^{s_ij − lse_i} v_j
//
// A query that sees no key has out 0, lse −∞, and takes and gives no gradient. Sums run in f32 (f64 for f64 inputs), whatever the inputs.
// Bits depend neither on the number of threads nor on strides; the tile sizes change them within rounding.
#include <spool/tensor/tensor.h>

#include <cstdint>

namespace spool {

struct AttentionOptions {
  bool causal = true;        ///< A query sees keys at its own position and before.
  int64_t window = 0;        ///< W > 0: only keys less than W positions away (Mistral's sliding window); 0: no limit.
  int64_t q_offset = 0;      ///< Position of query 0: with a cache, the tokens before; on a shard, where it begins.
  int64_t k_offset = 0;      ///< Position of key 0.
  double scale = 0;          ///< 0: 1/√head_dim.
  int64_t query_tile = 0, key_tile = 0;  ///< Rows at a time; 0: chosen for the cache.
};

struct AttentionResult {
  Tensor out;  ///< [batch, L, heads, d_v], the type of the inputs.
  Tensor lse;  ///< [batch, heads, L], f32 (f64 for f64 inputs). Differentiable.
};

/// q [batch, L, heads, d], k [batch, S, key heads, d], v [batch, S, key heads, d_v] of one float type, any strides; heads is a multiple of
/// key heads (grouped-query attention; one key head is multi-query). Keeps q, k, v, out and lse. ShapeError for sizes that do not match.
AttentionResult attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
/// The same, out only.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

/// The same with the matrix of weights, batch · heads · L · S elements, kept for backward in place of out and lse: what most frameworks did
/// before blockwise kernels, for comparison, and where L is short. A query that sees no key has out 0. Keeps q, k, v and the weights.
Tensor attention_materialised(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

/// The textbook form with the whole score matrix, made of differentiable ops: the measure that `attention` is tested against. Needs
/// memory for batch · heads · L · S scores.
AttentionResult attention_reference(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

}  // namespace spool
