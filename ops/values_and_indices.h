#pragma once
// What ops return that choose elements along an axis.
#include <spool/tensor/tensor.h>

namespace spool {
struct ValuesAndIndices {
  Tensor values;
  Tensor indices;  ///< i64 positions along the axis.
};
}  // namespace spool
