#include <spool/ops/cpu/column_sum.h>

#include <algorithm>
#include <bit>

#include <spool/ops/cpu/gemm_pack.h>
#include <spool/tensor/parallel.h>

namespace spool::kernels {
namespace {

constexpr int64_t group = 64;  // columns of one task: whole cache lines, and a stack of partial sums that stays in the first-level cache
constexpr int levels = 48;     // of the tree

SPOOL_INLINE float value(float x) { return x; }
SPOOL_INLINE double value(double x) { return x; }
SPOOL_INLINE float value(bfloat16 x) { return detail::widen(x); }
SPOOL_INLINE float value(float16 x) { return detail::widen(x); }

/// One group of columns. The tree is walked as a binary counter: after block b, as many levels are merged as b + 1 has trailing zeros.
template <class In, class T>
SPOOL_CLONES void group_sum(int64_t rows, int64_t n, const In* x, int64_t row_stride, T* sums, bool accumulate) {
  T stack[levels][group];
  int depth = 0;
  int64_t blocks = 0;
  for (int64_t i = 0; i < rows; i += column_sum_rows) {
    T* sum = stack[depth++];
    for (int64_t j = 0; j < group; ++j) sum[j] = T(0);
    const int64_t end = std::min(rows, i + column_sum_rows);
    if (n == group) {
      for (int64_t r = i; r < end; ++r) {
        for (int64_t j = 0; j < group; ++j) sum[j] += value(x[r * row_stride + j]);
      }
    } else {
      for (int64_t r = i; r < end; ++r) {
        for (int64_t j = 0; j < n; ++j) sum[j] += value(x[r * row_stride + j]);
      }
    }
    for (int merges = std::countr_zero(static_cast<uint64_t>(++blocks)); merges > 0; --merges, --depth) {
      for (int64_t j = 0; j < group; ++j) stack[depth - 2][j] += stack[depth - 1][j];
    }
  }
  for (; depth > 1; --depth) {
    for (int64_t j = 0; j < group; ++j) stack[depth - 2][j] += stack[depth - 1][j];
  }
  for (int64_t j = 0; j < n; ++j) {
    const T total = depth ? stack[0][j] : T(0);
    sums[j] = accumulate ? sums[j] + total : total;
  }
}

}  // namespace

template <class In, class T>
void column_sum(int64_t rows, int64_t n, const In* x, int64_t row_stride, T* sums, bool accumulate) {
  if (n <= 0) return;
  parallel_blocks((n + group - 1) / group, rows * group, [&](int64_t g) {
    group_sum<In, T>(rows, std::min(group, n - g * group), x + g * group, row_stride, sums + g * group, accumulate);
  });
}
template void column_sum(int64_t, int64_t, const float*, int64_t, float*, bool);
template void column_sum(int64_t, int64_t, const double*, int64_t, double*, bool);
template void column_sum(int64_t, int64_t, const bfloat16*, int64_t, float*, bool);
template void column_sum(int64_t, int64_t, const float16*, int64_t, float*, bool);

}  // namespace spool::kernels
