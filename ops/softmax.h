#pragma once
// The softmax family, along one axis unless said otherwise. The largest element is subtracted first, so nothing overflows; bf16 and f16 are computed in f32. An
// axis other than the last is moved there and back, which costs copies. A 0-d tensor throws ShapeError.
#include <spool/ops/reduce.h>

namespace spool {

/// eˣ / Σ eˣ. A row of −∞ gives zeros with gradient 0 (a choice: others give NaN). Keeps the result.
Tensor softmax(const Tensor& x, int axis = -1);
/// x − log Σ eˣ. A row of −∞ gives −∞ with gradient 0. Keeps the result.
Tensor log_softmax(const Tensor& x, int axis = -1);
/// log Σ eˣ over one axis or several, which go or stay with size 1; `{}` means all. Nothing but −∞, or nothing at all, gives −∞ with
/// gradient 0. Keeps x and the result.
Tensor logsumexp(const Tensor& x, const Axes& axes = -1, bool keepdim = false);

}  // namespace spool
