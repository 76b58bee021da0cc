#pragma once
// Private to gemm: how a product is cut. Nothing here changes a bit of the result, except `gemm_k_block`.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <spool/ops/cpu/gemm.h>
#include <spool/ops/cpu/gemm_kernel.h>

namespace spool::kernels::detail {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

inline constexpr int64_t stack_panel_bytes = 64 * 1024;
inline constexpr int64_t worth_a_thread = 500'000;  ///< Multiply-adds (about 12 µs) that pay for one more thread.
inline constexpr int64_t partials_per_worker = 4;
inline constexpr int64_t most_turned_rows = 160;  ///< From here on, packing a transposed B is not felt.

/// Sizes that depend on shape and element size alone. Panels: a block of A, [mc, kc], stays in the second-level cache; a panel of B,
/// [kc, nc], in the third; one strip of it, [kc, nr], in the first.
struct Panels {
  int64_t kc, mc, nc;
  int64_t k_blocks;
  int64_t a_bytes, b_bytes;
  bool split_k;           ///< C is so small, and k so long, that threads take blocks of k.
  int64_t partial_bytes;  ///< With split_k: room for partials_per_worker copies of C, each worker.
  int64_t worker_bytes;   ///< Scratch of one worker; 0 when the panels fit on the stack.

  Panels(const GemmShape& s, int64_t element) {
    kc = std::max<int64_t>(gemm_k_block(s.k), 1);
    k_blocks = ceil_div(s.k, kc);
    const int64_t m_most = element == 4 ? 144 : 72;
    mc = std::min(round_up(ceil_div(s.m, ceil_div(std::max<int64_t>(s.m, 1), m_most)), max_mr), m_most);
    nc = std::min(round_up(s.n, max_nr), s.m <= 2 * few_rows ? max_nr : static_cast<int64_t>(1024));
    a_bytes = mc * kc * element;
    b_bytes = nc * kc * element;
    const int64_t work = s.m * s.n * s.k;
    split_k = s.batch * ceil_div(s.m, 24) * ceil_div(s.n, 32) <= 8 && k_blocks >= 4 && work >= 2 * worth_a_thread && s.batch == 1;
    partial_bytes = split_k ? round_up(partials_per_worker * s.m * s.n * element, 64) : 0;
    const int64_t panels = a_bytes + b_bytes <= stack_panel_bytes ? 0 : round_up(a_bytes + b_bytes, 64);
    worker_bytes = panels + partial_bytes;
  }
};

/// Threads that a product can use.
inline int64_t useful_workers(const GemmShape& s, int threads) {
  const double work = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) * static_cast<double>(s.batch);
  return std::clamp<int64_t>(static_cast<int64_t>(std::min(work / worth_a_thread, 4096.0)), 1, std::max(threads, 1));
}

/// The grid of tasks over one C: tile_m × tile_n each.
struct Grid {
  int64_t tile_m, tile_n, tasks_m, tasks_n;

  Grid(const GemmShape& s, int64_t workers, int64_t mr, int64_t nr) : tile_m(s.m), tile_n(s.n), tasks_m(1), tasks_n(1) {
    if (workers == 1 || s.batch >= 4 * workers) return;
    constexpr double pack_cost = 8;  // packing an element costs as much as this many multiply-adds
    double best = 1e300;
    for (int64_t pm = 1; pm <= 4 * workers; ++pm) {
      const int64_t tm = round_up(ceil_div(s.m, pm), mr);
      for (int64_t pn = 1; pm * pn <= 4 * workers; ++pn) {
        const int64_t tn = round_up(ceil_div(s.n, pn), nr);
        const double rounds = static_cast<double>(ceil_div(ceil_div(s.m, tm) * ceil_div(s.n, tn) * s.batch, workers));
        const double cost = rounds * (static_cast<double>(tm) * static_cast<double>(tn) + pack_cost * static_cast<double>(tm + tn));
        if (cost < best) {
          best = cost;
          tile_m = tm;
          tile_n = tn;
        }
      }
    }
    tasks_m = ceil_div(s.m, tile_m);
    tasks_n = ceil_div(s.n, tile_n);
  }
};

}  // namespace spool::kernels::detail
