#pragma once
// Column sums: sums[j] (+)= Σ_i x[i, j] for x[rows, n], the gradient of a bias. Sums are formed in T (float for bf16 and f16).
//
// Bits depend on rows alone, not on n or the number of threads: each column is summed over blocks of `column_sum_rows` rows, a plain chain
// in each, and the blocks are added pairwise in a fixed tree, so the error grows with the block length and log₂(rows), not with rows.
// Threads take groups of 64 columns: fewer columns than that run on one. Never allocates.
#include <cstdint>

#include <spool/tensor/dtype.h>

namespace spool::kernels {

inline constexpr int64_t column_sum_rows = 64;

/// x has contiguous columns and rows `row_stride` elements apart. rows = 0 gives zeros (or leaves sums when accumulating).
/// In is T, or bfloat16 or float16 with T = float.
template <class In, class T>
void column_sum(int64_t rows, int64_t n, const In* x, int64_t row_stride, T* sums, bool accumulate);

}  // namespace spool::kernels
