#pragma once
// Joining tensors.
#include <spool/tensor/tensor.h>

namespace spool {
/// The tensors one after the other along an existing axis; the other sizes and the types agree. Keeps nothing. At most 32 tensors.
Tensor concat(const Tensors& parts, int axis = 0);
/// The tensors along a new axis; all have one shape.
Tensor stack(const Tensors& parts, int axis = 0);
}  // namespace spool
