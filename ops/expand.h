#pragma once
// Broadcasting is this op; the sum over broadcast axes is its gradient.
#include <spool/tensor/tensor.h>

namespace spool {

/// x stretched to `shape` as in NumPy (aligned at the end, 1 stretches): a view in which stretched axes have stride 0. x itself when it has
/// that shape. Gradient: `sum_to(g, x.shape())`. Keeps nothing. Throws ShapeError naming both shapes when x does not stretch to `shape`.
Tensor expand(const Tensor& x, const Shape& shape);

/// The adjoint of expand: g summed over the axes that `shape` would stretch, with exactly that shape. g itself when nothing is to be
/// summed.
Tensor sum_to(const Tensor& g, const Shape& shape);

}  // namespace spool
