#pragma once
// Reduction of a contiguous tensor over a set of axes, in blocks fixed by the shape. Private to ops/.
#include <spool/ops/cpu/clones.h>
#include <spool/tensor/parallel.h>
#include <spool/tensor/shape.h>

#include <algorithm>

namespace spool::kernels {

/// A contiguous tensor seen as alternating kept and reduced axes: outer kept, reduced, inner kept — and, in the general case, more of them.
struct ReducePlan {
  Shape kept, reduced;              // merged sizes, outermost first
  Strides kept_strides, reduced_strides;

  ReducePlan(const Shape& shape, uint32_t axes) {
    const Strides strides = contiguous_strides(shape);
    int last = -1;  // 0 kept, 1 reduced
    for (int i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1) continue;
      const int now = axes >> i & 1;
      Shape& sizes = now ? reduced : kept;
      Strides& steps = now ? reduced_strides : kept_strides;
      if (now == last) {
        sizes[sizes.size() - 1] *= shape[i];
        steps[steps.size() - 1] = strides[i];
      } else {
        sizes.push_back(shape[i]);
        steps.push_back(strides[i]);
      }
      last = now;
    }
  }
};

inline int64_t offset_of(int64_t index, const Shape& sizes, const Strides& strides, int dims) {
  int64_t offset = 0;
  for (int i = dims - 1; i >= 0; --i) {
    offset += index % sizes[i] * strides[i];
    index /= sizes[i];
  }
  return offset;
}

/// y = fold of F over the reduced elements. F: `using Wide`, `Wide start()`, `Wide join(Wide, Wide)`, with elements widened first.
template <class F, class T, class W>
SPOOL_CLONES W reduce_run(const T* x, int64_t n, int64_t step) {
  constexpr int lanes = 16;
  W lane[lanes];
  for (auto& l : lane) l = F::template start<W>();
  int64_t i = 0;
  if (step == 1) {
    for (; i + lanes <= n; i += lanes)
      for (int l = 0; l < lanes; ++l) lane[l] = F::join(lane[l], static_cast<W>(x[i + l]));
  }
  for (; i < n; ++i) lane[i % lanes] = F::join(lane[i % lanes], static_cast<W>(x[i * step]));
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] = F::join(lane[l], lane[l + width]);
  return lane[0];
}

/// Adds `rows` rows of `columns` ≤ 64 adjacent elements into wide[columns].
template <class F, class T, class W>
SPOOL_CLONES void reduce_columns(const T* x, int64_t rows, int64_t row_step, int64_t columns, W* wide) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) wide[c] = F::join(wide[c], static_cast<W>(x[r * row_step + c]));
}

template <class F, class T, class W>
void reduce(const T* x, T* y, const Shape& shape, uint32_t axes) {
  const ReducePlan plan(shape, axes);
  const int64_t outputs = numel(plan.kept), count = std::find(shape.begin(), shape.end(), 0) == shape.end() ? numel(plan.reduced) : 0;
  if (std::find(plan.kept.begin(), plan.kept.end(), 0) != plan.kept.end()) return;
  const int kept = plan.kept.size(), reduced = plan.reduced.size();
  const bool columns = count > 0 && reduced > 0 && kept > 0 && plan.kept_strides[kept - 1] == 1;
  if (columns) {
    constexpr int64_t width = 64;
    const int64_t inner = plan.kept[kept - 1], pieces = (inner + width - 1) / width, outer = outputs / inner;
    parallel_blocks(outer * pieces, width * count, [&](int64_t block) {
      const int64_t begin = block % pieces * width, size = std::min(width, inner - begin), row = block / pieces;
      const T* from = x + offset_of(row, plan.kept, plan.kept_strides, kept - 1) + begin;
      W wide[width];
      std::fill_n(wide, width, F::template start<W>());
      const int64_t last = plan.reduced[reduced - 1];
      for (int64_t o = 0; o < count / last; ++o)
        reduce_columns<F>(from + offset_of(o, plan.reduced, plan.reduced_strides, reduced - 1), last, plan.reduced_strides[reduced - 1], size, wide);
      for (int64_t c = 0; c < size; ++c) y[row * inner + begin + c] = static_cast<T>(wide[c]);
    });
    return;
  }
  const int64_t last = reduced ? plan.reduced[reduced - 1] : 1, step = reduced ? plan.reduced_strides[reduced - 1] : 1;
  constexpr int64_t grain = 1 << 15;
  const int64_t rows = std::max<int64_t>(1, grain / std::max<int64_t>(count, 1));
  parallel_blocks((outputs + rows - 1) / rows, rows * std::max<int64_t>(count, 1), [&](int64_t block) {
    for (int64_t o = block * rows; o < std::min(outputs, (block + 1) * rows); ++o) {
      const T* from = x + offset_of(o, plan.kept, plan.kept_strides, kept);
      W total = F::template start<W>();
      for (int64_t r = 0; count && r < count / last; ++r) {
        const T* run = from + offset_of(r, plan.reduced, plan.reduced_strides, reduced - 1);
        for (int64_t at = 0; at < last; at += grain) total = F::join(total, reduce_run<F, T, W>(run + at * step, std::min(grain, last - at), step));
      }
      y[o] = static_cast<T>(total);
    }
  });
}

}  // namespace spool::kernels
