#pragma once
// The loop that naive references are written with.
#include <spool/tensor/shape.h>

namespace spool::test {

/// Calls f(flat place, indices) for every element of a shape in row-major order.
template <class F>
void each_index(const Shape& shape, F&& f) {
  Shape at(shape.size(), 0);
  for (int64_t flat = 0; flat < numel(shape); ++flat) {
    int64_t rest = flat;
    for (int axis = shape.size() - 1; axis >= 0; --axis) {
      at[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    f(size_t(flat), at);
  }
}

}  // namespace spool::test
