#pragma once
// Reductions of a strided tensor over any set of axes. Work is cut into chunks by shape alone, and partial results are joined in order, so
// that the result depends neither on the number of threads nor on how the elements lie in memory. A policy P states the arithmetic:
//   Lane                 what vector lanes hold over a run of at most 512 elements
//   Total                what runs and chunks are joined in (sums of floats: double)
//   Lane identity(), Lane lane(C x), Lane join(Lane, Lane), Total join(Total, Total)
#include <spool/ops/cpu/pointwise.h>

#include <span>

namespace spool::kernels {

inline constexpr int64_t short_run = 64;  // rows of shorter runs go over several
inline constexpr int64_t reduce_run = 512, reduce_chunk = 32768, reduce_columns = 512;

/// Of n ≤ reduce_run dense elements.
template <class P, class S>
SPOOL_CLONES typename P::Total reduce_row(const S* __restrict x, int64_t n) {
  constexpr int width = 16;
  typename P::Lane lanes[width];
  for (auto& lane : lanes) lane = P::identity();
  int64_t i = 0;
  for (; i + width <= n; i += width)
    for (int j = 0; j < width; ++j) lanes[j] = P::join(lanes[j], P::lane(load(x[i + j])));
  for (int j = 0; i < n; ++i, ++j) lanes[j] = P::join(lanes[j], P::lane(load(x[i])));
  for (int half = width / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] = P::join(lanes[j], lanes[j + half]);
  return typename P::Total(lanes[0]);
}

/// totals[j] joined with four rows at once: rows are `stride` apart, columns `step`.
template <class P, class S>
SPOOL_CLONES void reduce_rows(const S* __restrict a, const S* __restrict b, const S* __restrict c, const S* __restrict d,
                              typename P::Total* __restrict totals, int64_t columns, int64_t step) {
  using Total = typename P::Total;
  if (step == 1) {
    for (int64_t j = 0; j < columns; ++j) {
      totals[j] = P::join(
          totals[j], Total(P::join(P::join(P::lane(load(a[j])), P::lane(load(b[j]))), P::join(P::lane(load(c[j])), P::lane(load(d[j]))))));
    }
  } else {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t i = j * step;
      totals[j] = P::join(
          totals[j], Total(P::join(P::join(P::lane(load(a[i])), P::lane(load(b[i]))), P::join(P::lane(load(c[i])), P::lane(load(d[i]))))));
    }
  }
}
template <class P, class S>
SPOOL_CLONES void reduce_rows(const S* __restrict a, typename P::Total* __restrict totals, int64_t columns, int64_t step) {
  for (int64_t j = 0; j < columns; ++j) totals[j] = P::join(totals[j], typename P::Total(P::lane(load(a[j * step]))));
}

/// How a reduction is cut. Depends on the shape and the axes (a bit mask), not on strides.
struct ReduceCut {
  int64_t outputs = 1, reduced = 1;
  int64_t inner = 1;  ///< Kept elements after the last reduced axis; above 1: whole rows are added to rows.
  int64_t run = 1;  ///< Elements that would be dense in a contiguous tensor; a row that is summed at once stays within one.
  int64_t length = 1, chunks = 1;

  ReduceCut(const Shape& shape, uint32_t axes) {
    for (int axis = 0; axis < shape.size(); ++axis) {
      if (axes >> axis & 1) {
        reduced *= shape[axis];
        if (shape[axis] != 1) inner = 1;
      } else {
        outputs *= shape[axis];
        inner *= shape[axis];
      }
    }
    for (int axis = shape.size() - 1; axis >= 0 && (axes >> axis & 1 || shape[axis] == 1); --axis) run *= shape[axis];
    if (run < short_run) run = std::max<int64_t>(1, reduced);
    length = inner > 1 ? std::max<int64_t>(64, 2 * reduce_chunk / std::min(inner, reduce_columns)) : reduce_chunk;
    chunks = std::max<int64_t>(1, (reduced + length - 1) / length);
  }
  template <class Total>
  int64_t scratch() const {
    return chunks > 1 ? outputs * chunks * int64_t(sizeof(Total)) : 0;
  }
};

/// Sizes and strides of some of the axes, merged where memory allows; turns a running index into an offset.
struct Walk {
  Dims sizes, steps;
  void add(int64_t size, int64_t step) {
    if (size == 1) return;
    const int last = sizes.size() - 1;
    if (last >= 0 && steps[last] == step * size) {
      sizes[last] *= size;
      steps[last] = step;
    } else {
      sizes.push_back(size);
      steps.push_back(step);
    }
  }
  int64_t inner_size() const { return sizes.empty() ? 1 : sizes.back(); }
  int64_t inner_step() const { return steps.empty() ? 0 : steps.back(); }
  int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (int i = sizes.size() - 1; i >= 0; --i) {
      at += index % sizes[i] * steps[i];
      index /= sizes[i];
    }
    return at;
  }
};

/// Elements at … at + n of a walk as a dense row: where they lie if they are dense, otherwise gathered into `buffer`.
template <class S>
const S* dense_row(const S* base, const Walk& walk, int64_t at, int64_t n, S* buffer) {
  const int64_t run = walk.inner_size(), step = walk.inner_step();
  if ((step == 1 || n == 1) && at % run + n <= run) return base + walk.offset(at);
  for (int64_t done = 0; done < n;) {
    const int64_t piece = std::min(run - (at + done) % run, n - done);
    const S* from = base + walk.offset(at + done);
    for (int64_t i = 0; i < piece; ++i) buffer[done + i] = from[i * step];
    done += piece;
  }
  return buffer;
}

/// Calls finish(output, total) for each output of the reduction of x over `axes`, in some order and from several threads.
template <class P, class S, class Finish>
void reduce(const Tensor& x, uint32_t axes, std::span<std::byte> scratch, Finish finish) {
  using Total = typename P::Total;
  const ReduceCut cut(x.shape(), axes);
  Walk kept, reduced;
  for (int axis = 0; axis < x.dims(); ++axis) (axes >> axis & 1 ? reduced : kept).add(x.shape()[axis], x.strides()[axis]);
  const S* from = static_cast<const S*>(x.raw());
  auto* partial = reinterpret_cast<Total*>(scratch.data());
  if (cut.outputs == 0) return;
  const auto deliver = [&](int64_t output, int64_t chunk, Total total) {
    if (cut.chunks == 1)
      finish(output, total);
    else
      partial[output * cut.chunks + chunk] = total;
  };

  if (cut.inner == 1) {
    const int64_t tasks = cut.outputs * cut.chunks, work = std::max<int64_t>(1, std::min(cut.reduced, cut.length));
    const int64_t group = std::max<int64_t>(1, reduce_chunk / work);
    parallel_blocks((tasks + group - 1) / group, group * work, [&](int64_t block) {
      S buffer[reduce_run];
      for (int64_t task = block * group; task < std::min(tasks, (block + 1) * group); ++task) {
        const int64_t output = task / cut.chunks, chunk = task % cut.chunks;
        const S* base = from + kept.offset(output);
        const int64_t end = std::min(cut.reduced, (chunk + 1) * cut.length);
        Total total(P::identity());
        for (int64_t at = chunk * cut.length; at < end;) {
          const int64_t n = std::min({cut.run - at % cut.run, end - at, reduce_run});
          total = P::join(total, reduce_row<P, S>(dense_row(base, reduced, at, n, buffer), n));
          at += n;
        }
        deliver(output, chunk, total);
      }
    });
  } else {
    const int64_t columns = kept.inner_size(), step = kept.inner_step(), tiles = (columns + reduce_columns - 1) / reduce_columns;
    const int64_t tasks = cut.outputs / columns * tiles * cut.chunks;
    const int64_t work = std::max<int64_t>(1, std::min(columns, reduce_columns) * std::min(cut.reduced, cut.length));
    const int64_t group = std::max<int64_t>(1, reduce_chunk / work);
    parallel_blocks((tasks + group - 1) / group, group * work, [&](int64_t block) {
      Total totals[reduce_columns];
      for (int64_t task = block * group; task < std::min(tasks, (block + 1) * group); ++task) {
        const int64_t chunk = task % cut.chunks, tile = task / cut.chunks % tiles,
                      first = task / cut.chunks / tiles * columns + tile * reduce_columns;
        const int64_t width = std::min(reduce_columns, columns - tile * reduce_columns);
        const S* base = from + kept.offset(first);
        const int64_t end = std::min(cut.reduced, (chunk + 1) * cut.length);
        for (int64_t j = 0; j < width; ++j) totals[j] = Total(P::identity());
        int64_t row = chunk * cut.length;
        for (; row + 4 <= end; row += 4) {
          reduce_rows<P, S>(base + reduced.offset(row), base + reduced.offset(row + 1), base + reduced.offset(row + 2),
                            base + reduced.offset(row + 3), totals, width, step);
        }
        for (; row < end; ++row) reduce_rows<P, S>(base + reduced.offset(row), totals, width, step);
        for (int64_t j = 0; j < width; ++j) deliver(first + j, chunk, totals[j]);
      }
    });
  }
  if (cut.chunks == 1) return;
  parallel_range(cut.outputs, std::max<int64_t>(1, reduce_chunk / cut.chunks), [&](int64_t begin, int64_t end) {
    for (int64_t output = begin; output < end; ++output) {
      Total total = partial[output * cut.chunks];
      for (int64_t chunk = 1; chunk < cut.chunks; ++chunk) total = P::join(total, partial[output * cut.chunks + chunk]);
      finish(output, total);
    }
  });
}

}  // namespace spool::kernels
