#pragma once
// Walking several strided operands of one shape together: adjacent dimensions that can be are merged, the innermost runs in a tight loop.
#include <spool/tensor/parallel.h>
#include <spool/tensor/shape.h>

#include <algorithm>
#include <array>

namespace spool {

/// N operands over one shape, with dimensions of size 1 dropped and mergeable neighbours merged.
template <int N>
struct StridedLoop {
  Shape shape;
  std::array<Strides, N> strides;

  StridedLoop(const Shape& full, const std::array<Strides, N>& all) {
    for (int axis = 0; axis < full.size(); ++axis) {
      if (full[axis] == 1) continue;
      const int last = shape.size() - 1;
      bool merge = last >= 0;
      for (int n = 0; merge && n < N; ++n) merge = strides[size_t(n)][last] == all[size_t(n)][axis] * full[axis];
      if (merge) {
        shape[last] *= full[axis];
        for (int n = 0; n < N; ++n) strides[size_t(n)][last] = all[size_t(n)][axis];
      } else {
        shape.push_back(full[axis]);
        for (int n = 0; n < N; ++n) strides[size_t(n)].push_back(all[size_t(n)][axis]);
      }
    }
    if (shape.empty()) {
      shape.push_back(1);
      for (auto& s : strides) s.push_back(0);
    }
  }

  /// Calls f(offsets, count, steps) for runs along the innermost dimension: element i of operand n is at offsets[n] + i·steps[n].
  /// Runs are at most `grain` long and may be called from several threads. `work`: what one element costs, in element operations.
  template <class F>
  void run(F&& f, int64_t grain = 16384, int64_t work = 1) const {
    const int inner = shape.size() - 1;
    const int64_t count = shape[inner];
    int64_t outer = 1;
    for (int axis = 0; axis < inner; ++axis) outer *= shape[axis];
    if (count == 0 || outer == 0) return;
    std::array<int64_t, N> steps;
    for (int n = 0; n < N; ++n) steps[size_t(n)] = strides[size_t(n)][inner];
    const int64_t pieces = (count + grain - 1) / grain, rows = std::max<int64_t>(1, grain / std::min(count, grain));
    const int64_t row_blocks = (outer + rows - 1) / rows;
    parallel_blocks(row_blocks * pieces, rows * std::min(count, grain) * work, [&](int64_t block) {
      const int64_t begin = block % pieces * grain, length = std::min(grain, count - begin);
      const int64_t first = block / pieces * rows, last = std::min(outer, first + rows);
      for (int64_t row = first; row < last; ++row) {
        std::array<int64_t, N> offsets;
        for (int n = 0; n < N; ++n) offsets[size_t(n)] = begin * steps[size_t(n)];
        int64_t rest = row;
        for (int axis = inner - 1; axis >= 0; --axis) {
          const int64_t at = rest % shape[axis];
          rest /= shape[axis];
          for (int n = 0; n < N; ++n) offsets[size_t(n)] += at * strides[size_t(n)][axis];
        }
        f(offsets, length, steps);
      }
    });
  }
};

}  // namespace spool
