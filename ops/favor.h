#pragma once
// FAVOR+: positive random features of "Rethinking Attention with Performers" (Choromanski et al., 2021), as the SLiM reference uses them.
#include <spool/tensor/random.h>
#include <spool/tensor/tensor.h>

namespace spool {

/// Random directions [heads, blocks·dim, dim]: for each head `blocks` random orthogonal matrices of dim × dim, times √dim. Formed in f64
/// from the key, so they do not depend on the type asked for.
Tensor favor_omega(int64_t heads, int64_t dim, int64_t blocks, RandomKey key, Dtype dtype = Dtype::f32, Device device = cpu);

/// g(x) = exp(ω·x′ − |x′|²/2), x′ = x·d^(−1/4): [batch, length, heads, d] -> [batch, length, heads, M] for omega [heads, M, d]. Each token
/// alone, so it is causal and does not depend on slices; there is no maximum to subtract, and large |x| overflows as in the reference.
Tensor favor_features(const Tensor& x, const Tensor& omega);

}  // namespace spool
