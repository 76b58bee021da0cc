#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace spool {
namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// How often a waiting thread looks before it sleeps: some 20 µs, the gap between two ops. Longer would only take the core from others.
constexpr int looks = 500;

/// Set on threads that are inside of a region: regions do not nest.
thread_local bool inside_region = false;

struct Region {
  detail::BlockFn fn;
  void* context;
  int64_t blocks;
  std::atomic<int64_t> next{0};

  void work() {
    for (int64_t block = next.fetch_add(1, std::memory_order_relaxed); block < blocks; block = next.fetch_add(1, std::memory_order_relaxed)) fn(context, block);
  }
};

/// Threads that help whoever opens a region. Blocks are handed out one by one, so that a helper that the system has put aside holds up at
/// most the block it is at. One region at a time; a caller that finds another under way works alone.
class Pool {
 public:
  /// Runs the region on the caller and at most `helpers` threads. False, and nothing done, when another region is under way.
  bool run(Region& region, int helpers) {
    {
      const std::lock_guard lock(mutex_);
      if (region_) return false;
      try {
        for (; threads_ < helpers; ++threads_) std::thread([this] { help(); }).detach();
      } catch (const std::system_error&) {
        // the system gives no more threads: those that there are do the work
      }
      region_ = &region;
      tickets_ = helpers;
      opened_.fetch_add(1, std::memory_order_release);
    }
    if (sleeping_.load() > 0) wake_.notify_all();
    region.work();
    std::unique_lock lock(mutex_);
    region_ = nullptr;  // who comes now comes too late
    if (inside_.load() == 0) return true;
    lock.unlock();
    for (int look = 0; look < looks && inside_.load(std::memory_order_acquire) > 0; ++look) relax();
    lock.lock();
    left_.wait(lock, [this] { return inside_.load() == 0; });
    return true;
  }

 private:
  [[noreturn]] void help() {
    inside_region = true;
    uint64_t seen = 0;
    for (;;) {
      for (int look = 0; look < looks && opened_.load(std::memory_order_acquire) == seen; ++look) relax();
      std::unique_lock lock(mutex_);
      sleeping_.fetch_add(1);
      wake_.wait(lock, [&] { return opened_.load() != seen; });
      sleeping_.fetch_sub(1);
      seen = opened_.load();
      if (!region_ || tickets_ == 0) continue;
      Region& region = *region_;
      --tickets_;
      inside_.fetch_add(1);
      lock.unlock();
      region.work();
      lock.lock();
      if (inside_.fetch_sub(1) == 1) left_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, left_;
  Region* region_ = nullptr;
  int tickets_ = 0, threads_ = 0;
  std::atomic<int> sleeping_{0}, inside_{0};
  std::atomic<uint64_t> opened_{0};
};

/// Never destroyed: its threads sleep in it until the process ends.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

int threads_at_start() {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    int n = 0;
    if (std::from_chars(text, text + std::strlen(text), n).ec == std::errc() && n > 0) return n;
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1, int(std::thread::hardware_concurrency()));
}

std::atomic<int>& wanted_threads() {
  static std::atomic<int> wanted{threads_at_start()};
  return wanted;
}

}  // namespace

int num_threads() { return wanted_threads().load(std::memory_order_relaxed); }

void set_num_threads(int n) {
  if (n < 1) fail<Error>("set_num_threads: needs at least 1, got ", n);
  wanted_threads() = n;
}

void detail::run_blocks(int64_t blocks, bool parallel, BlockFn fn, void* context) {
  const int64_t helpers = std::min<int64_t>(num_threads(), blocks) - 1;
  if (parallel && helpers > 0 && !inside_region) {
    Region region{.fn = fn, .context = context, .blocks = blocks};
    inside_region = true;
    const bool done = pool().run(region, int(helpers));
    inside_region = false;
    if (done) return;
  }
  for (int64_t block = 0; block < blocks; ++block) fn(context, block);
}

}  // namespace spool
