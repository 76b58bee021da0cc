#pragma once
// Dropout whose choices are a function of a key and of where an element stands, not of when it is computed.
#include <spool/tensor/random.h>
#include <spool/tensor/tensor.h>

namespace spool {
struct DropoutOptions {
  int64_t position = 0;  ///< Global position of row 0 of the second-to-last axis: a slice passes where it starts.
};
/// Zeroes each element with probability p and multiplies the rest by 1/(1 − p). The choice for x[b…, l, c] depends on (key, b, position +
/// l, c) only — b counts the leading axes — so slices, ranks, threads and recomputation agree, and no mask is kept. p = 0 changes nothing,
/// p = 1 gives zeros. ConfigError unless 0 ≤ p ≤ 1. Keeps nothing.
Tensor dropout(const Tensor& x, double p, RandomKey key, DropoutOptions options = {});
}  // namespace spool
