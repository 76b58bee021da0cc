#pragma once
// Rotary position embedding (Su et al. 2021): a head's d numbers as d/2 points in the plane, point j of position p turned by the angle
// p · f_j with f_j = theta^(−2j/d). What the points are made of differs between codes, and so does what "scaled" means; both are named.
#include <spool/tensor/tensor.h>

#include <cstdint>

namespace spool {

enum class RotaryPairs : uint8_t {
  interleaved,  ///< (2j, 2j + 1): the paper, Meta's LLaMA files, llama2.c.
  rotate_half,  ///< (j, j + d/2): Hugging Face. Its q and k weights are permuted to match; mixing the two gives fluent nonsense.
};

/// How frequencies change for sequences longer than the trained ones.
struct RotaryScaling {
  enum class Kind : uint8_t {
    none,
    linear,   ///< f_j / factor.
    ntk,      ///< theta · factor^(d/(d−2)) in place of theta.
    dynamic,  ///< ntk with (factor · length/original − (factor − 1)) for factor, once length > original.
    llama3,   ///< wavelengths λ = 2π/f: λ < original/high stays, λ > original/low is divided by factor, smooth between.
  } kind = Kind::none;
  double factor = 1;
  double low = 1, high = 4;   ///< llama3's low_freq_factor and high_freq_factor.
  int64_t original = 0;       ///< Trained length: original_max_position_embeddings.
};

struct RotaryOptions {
  int64_t dim = 0;         ///< d, even.
  double theta = 10000;
  RotaryScaling scaling = {};
  /// Angles as f32 products of f32 frequencies, as Hugging Face forms them, for matching its stored logits at long positions (there the
  /// angles are off by up to 3e-2 at position 1,048,575). Otherwise f64, rounded once.
  bool hf_compat = false;
};

/// cos and sin of the angles of positions start … start + count − 1: [count, d], the first half cosines, the second sines. f64 for f64,
/// otherwise f32, whatever a model computes in. `length` is what `dynamic` scales by (0: start + count). Not recorded.
Tensor rotary_angles(int64_t count, int64_t start, const RotaryOptions& options, Dtype dtype = Dtype::f32, Device device = cpu, int64_t length = 0);
/// The same for positions [count] (i32 or i64) in any order, as shards of a sequence have them.
Tensor rotary_angles(const Tensor& positions, const RotaryOptions& options, Dtype dtype = Dtype::f32, int64_t length = 0);

/// x [batch, length, heads, d] turned by `angles` [length, d] of its positions. Keeps the angles (and x, where they want a
/// gradient). ShapeError names both shapes.
Tensor rotary(const Tensor& x, const Tensor& angles, RotaryPairs pairs);

}  // namespace spool
