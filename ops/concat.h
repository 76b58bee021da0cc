#pragma once
// Joining tensors.
#include <spool/tensor/tensor.h>

namespace spool {

/// Tensors joined along an existing axis; all other sizes and the type must agree (ShapeError, DtypeError). Keeps nothing; gradients are
/// slices. More than 32 tensors are joined in groups, which copies them twice.
Tensor concat(const Tensors& parts, int axis = 0);
/// Tensors of one shape joined along a new axis.
Tensor stack(const Tensors& parts, int axis = 0);

}  // namespace spool
