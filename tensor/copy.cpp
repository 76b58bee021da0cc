#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/profiler.h>
#include <spool/tensor/strided.h>

namespace spool {
namespace {

Strides broadcast_strides(const Tensor& t, const Shape& to) {
  Strides strides(to.size(), 0);
  const int shift = to.size() - t.dims();
  for (int axis = 0; axis < t.dims(); ++axis) strides[axis + shift] = t.shape()[axis] == 1 ? 0 : t.strides()[axis];
  return strides;
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<From, bfloat16> || std::is_same_v<From, float16>) return static_cast<To>(static_cast<float>(value));
  else return static_cast<To>(value);
}

/// Two axes of a copy: the last one along which the target is dense, and one along which the source is. Read and written in tiles, so that
/// each cache line is touched once.
template <class T>
void transpose_tiles(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t rows, int64_t columns) {
  constexpr int64_t tile = 16;
  T block[tile][tile];
  for (int64_t r = 0; r < rows; r += tile) {
    for (int64_t c = 0; c < columns; c += tile) {
      const int64_t height = std::min(tile, rows - r), width = std::min(tile, columns - c);
      for (int64_t j = 0; j < width; ++j)
        for (int64_t i = 0; i < height; ++i) block[i][j] = from[(c + j) * from_step + r + i];
      for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j) to[(r + i) * to_step + c + j] = block[i][j];
    }
  }
}

/// Copies by tiles when the source is dense along another axis than the target; false when it is not that case.
template <class T>
bool copy_transposed(T* to, const T* from, const StridedLoop<2>& loop) {
  const int last = loop.shape.size() - 1;
  const Strides &t = loop.strides[0], &f = loop.strides[1];
  int other = last - 1;
  while (other >= 0 && f[other] != 1) --other;
  if (other < 0 || t[last] != 1 || f[last] == 1 || loop.shape[last] < 4 || loop.shape[other] < 4) return false;
  Shape outer = loop.shape;
  outer[last] = 1;
  outer[other] = 1;
  constexpr int64_t strip = 64;  // rows of one task
  const int64_t rows = loop.shape[other], strips = (rows + strip - 1) / strip;
  parallel_blocks(numel(outer) * strips, strip * loop.shape[last], [&](int64_t block) {
    int64_t rest = block / strips, to_at = block % strips * strip * t[other], from_at = block % strips * strip;
    for (int axis = last; axis >= 0; --axis) {
      const int64_t at = rest % outer[axis];
      rest /= outer[axis];
      to_at += at * t[axis];
      from_at += at * f[axis];
    }
    transpose_tiles(to + to_at, t[other], from + from_at, f[last], std::min(strip, rows - block % strips * strip), loop.shape[last]);
  });
  return true;
}

template <class To, class From>
void copy_elements(const Tensor& to, const Tensor& from) {
  To* target = static_cast<To*>(to.raw());
  const From* source = static_cast<const From*>(from.raw());
  const StridedLoop<2> loop(to.shape(), {to.strides(), broadcast_strides(from, to.shape())});
  if constexpr (std::is_same_v<To, From>) {
    if (copy_transposed(target, source, loop)) return;
  }
  loop.run([&](const auto& at, int64_t n, const auto& step) {
    To* t = target + at[0];
    const From* s = source + at[1];
    if (step[0] == 1 && step[1] == 1) {
      for (int64_t i = 0; i < n; ++i) t[i] = convert<To>(s[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) t[i * step[0]] = convert<To>(s[i * step[1]]);
    }
  });
}

}  // namespace

void bump_version(const Tensor& t) {
  ++t.storage()->version;
  t.storage()->writer = ambient().op;
}

void copy(const Tensor& to, const Tensor& from) {
  if (broadcast_shapes("copy", to.shape(), from.shape()) != to.shape()) fail<ShapeError>("copy: ", from.shape(), " does not broadcast to ", to.shape());
  if (to.device().meta != from.device().meta) fail<DeviceError>("copy: from ", from.device(), " to ", to.device());
  bump_version(to);
  if (to.device().meta || to.numel() == 0) return;
  visit(to.dtype(), [&]<class To>() { visit(from.dtype(), [&]<class From>() { copy_elements<To, From>(to, from); }); });
}

void fill(const Tensor& t, double value) {
  bump_version(t);
  if (t.device().meta || t.numel() == 0) return;
  visit(t.dtype(), [&]<class T>() {
    T* target = static_cast<T*>(t.raw());
    const T filler = static_cast<T>(value);
    StridedLoop<1>(t.shape(), {t.strides()}).run([&](const auto& at, int64_t n, const auto& step) {
      for (int64_t i = 0; i < n; ++i) target[at[0] + i * step[0]] = filler;
    });
  });
}

void accumulate(const Tensor& to, const Tensor& from) {
  if (to.shape() != from.shape()) fail<ShapeError>("accumulate: shapes ", to.shape(), " and ", from.shape(), " differ");
  if (to.dtype() != from.dtype()) fail<DtypeError>("accumulate: ", dtype_name(to.dtype()), " and ", dtype_name(from.dtype()), " differ");
  bump_version(to);
  if (to.device().meta || to.numel() == 0) return;
  const With op(&Ambient::op, "accumulate");
  const Timed timed(double(to.numel()), 3.0 * double(to.nbytes()));
  visit_float("accumulate", to.dtype(), [&]<class T>() {
    T* target = static_cast<T*>(to.raw());
    const T* source = static_cast<const T*>(from.raw());
    StridedLoop<2>(to.shape(), {to.strides(), from.strides()}).run([&](const auto& at, int64_t n, const auto& step) {
      T* t = target + at[0];
      const T* s = source + at[1];
      if (step[0] == 1 && step[1] == 1) {
        for (int64_t i = 0; i < n; ++i) t[i] = static_cast<T>(accumulate_t<T>(t[i]) + accumulate_t<T>(s[i]));
      } else {
        for (int64_t i = 0; i < n; ++i) t[i * step[0]] = static_cast<T>(accumulate_t<T>(t[i * step[0]]) + accumulate_t<T>(s[i * step[1]]));
      }
    });
  });
}

Tensor contiguous_copy(const Tensor& t) {
  Tensor out = empty(meta_of(t));
  if (!t.device().meta) copy(out, t);
  return out;
}

Tensor as_contiguous(const Tensor& t) { return t.is_contiguous() ? t : contiguous_copy(t); }

}  // namespace spool
