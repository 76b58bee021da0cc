#pragma once
// Threads. Work is cut into blocks by its size alone, never by the number of threads, so results do not depend on how many run. The threads
// are our own: they sleep soon when there is nothing to do, and share blocks out one by one, so that a machine that others use too costs a
// step what they take and no more (OpenMP's fixed shares and long spinning made such steps seven times slower).
#include <cstdint>
#include <type_traits>

namespace spool {

int num_threads();             ///< Threads that parallel work uses. Default: OMP_NUM_THREADS, else the cores that this process may use.
void set_num_threads(int n);   ///< n ≥ 1; throws Error otherwise.

/// Below this many element operations a parallel region costs more than it gains.
inline constexpr int64_t parallel_threshold = 50'000;

namespace detail {
using BlockFn = void (*)(void* context, int64_t block);
void run_blocks(int64_t blocks, bool parallel, BlockFn fn, void* context);
}  // namespace detail

/// Calls f(block) for block in [0, blocks), on several threads when blocks × work_per_block reaches the threshold. f must not throw.
template <class F>
void parallel_blocks(int64_t blocks, int64_t work_per_block, F&& f) {
  const bool parallel = blocks > 1 && blocks * work_per_block >= parallel_threshold;
  detail::run_blocks(blocks, parallel, [](void* context, int64_t block) { (*static_cast<std::remove_reference_t<F>*>(context))(block); }, const_cast<std::remove_const_t<std::remove_reference_t<F>>*>(&f));
}

/// Calls f(begin, end) over [0, n) in blocks of `grain` elements of work 1 each.
template <class F>
void parallel_range(int64_t n, int64_t grain, F&& f) {
  parallel_blocks((n + grain - 1) / grain, grain, [&](int64_t block) {
    const int64_t begin = block * grain;
    f(begin, begin + grain < n ? begin + grain : n);
  });
}

}  // namespace spool
