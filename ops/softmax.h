#pragma once
// The softmax family along one axis. The largest element is subtracted first, so nothing overflows. 16-bit floats are computed in f32.
#include <spool/tensor/tensor.h>

namespace spool {
/// eˣ / Σ eˣ. A row of −∞ gives zeros and gradient 0 (a choice: others give NaN). Keeps the output.
Tensor softmax(const Tensor& x, int axis = -1);
/// x − log Σ eˣ. Keeps the output.
Tensor log_softmax(const Tensor& x, int axis = -1);
/// log Σ eˣ; −∞ with gradient 0 for a row of −∞. Keeps the input and the output.
Tensor logsumexp(const Tensor& x, int axis = -1, bool keepdim = false);
}  // namespace spool
