#pragma once
// Conversion between element types.
#include <spool/tensor/tensor.h>

namespace spool {
/// x with another element type, same shape. Float to integer truncates, anything to bool is "not 0". Between float types the gradient is
/// the cotangent converted back; other casts stop it. Keeps nothing. x itself when it has that type.
Tensor cast(const Tensor& x, Dtype dtype);
}  // namespace spool
