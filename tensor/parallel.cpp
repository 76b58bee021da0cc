#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <omp.h>

namespace spool {

int num_threads() { return omp_get_max_threads(); }

void set_num_threads(int n) {
  if (n < 1) fail<Error>("set_num_threads: needs at least 1, got ", n);
  omp_set_num_threads(n);
}

void detail::run_blocks(int64_t blocks, bool parallel, BlockFn fn, void* context) {
  if (!parallel || omp_in_parallel() || omp_get_max_threads() == 1) {
    for (int64_t block = 0; block < blocks; ++block) fn(context, block);
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; ++block) fn(context, block);
}

}  // namespace spool
