#pragma once
// Adding two gradients on the tape, for backward passes that are recorded themselves.
#include <spool/tensor/tensor.h>

namespace spool {
/// a + b, same shape and float type. Keeps nothing for backward.
Tensor sum_gradients(const Tensor& a, const Tensor& b);
}  // namespace spool
