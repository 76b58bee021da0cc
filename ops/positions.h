#pragma once
// Position encodings.
#include <spool/tensor/tensor.h>

namespace spool {
/// Sinusoids [count, dim] of positions start, start + 1, …: the first dim/2 columns are sin(pos·f_j), the rest cos(pos·f_j), with
/// f_j = exp(−2j·ln(10000)/dim). Angles are formed in f64 from 64-bit positions and the result is rounded once, so a slice has the bits of
/// the whole. Not recorded. ShapeError when dim is odd.
Tensor sinusoidal_positions(int64_t count, int64_t dim, int64_t start = 0, Dtype dtype = Dtype::f32, Device device = cpu);
}  // namespace spool
