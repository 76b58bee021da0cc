#include "property.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace spool::property {
namespace {

// Before rapidcheck reads it; what the user gives wins.
[[maybe_unused]] const int chosen = setenv("RC_PARAMS", default_params, 0);

}  // namespace

Shape shape(int dims) {
  Shape s;
  for (int i = 0; i < dims; ++i) s.push_back(integer(0, 19) == 0 ? 0 : integer(1, dims > 4 ? 3 : 6));
  return s;
}

Tensor normal(const Shape& s, Dtype dtype) {
  Generator generator(uint64_t(integer(0, 1 << 30)));
  std::vector<double> values(static_cast<size_t>(numel(s)));
  for (double& value : values) value = generator.normal();
  return from(values, s, dtype);
}

Tensor strided(const Shape& s, Dtype dtype) {
  const int dims = s.size();
  const int64_t step = integer(1, 3), offset = integer(0, 4);
  const int flat = dims > 0 && integer(0, 4) == 0 ? int(integer(0, dims - 1)) : -1;  // an axis of one element, expanded
  std::vector<int> order(static_cast<size_t>(dims));
  std::iota(order.begin(), order.end(), 0);
  for (int i = dims - 1; i > 0; --i) std::swap(order[size_t(i)], order[size_t(integer(0, i))]);
  Strides strides(dims, 0);
  int64_t room = step;
  for (const int axis : order) {
    if (axis == flat) continue;
    strides[axis] = room;
    room *= std::max<int64_t>(s[axis], 1);
  }
  return normal({room + offset}, dtype).view_as(s, strides, offset);
}

size_t broadcast_place(const Shape& s, const Shape& at) {
  int64_t place = 0;
  for (int axis = 0; axis < s.size(); ++axis) place = place * s[axis] + (s[axis] == 1 ? 0 : at[at.size() - s.size() + axis]);
  return size_t(place);
}

}  // namespace spool::property
