#pragma once
// Walking an axis of a contiguous tensor, some adjacent columns at a time: what scans share. Private to ops/.
#include <spool/tensor/parallel.h>
#include <spool/tensor/shape.h>

#include <algorithm>

namespace spool::kernels {

inline constexpr int64_t column_block = 64;

/// Calls f(at, step, width) for each block of at most `columns` columns, fewer where that would leave less than 8 blocks: element i of column
/// c lies at `at` + i·step + c. From the end of the axis when `reverse`. `work`: what one element costs.
template <int64_t columns = column_block, class F>
void each_columns(const Shape& shape, int axis, bool reverse, int64_t work, F&& f) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const int64_t length = shape[axis];
  if (outer * inner * length == 0) return;
  int64_t block_columns = columns;
  while (block_columns > column_block && outer * inner < 8 * block_columns) block_columns /= 2;
  const int64_t pieces = (inner + block_columns - 1) / block_columns;
  const int64_t start = reverse ? (length - 1) * inner : 0, step = reverse ? -inner : inner;
  parallel_blocks(outer * pieces, length * std::min(inner, block_columns) * work, [&](int64_t block) {
    const int64_t column = block % pieces * block_columns;
    f(block / pieces * length * inner + start + column, step, std::min(block_columns, inner - column));
  });
}

}  // namespace spool::kernels
