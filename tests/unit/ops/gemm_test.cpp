// The CPU matrix product against naive loops in double: values, strides, options, bits and scratch.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <spool/ops/cpu/gemm.h>

namespace spool::kernels {
namespace {

std::mt19937 random_bits(20240607);  // NOLINT: the same sequence in every run
int64_t pick(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_bits); }
double uniform() { return std::uniform_real_distribution<double>(-1, 1)(random_bits); }

struct RestoreThreads {
  int before = num_threads();
  ~RestoreThreads() { set_num_threads(before); }
};

/// A strided batch of matrices inside a larger buffer of random numbers.
template <class T>
struct Matrix {
  std::vector<T> data;
  int64_t row, col, batch;

  /// `order` 0: rows contiguous, 1: columns contiguous, 2: neither. `gap` widens the outer stride; `shared` gives batch stride 0.
  Matrix(int64_t batches, int64_t rows, int64_t cols, int order, int64_t gap = 0, bool shared = false) {
    const int64_t inner = order == 2 ? 2 : 1;
    row = order == 1 ? inner : inner * cols + gap;
    col = order == 1 ? rows + gap : inner;
    batch = shared ? 0 : (order == 1 ? col * cols : row * rows) + gap;
    data.resize(static_cast<size_t>(std::max<int64_t>(1, (shared ? 1 : batches) * ((order == 1 ? col * cols : row * rows) + gap))));
    for (auto& x : data) x = T(static_cast<float>(uniform()));
  }
  double at(int64_t b, int64_t i, int64_t j) const { return static_cast<double>(data[static_cast<size_t>(b * batch + i * row + j * col)]); }
  GemmInput<T> input() const { return {data.data(), row, col, batch}; }
  GemmOutput<T> output() { return {data.data(), row, batch}; }
};

/// Scratch of the declared size between canaries.
struct Scratch {
  static constexpr size_t margin = 256;
  std::vector<std::byte> memory;
  std::byte* begin;
  size_t size;

  explicit Scratch(size_t bytes) : memory(bytes + 2 * margin + 64, std::byte{0xa5}), size(bytes) {
    begin = memory.data() + margin;
    begin += (64 - reinterpret_cast<uintptr_t>(begin) % 64) % 64;
  }
  std::span<std::byte> span() { return {begin, size}; }
  bool intact() const {
    for (const std::byte* p = memory.data(); p < memory.data() + memory.size(); ++p) {
      if ((p < begin || p >= begin + size) && *p != std::byte{0xa5}) return false;
    }
    return true;
  }
};

double exact(Activation activation, double z) {
  switch (activation) {
    case Activation::none:
      return z;
    case Activation::relu:
      return std::max(z, 0.0);
    case Activation::gelu_erf:
      return 0.5 * z * (1 + std::erf(z / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
    case Activation::silu:
      return z / (1 + std::exp(-z));
  }
  return 0;
}

template <class A, class B, class T>
void compare(const GemmShape& s, const Matrix<A>& a, const Matrix<B>& b, Matrix<T> c, GemmOptions<T> options, int threads = 2) {
  const Matrix<T> before = c;
  Matrix<T> pre(s.batch, s.m, s.n, 0, 5);
  if (options.pre) options.pre = pre.data.data(), options.pre_row_stride = pre.row, options.pre_batch_stride = pre.batch;
  const RestoreThreads restore;
  set_num_threads(threads);
  Scratch scratch(gemm_scratch_bytes(s, dtype_of<T>, threads));
  gemm(s, a.input(), b.input(), c.output(), options, scratch.span());
  ASSERT_TRUE(scratch.intact());
  const double unit = std::numeric_limits<T>::epsilon();
  for (int64_t q = 0; q < s.batch; ++q) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < s.k; ++p) {
          sum += a.at(q, i, p) * b.at(q, p, j);
          size += std::abs(a.at(q, i, p) * b.at(q, p, j));
        }
        double z = static_cast<double>(options.alpha) * sum;
        if (options.accumulate) z += before.at(q, i, j);
        if (options.bias) z += static_cast<double>(options.bias[j]);
        const double tolerance = unit * (8 * size * std::abs(static_cast<double>(options.alpha)) + 8 * std::abs(z) + 4);
        ASSERT_NEAR(c.at(q, i, j), exact(options.activation, z), tolerance) << s.m << "x" << s.n << "x" << s.k << " at " << i << "," << j;
        if (options.pre) {
          ASSERT_NEAR(pre.at(q, i, j), z, tolerance);
        }
      }
    }
  }
  // What lies between the rows of C is not touched.
  for (int64_t i = 0; i + 1 < s.m; ++i) {
    for (int64_t j = s.n; j < c.row; ++j) ASSERT_EQ(c.at(0, i, j), before.at(0, i, j));
  }
}

template <class A, class B, class T>
void random_case(int64_t largest) {
  const GemmShape s{pick(0, largest), pick(0, largest), pick(0, largest), pick(1, 3)};
  const Matrix<A> a(s.batch, s.m, s.k, static_cast<int>(pick(0, 2)), pick(0, 3), pick(0, 2) == 0);
  const Matrix<B> b(s.batch, s.k, s.n, static_cast<int>(pick(0, 2)), pick(0, 3), pick(0, 2) == 0);
  const Matrix<T> c(s.batch, s.m, s.n, 0, pick(0, 3));
  std::vector<T> bias(static_cast<size_t>(s.n));
  for (auto& x : bias) x = static_cast<T>(uniform());
  GemmOptions<T> options;
  if (pick(0, 1)) options.alpha = static_cast<T>(0.7);
  options.accumulate = pick(0, 1) != 0;
  if (pick(0, 1) && s.n) options.bias = bias.data();
  options.activation = static_cast<Activation>(pick(0, 4));
  T wanted{};
  if (pick(0, 1)) options.pre = &wanted;
  compare(s, a, b, c, options, static_cast<int>(pick(1, 3)));
}

TEST(Gemm, RandomShapesStridesAndOptions) {
  for (int i = 0; i < 150; ++i) {
    random_case<float, float, float>(40);
    random_case<double, double, double>(40);
    random_case<bfloat16, bfloat16, float>(40);
    random_case<float16, float, float>(40);
    random_case<float, bfloat16, float>(40);
    if (HasFatalFailure()) return;
  }
  for (int i = 0; i < 6; ++i) {
    random_case<float, float, float>(300);
    random_case<double, double, double>(300);
    random_case<bfloat16, float16, float>(300);
    if (HasFatalFailure()) return;
  }
}

TEST(Gemm, AllTransposesAcrossEveryBlockEdge) {
  const GemmShape shapes[] = {{1, 1, 1},    {6, 16, 1},    {7, 17, 5},    {13, 33, 385},   {145, 31, 400}, {1, 1100, 700}, {289, 65, 257},
                              {1, 40, 900}, {900, 1, 130}, {5, 1030, 40}, {17, 1029, 300}, {300, 9, 513},  {25, 47, 2000}};
  for (const auto& s : shapes) {
    for (int order = 0; order < 4; ++order) {
      compare(s, Matrix<float>(1, s.m, s.k, order & 1), Matrix<float>(1, s.k, s.n, order >> 1), Matrix<float>(1, s.m, s.n, 0, 3), {});
      compare(s, Matrix<double>(1, s.m, s.k, order & 1), Matrix<double>(1, s.k, s.n, order >> 1), Matrix<double>(1, s.m, s.n, 0), {});
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Gemm, NegativeStridesReadBackwards) {
  const GemmShape s{9, 20, 11};
  Matrix<float> a(1, s.m, s.k, 0), b(1, s.k, s.n, 0), straight(1, s.m, s.n, 0), reversed(1, s.m, s.n, 0);
  gemm(s, a.input(), b.input(), straight.output());
  const GemmInput<float> upside_down{a.data.data() + (s.m - 1) * a.row, -a.row, 1, 0};
  gemm(s, upside_down, b.input(), reversed.output());
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) ASSERT_EQ(reversed.at(0, i, j), straight.at(0, s.m - 1 - i, j));
  }
}

TEST(Gemm, EmptyInnerDimensionStillFinishes) {
  const Matrix<float> a(1, 3, 0, 0), b(1, 0, 4, 0);
  const std::vector<float> bias{1, -2, 3, -4};
  GemmOptions<float> options;
  options.bias = bias.data();
  options.activation = Activation::relu;
  Matrix<float> c(1, 3, 4, 0);
  gemm({3, 4, 0}, a.input(), b.input(), c.output(), options);
  for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(c.at(0, 2, j), std::max(bias[static_cast<size_t>(j)], 0.0f));
  options.accumulate = true;
  compare({3, 4, 0}, a, b, c, options);
}

TEST(Gemm, WidensSixteenBitFloatsExactly) {
  // 1 × value + 0: every finite bit pattern survives, through both packing orders and both operands.
  std::vector<float16> half(65536);
  std::vector<bfloat16> brain(65536);
  for (size_t u = 0; u < 65536; ++u) half[u].bits = brain[u].bits = static_cast<uint16_t>(u);
  const float one = 1;
  std::vector<float> y(65536);
  auto check = [&](const auto& x) {
    using In = std::decay_t<decltype(x[0])>;
    for (const bool as_rows : {false, true}) {
      if (as_rows) {
        gemm({65536, 1, 1}, GemmInput<In>{x.data(), 1, 1}, GemmInput<float>{&one, 1, 1}, GemmOutput<float>{y.data(), 1});
      } else {
        gemm({1, 65536, 1}, GemmInput<float>{&one, 1, 1}, GemmInput<In>{x.data(), 65536, 1}, GemmOutput<float>{y.data(), 65536});
      }
      for (size_t u = 0; u < 65536; ++u) {
        const float want = static_cast<float>(x[u]);
        ASSERT_TRUE(y[u] == want || (std::isnan(want) && std::isnan(y[u]))) << u;
      }
    }
  };
  check(half);
  check(brain);
}

template <class T>
void same_bits_for_any_thread_count(const GemmShape& s, int order, const GemmOptions<T>& base) {
  const Matrix<T> a(s.batch, s.m, s.k, order & 1), b(s.batch, s.k, s.n, order >> 1), start(s.batch, s.m, s.n, 0);
  std::vector<T> first;
  const RestoreThreads restore;
  for (int threads : {1, 2, 3, 5}) {
    set_num_threads(threads);
    Scratch scratch(gemm_scratch_bytes(s, dtype_of<T>, threads));
    Matrix<T> c = start;
    gemm(s, a.input(), b.input(), c.output(), base, scratch.span());
    ASSERT_TRUE(scratch.intact());
    if (first.empty()) first = c.data;
    ASSERT_EQ(std::memcmp(first.data(), c.data.data(), first.size() * sizeof(T)), 0) << threads << " threads";
  }
}

TEST(Gemm, BitsDoNotDependOnTheThreads) {
  const GemmShape shapes[] = {{300, 200, 100}, {150, 333, 700}, {16, 16, 20000}, {64, 64, 3000},
                              {33, 40, 2500},  {1, 3000, 900},  {40, 40, 40, 50}};
  for (const auto& s : shapes) {
    for (int order = 0; order < 4; ++order) {
      GemmOptions<float> options;
      options.alpha = 0.3f;
      options.accumulate = order & 1;
      options.activation = Activation::gelu_erf;
      same_bits_for_any_thread_count<float>(s, order, options);
      same_bits_for_any_thread_count<double>(s, order, {});
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Gemm, BitsOfAnElementDependOnItsRowColumnAndK) {
  const RestoreThreads restore;
  for (const auto& [k, order, alpha] : {std::tuple{17, 0, 1.f}, {300, 0, 0.7f}, {385, 0, 1.f}, {1000, 0, 1.f}, {17, 1, 0.7f}, {300, 1, 1.f}, {385, 1, 0.7f}, {1000, 1, 1.f}}) {
    const GemmShape s{160, 300, k};
    const Matrix<float> a(1, s.m, k, 0), b(1, k, s.n, order);
    const std::vector<float> bias(static_cast<size_t>(s.n), 0.0f);  // of zeros, so that leaving it out changes nothing
    GemmOptions<float> options;
    options.alpha = alpha;
    options.bias = bias.data();
    options.activation = Activation::silu;
    Matrix<float> whole(1, s.m, s.n, 0);
    Scratch scratch(gemm_scratch_bytes(s, Dtype::f32, 2));
    gemm(s, a.input(), b.input(), whole.output(), options, scratch.span());
    for (int repeat = 0; repeat < 40; ++repeat) {
      // Few rows and single columns take paths of their own.
      const int64_t i = pick(0, s.m - 1), m = pick(1, std::min<int64_t>(s.m - i, repeat % 2 ? 8 : s.m));
      const int64_t j = pick(0, s.n - 1), n = repeat % 5 == 0 ? 1 : pick(1, s.n - j);
      options.bias = repeat % 4 == 0 ? nullptr : bias.data();
      Matrix<float> part(1, m, n, 0);
      GemmInput<float> rows = a.input(), columns = b.input();
      rows.data += i * a.row;
      columns.data += j * b.col;
      gemm({m, n, k}, rows, columns, part.output(), options, scratch.span());
      for (int64_t r = 0; r < m; ++r) {
        ASSERT_EQ(std::memcmp(part.data.data() + r * n, whole.data.data() + (i + r) * s.n + j, static_cast<size_t>(n) * sizeof(float)), 0)
            << m << " x " << n << " x " << k << ", order " << order << ", alpha " << alpha;
      }
    }
  }
}

TEST(Gemm, SmallProductsNeedNoScratchAndLargeOnesSay) {
  EXPECT_EQ(gemm_scratch_bytes({64, 64, 64}, Dtype::f32, 8), 0u);
  EXPECT_EQ(gemm_scratch_bytes({0, 64, 64}, Dtype::f32, 8), 0u);
  const size_t one = gemm_scratch_bytes({1024, 1024, 1024}, Dtype::f32, 1);
  EXPECT_EQ(gemm_scratch_bytes({1024, 1024, 1024}, Dtype::f32, 4), 4 * one);
  EXPECT_EQ(one % 64, 0u);
  EXPECT_LE(one, size_t{2} << 20);
  const Matrix<float> a(1, 200, 200, 0), b(1, 200, 200, 0);
  Matrix<float> c(1, 200, 200, 0);
  EXPECT_THROW(gemm({200, 200, 200}, a.input(), b.input(), c.output()), std::invalid_argument);
}

}  // namespace
}  // namespace spool::kernels
