// Regions of parallel work: every block once, whoever asks and however many threads there are.
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace spool::test {
namespace {

constexpr int64_t heavy = parallel_threshold;  // work that makes any two blocks a parallel region

class ThreadPool : public testing::Test {
 protected:
  ~ThreadPool() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};

/// How often each block ran.
std::vector<int> counts(int64_t blocks, int64_t work = heavy) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(blocks));
  parallel_blocks(blocks, work, [&](int64_t block) { ++seen[size_t(block)]; });
  return {seen.begin(), seen.end()};
}

TEST_F(ThreadPool, EveryBlockRunsOnceForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 8, 1, 2}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    for (const int64_t blocks : {0, 1, 2, 3, 7, 64, 1000})
      for (int repeat = 0; repeat < 20; ++repeat) ASSERT_EQ(counts(blocks), std::vector<int>(size_t(blocks), 1)) << blocks << " blocks, " << threads << " threads";
  }
}

TEST_F(ThreadPool, HelpersDoTakePart) {
  set_num_threads(2);
  std::atomic<int> here{0};  // both blocks are under way at once, or this never ends
  parallel_blocks(2, heavy, [&](int64_t) {
    ++here;
    while (here.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(here.load(), 2);
}

TEST_F(ThreadPool, ARegionInsideARegionRunsOnItsThread) {
  set_num_threads(3);
  std::atomic<int64_t> total{0};
  parallel_blocks(6, heavy, [&](int64_t) {
    const auto thread = std::this_thread::get_id();
    parallel_blocks(5, heavy, [&](int64_t block) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      total += block;
    });
  });
  EXPECT_EQ(total.load(), 60);
}

TEST_F(ThreadPool, SeveralCallersAtOnce) {
  set_num_threads(3);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) wrong += counts(5) != std::vector<int>(5, 1);
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(ThreadPool, LittleWorkStaysOnTheCallingThread) {
  set_num_threads(4);
  const auto caller = std::this_thread::get_id();
  parallel_blocks(10, parallel_threshold / 10 - 1, [&](int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

TEST_F(ThreadPool, NeedsAThread) { EXPECT_THROW(set_num_threads(0), Error); }

}  // namespace
}  // namespace spool::test
