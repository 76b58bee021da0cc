// The 16-bit floats: every value survives the way through f32, and rounding goes to the nearest, halves to even.
#include <spool/tensor/dtype.h>
#include <spool/tensor/random.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace spool::test {
namespace {

template <class T>
T of_bits(uint16_t bits) {
  T out;
  out.bits = bits;
  return out;
}

template <class T>
class SixteenBits : public testing::Test {};
using Types = testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(SixteenBits, Types);

TYPED_TEST(SixteenBits, EveryValueRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto value = of_bits<TypeParam>(uint16_t(bits));
    const float wide = value;
    const TypeParam back(wide);
    if (wide != wide) {
      const float again = back;
      ASSERT_NE(again, again) << "NaN " << bits << " was lost";
    } else {
      ASSERT_EQ(back.bits, bits) << wide;
    }
  }
}

TYPED_TEST(SixteenBits, RoundsToNearestAndHalvesToEven) {
  const float top = std::is_same_v<TypeParam, float16> ? 65504.f : 3.38953138925153547590e38f;
  for (uint32_t bits = 0; bits < 0x7fff; ++bits) {  // positive values in order
    const auto low = of_bits<TypeParam>(uint16_t(bits)), high = of_bits<TypeParam>(uint16_t(bits + 1));
    if (float(high) > top || !std::isfinite(float(high)) || float(high) != float(high)) break;
    const float middle = float((double(float(low)) + double(float(high))) / 2);
    const uint16_t even = bits % 2 == 0 ? uint16_t(bits) : uint16_t(bits + 1);
    ASSERT_EQ(TypeParam(middle).bits, even) << "half between " << float(low) << " and " << float(high);
    ASSERT_EQ(TypeParam(std::nextafterf(middle, 0)).bits, bits) << middle;
    ASSERT_EQ(TypeParam(std::nextafterf(middle, INFINITY)).bits, bits + 1) << middle;
    ASSERT_EQ(TypeParam(-middle).bits, 0x8000 | even);
  }
}

TEST(Float16, OverflowsWhereRoundingLeavesTheRange) {
  EXPECT_EQ(float(float16(65504.f)), 65504.f);
  EXPECT_EQ(float(float16(65519.f)), 65504.f);
  EXPECT_TRUE(std::isinf(float(float16(65520.f))));
  EXPECT_TRUE(std::isinf(float(float16(-1e30f))));
  EXPECT_EQ(float16(-0.f).bits, 0x8000);
  EXPECT_EQ(float16(0x1p-25f).bits, 0) << "half of the smallest subnormal rounds to even";
  EXPECT_EQ(float16(std::nextafterf(0x1p-25f, 1)).bits, 1);
  EXPECT_EQ(float16(1e-30f).bits, 0);
}

TEST(Bfloat16, KeepsTheRangeOfF32) {
  EXPECT_TRUE(std::isinf(float(bfloat16(std::numeric_limits<float>::max()))));
  EXPECT_EQ(float(bfloat16(1.f)), 1.f);
  EXPECT_EQ(bfloat16(-0.f).bits, 0x8000);
  EXPECT_EQ(float(bfloat16(257.f)), 256.f);
  EXPECT_EQ(float(bfloat16(259.f)), 260.f);
  for (const uint32_t payload : {1u, 0x7fffffu, 0x400000u, 0xffffu}) {
    const float nan = std::bit_cast<float>(0x7f800000u | payload);
    EXPECT_TRUE(std::isnan(float(bfloat16(nan)))) << payload;
    EXPECT_TRUE(std::isnan(float(float16(nan)))) << payload;
  }
}

#ifdef __FLT16_MAX__
TEST(Float16, AgreesWithTheCompilersType) {
  Generator random(3);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(random.next());
    if (x != x) continue;
    ASSERT_EQ(float16(x).bits, std::bit_cast<uint16_t>(static_cast<_Float16>(x))) << x;
  }
}
#endif

TEST(Dtype, VisitNamesAndSizes) {
  const std::pair<Dtype, size_t> sizes[] = {{Dtype::f32, 4}, {Dtype::f64, 8}, {Dtype::bf16, 2}, {Dtype::f16, 2}, {Dtype::i32, 4}, {Dtype::i64, 8}, {Dtype::u8, 1}, {Dtype::boolean, 1}};
  for (const auto& [dtype, size] : sizes) {
    EXPECT_EQ(dtype_size(dtype), size) << dtype_name(dtype);
    EXPECT_EQ(visit(dtype, []<class T>() { return dtype_of<T>; }), dtype);
  }
  EXPECT_EQ(dtype_name(Dtype::boolean), "bool");
  EXPECT_FALSE(is_integer(Dtype::boolean));
  EXPECT_TRUE(is_integer(Dtype::u8));
  EXPECT_TRUE(is_float(Dtype::f16));
}

}  // namespace
}  // namespace spool::test
