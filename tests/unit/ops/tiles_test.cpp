// Kernels that work by tiles and vectors, at sizes around them: bit for bit what a plain loop gives.
#include <gtest/gtest.h>
#include <spool/spool.h>

namespace spool {
namespace {

template <class T>
std::vector<T> scanned(const std::vector<T>& x, const Shape& shape, int axis, PrefixOptions options) {
  int64_t inner = 1;
  for (int i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const int64_t length = shape[axis], outer = numel(shape) / (length * inner);
  std::vector<T> y(x.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t c = 0; c < inner; ++c) {
      T total = 0;
      for (int64_t k = 0; k < length; ++k) {
        const auto at = size_t((o * length + (options.reverse ? length - 1 - k : k)) * inner + c);
        const T next = total + x[at];
        y[at] = options.exclusive ? total : next;
        total = next;
      }
    }
  return y;
}

template <class T>
void check_prefix_sum(const Shape& shape, int axis, Dtype dtype) {
  const Tensor x = cast(mul_scalar(Rng(uint64_t(numel(shape))).normal(shape), 100), dtype).detach();
  const T* from = static_cast<const T*>(x.raw());
  const std::vector<T> values(from, from + x.numel());
  for (const bool reverse : {false, true})
    for (const bool exclusive : {false, true}) {
      const PrefixOptions options{.reverse = reverse, .exclusive = exclusive};
      const Tensor y = prefix_sum(x, axis, options);
      const T* got = static_cast<const T*>(y.raw());
      ASSERT_EQ(std::vector<T>(got, got + y.numel()), scanned(values, shape, axis, options)) << to_string(shape) << reverse << exclusive;
    }
}

TEST(Tiles, PrefixSumOfRowsRunsInTheOrderOfTheAxis) {
  for (const int64_t rows : {1, 3, 15, 16, 17, 35})
    for (const int64_t length : {1, 3, 4, 63, 64, 65, 130}) {
      check_prefix_sum<float>({rows, length}, 1, Dtype::f32);
      check_prefix_sum<double>({rows, length, 1}, 1, Dtype::f64);
      check_prefix_sum<int64_t>({rows, length}, 1, Dtype::i64);
    }
}

TEST(Tiles, PrefixSumOfColumnsRunsInTheOrderOfTheAxis) {
  for (const int64_t columns : {2, 63, 64, 65, 513, 5000})
    for (const int64_t length : {1, 3, 4, 5, 9}) {
      check_prefix_sum<float>({length, columns}, 0, Dtype::f32);
      check_prefix_sum<double>({2, length, columns}, 1, Dtype::f64);
    }
}

TEST(Tiles, DropoutDrawsFromItsCounter) {
  const RandomKey key(11);
  for (const int64_t columns : {1, 4, 31, 32, 127, 128, 129, 1000}) {
    const int64_t position = (int64_t(3) << 32) + 5;
    const Tensor y = dropout(full({2, 3, columns}, 1), 0.25, key, {.position = position});
    const float* at = static_cast<const float*>(y.raw());
    for (uint32_t b = 0; b < 2; ++b)
      for (int64_t l = 0; l < 3; ++l)
        for (int64_t c = 0; c < columns; ++c, ++at) {
          const auto row = uint64_t(position + l);
          const uint32_t word = philox4x32({uint32_t(c / 4), uint32_t(row), uint32_t(row >> 32), b}, key.words())[size_t(c % 4)];
          ASSERT_EQ(*at, word < 0x40000000u ? 0.0f : float(1 / 0.75)) << columns << " columns: " << b << ' ' << l << ' ' << c;
        }
  }
}

}  // namespace
}  // namespace spool
