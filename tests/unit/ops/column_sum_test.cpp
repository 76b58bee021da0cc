// Column sums against long double, and their bits.
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <spool/ops/cpu/column_sum.h>
#include <spool/tensor/parallel.h>

namespace spool::kernels {
namespace {

template <class In, class T>
void check(int64_t rows, int64_t n, int64_t gap, bool accumulate) {
  std::mt19937 random(7);  // NOLINT: the same numbers in every run
  std::normal_distribution<float> normal;
  const int64_t row = n + gap;
  std::vector<In> x(static_cast<size_t>(rows * row + 1));
  for (auto& v : x) v = In(normal(random));
  const std::vector<T> before(static_cast<size_t>(n + 1), T(2));
  std::vector<T> first;
  const int threads = num_threads();
  for (int t : {1, 2, 3, 5}) {
    set_num_threads(t);
    std::vector<T> sums = before;
    column_sum(rows, n, x.data(), row, sums.data(), accumulate);
    if (first.empty()) first = sums;
    ASSERT_EQ(sums, first);
  }
  set_num_threads(threads);
  ASSERT_EQ(first.back(), T(2));
  for (int64_t j = 0; j < n; ++j) {
    long double want = accumulate ? 2 : 0, size = 1;
    for (int64_t i = 0; i < rows; ++i) {
      const auto v = static_cast<long double>(static_cast<T>(x[static_cast<size_t>(i * row + j)]));
      want += v;
      size += std::abs(v);
    }
    ASSERT_NEAR(static_cast<double>(first[static_cast<size_t>(j)]), static_cast<double>(want),
                static_cast<double>(size) * std::numeric_limits<T>::epsilon() * 4)
        << rows << "x" << n;
  }
}

TEST(ColumnSum, MatchesAndKeepsItsBits) {
  for (int64_t rows : {0, 1, 63, 64, 65, 1000, 4096}) {
    for (int64_t n : {0, 1, 7, 64, 65, 300}) {
      check<float, float>(rows, n, 0, false);
      check<float, float>(rows, n, 3, true);
      check<double, double>(rows, n, 1, false);
      check<bfloat16, float>(rows, n, 0, true);
      check<float16, float>(rows, n, 2, false);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace spool::kernels
