#pragma once
// Causal linear attention with an explicit state: equations (2)–(4) of "Sub-Linear Memory: How to Make Performers SLiM", numerator and
// denominator in one. For each batch element and head, with g the feature map, tokens l = 1 … L and R_0 the state given:
//
//   R_l = R_{l−1} + g(k_l)·[v_l, 1]ᵀ            the state, [M, d + 1]; its last column is the key sum S
//   [num_l, den_l] = g(q_l)ᵀ·R_l                 out_l = num_l / (den_l + eps)
//
// The state is handed in and out, and both ends have gradients, so a sequence can be run in slices. A slice's state is the given one
// plus the sum over the slice, rounded once, so that subtracting the same sum gives the given state back. Memory is O(M·d) beside inputs
// and outputs; no tensor over L × M × d exists, forward or backward, and nothing is ever subtracted inside a slice (backward sweeps once
// forwards and once in reverse).
#include <spool/tensor/tensor.h>

#include <cstdint>
#include <optional>

namespace spool {

/// Elementwise g, fused into the op. Random features (favor+) are computed before it and passed with `identity`.
enum class Feature : uint8_t {
  identity,  ///< x
  sqr,       ///< x²
  relu,      ///< max(x, 0)
  elu1,      ///< elu(x) + 1
  abs,       ///< |x|
};

struct LinearAttentionOptions {
  Feature feature = Feature::identity;
  double eps = 1e-16;  ///< As the reference. A token whose den ≤ eps has nothing to attend to (possible with relu): out and gradients are 0 there.
  std::optional<Dtype> state_dtype = {};  ///< f32 or f64. Default: the given state's, otherwise f64 for f64 inputs and f32 for the rest.
};

struct LinearAttentionResult {
  Tensor out;    ///< [batch, L, heads, d], the type of the inputs.
  Tensor state;  ///< R_L, [batch, heads, M, d + 1].
};

/// q, k [batch, L, heads, M], v [batch, L, heads, d] of one float type, any strides; state [batch, heads, M, d + 1]
/// in f32 or f64, or undefined for zeros. Sums run in the state's type whatever the inputs'. Keeps q, k, v, the state, out and den.
LinearAttentionResult linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& state = {}, const LinearAttentionOptions& options = {});

/// Σ_l g(k_l)·[v_l, 1]ᵀ, what a slice adds to the state. No gradient.
Tensor linear_attention_sum(const Tensor& k, const Tensor& v, const LinearAttentionOptions& options = {});

/// The state at the start of a slice from that at its end: `end` − Σ_l g(k_l)·[v_l, 1]ᵀ, with the sum formed as linear_attention forms it.
/// No gradient.
Tensor linear_attention_start(const Tensor& end, const Tensor& k, const Tensor& v, const LinearAttentionOptions& options = {});

}  // namespace spool
