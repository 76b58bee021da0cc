#pragma once
// The softmax family along one axis. The largest element is subtracted first, so nothing overflows; bf16 and f16 are computed in f32. An
// axis other than the last is moved there and back, which costs copies. A 0-d tensor throws ShapeError.
#include <spool/tensor/tensor.h>

namespace spool {

/// eˣ / Σ eˣ. A row of −∞ gives zeros with gradient 0 (a choice: others give NaN). Keeps the result.
Tensor softmax(const Tensor& x, int axis = -1);
/// x − log Σ eˣ. A row of −∞ gives −∞ with gradient 0. Keeps the result.
Tensor log_softmax(const Tensor& x, int axis = -1);
/// log Σ eˣ without the axis, or with size 1 for it. A row of −∞, or of nothing, gives −∞ with gradient 0. Keeps x and the result.
Tensor logsumexp(const Tensor& x, int axis = -1, bool keepdim = false);

}  // namespace spool
