#pragma once
// Axes that users give as 64-bit numbers. Private to ops/.
#include <spool/tensor/error.h>
#include <spool/tensor/shape.h>

namespace spool::detail {

/// normalize_axis without cutting off bits: 2³² is no axis.
inline int as_axis(std::string_view op, int64_t axis, const Shape& shape) {
  if (axis != int(axis)) fail<ShapeError>(op, ": axis ", axis, " is out of range for shape ", shape);
  return normalize_axis(op, int(axis), shape);
}

}  // namespace spool::detail
