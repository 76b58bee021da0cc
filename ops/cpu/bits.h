#pragma once
// Moving elements without looking at them. Private to ops/.
#include <spool/tensor/dtype.h>

#include <utility>

namespace spool::kernels {

/// Calls f.operator()<U>() with the unsigned type of the element's size: what moves elements moves bits, whatever they mean.
template <class F>
void visit_bits(Dtype dtype, F&& f) {
  switch (dtype_size(dtype)) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    default: return f.template operator()<uint64_t>();
  }
}

}  // namespace spool::kernels
