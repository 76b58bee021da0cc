#pragma once
// Index tensors: their types, and the check that comes before any read. Private to ops/.
#include <spool/tensor/error.h>
#include <spool/tensor/tensor.h>

namespace spool::kernels {

inline void require_index(std::string_view op, Dtype dtype) {
  if (!is_integer(dtype)) fail<DtypeError>(op, ": needs u8, i32 or i64 indices, got ", dtype_name(dtype));
}

template <class F>
void visit_index(std::string_view op, Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::u8: return f.template operator()<uint8_t>();
    case Dtype::i32: return f.template operator()<int32_t>();
    case Dtype::i64: return f.template operator()<int64_t>();
    default: require_index(op, dtype);
  }
}

/// Throws IndexError for the first index outside [0, count) that is not `except`. `indices` may have any strides; the position is that in
/// row-major order, as it was before expand() repeated them.
inline void check_indices(std::string_view op, const Tensor& indices, int64_t count, int64_t except = -1, bool has_exception = false) {
  visit_index(op, indices.dtype(), [&]<class I>() {
    const I* id = static_cast<const I*>(indices.raw());
    const Strides& strides = indices.strides();
    Shape shape = indices.shape();
    for (int axis = 0; axis < shape.size(); ++axis)
      if (strides[axis] == 0 && shape[axis] > 1) shape[axis] = 1;
    const int inner = shape.size() - 1;
    const int64_t all = numel(shape), columns = shape.empty() ? 1 : shape.back(), step = shape.empty() ? 0 : strides.back();
    for (int64_t row = 0, position = 0; position < all; ++row) {
      const I* from = id;
      int64_t rest = row;
      for (int axis = inner - 1; axis >= 0; --axis) {
        from += rest % shape[axis] * strides[axis];
        rest /= shape[axis];
      }
      for (int64_t i = 0; i < columns; ++i, ++position) {
        const auto at = int64_t(from[i * step]);
        if ((at < 0 || at >= count) && !(has_exception && at == except))
          fail<IndexError>(op, ": index ", at, " at position ", position, " is out of range for ", count);
      }
    }
  });
}

}  // namespace spool::kernels
