// Philox against its published answers, and streams that stand alone.
#include <spool/tensor/random.h>

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace spool::test {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}), (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomKey, FoldsToTheSameStreamWhereverItIsFormed) {
  const RandomKey key(7);
  EXPECT_EQ(key.fold("layers.0").fold(3), RandomKey(7).fold("layers.0").fold(3));
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    seen.insert(key.fold(i).value);
    seen.insert(RandomKey(i).value);
    seen.insert(key.fold("name" + std::to_string(i)).value);
  }
  EXPECT_EQ(seen.size(), 3000u);
  EXPECT_NE(key.fold(1).fold(2), key.fold(2).fold(1));
}

TEST(Generator, ContinuesFromItsCounter) {
  Generator first{RandomKey(5)};
  for (int i = 0; i < 7; ++i) first.next();
  Generator second(first.key(), first.counter());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(first.next(), second.next());
}

TEST(Generator, DrawsWhatItSays) {
  Generator random(1);
  double sum = 0, squares = 0, low = 1, high = 0;
  constexpr int n = 200000;
  for (int i = 0; i < n; ++i) {
    const double u = random.uniform(), z = random.normal();
    low = std::min(low, u);
    high = std::max(high, u);
    sum += z;
    squares += z * z;
    const int64_t k = random.integer(-3, 4);
    ASSERT_GE(k, -3);
    ASSERT_LT(k, 4);
  }
  EXPECT_GE(low, 0);
  EXPECT_LT(high, 1);
  EXPECT_LT(low, 1e-4);
  EXPECT_GT(high, 1 - 1e-4);
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_LT(uniform_from(~0u), 1.f);
  EXPECT_LT(uniform_from(~0u, ~0u), 1.0);
}

}  // namespace
}  // namespace spool::test
