// Rotary positions: both pairings, the scalings, and angles that stay right at a million positions.
#include <cmath>
#include <numbers>

#include "tests/support.h"

namespace spool::test {
namespace {

using Kind = RotaryScaling::Kind;

TEST(Rotary, PairsAreToldApart) {
  const Tensor x = from({1, 2, 3, 4}, Shape{1, 1, 1, 4}, Dtype::f64), angles = rotary_angles(1, 1, {.dim = 4}, Dtype::f64);
  const auto expect = [&](RotaryPairs pairs, const std::vector<double>& expected) {
    const auto y = rotary(x, angles, pairs).to_vector<double>();
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], expected[i], 1e-10);
  };
  expect(RotaryPairs::interleaved, {-1.1426396637, 1.9220755965, 2.9598506679, 4.0297995017});
  expect(RotaryPairs::rotate_half, {-1.9841106486, 1.9599006675, 2.4623779024, 4.0197996683});
}

TEST(Rotary, ScoresDependOnTheDistanceOnly) {
  Rng rng(1);
  const Tensor q = rng.normal({1, 1, 1, 12}), k = rng.normal({1, 1, 1, 12});
  for (const RotaryPairs pairs : {RotaryPairs::interleaved, RotaryPairs::rotate_half}) {
    const auto score = [&](int64_t at, int64_t other) {
      const RotaryOptions o{.dim = 12};
      return sum(rotary(q, rotary_angles(1, at, o, Dtype::f64), pairs) * rotary(k, rotary_angles(1, other, o, Dtype::f64), pairs)).item();
    };
    EXPECT_NEAR(score(7, 3), score(1007, 1003), 1e-10);
    EXPECT_GT(std::fabs(score(7, 3) - score(7, 2)), 1e-3);
  }
}

TEST(Rotary, AnglesAreRightAtAMillionPositions) {
  for (const double theta : {1e4, 5e5}) {
    const RotaryOptions o{.dim = 128, .theta = theta};
    for (const int64_t at : {0, 255, 4095, 131071, 1048575}) {
      const auto a = rotary_angles(1, at, o).to_vector<float>();
      for (int j = 0; j < 64; ++j) {
        const double angle = double(at) * std::pow(theta, -2.0 * j / 128);
        EXPECT_NEAR(a[size_t(j)], std::cos(angle), 1e-6);
        EXPECT_NEAR(a[size_t(64 + j)], std::sin(angle), 1e-6);
      }
    }
    // As others form them: f32 frequencies, f32 products. Far off at long positions, and reproducible to the bit.
    RotaryOptions compat = o;
    compat.hf_compat = true;
    const auto a = rotary_angles(1, 1048575, compat).to_vector<float>();
    double worst = 0;
    for (int j = 0; j < 64; ++j) {
      const float frequency = 1.0f / std::pow(float(theta), float(2 * j) / 128.0f);
      EXPECT_EQ(a[size_t(j)], std::cos(1048575.0f * frequency));
      EXPECT_EQ(a[size_t(64 + j)], std::sin(1048575.0f * frequency));
      worst = std::max(worst, std::fabs(double(a[size_t(j)]) - std::cos(1048575.0 * std::pow(theta, -2.0 * j / 128))));
    }
    EXPECT_GT(worst, 1e-3);
  }
}

TEST(Rotary, AnyOrderOfPositions) {
  const RotaryOptions o{.dim = 8};
  const Tensor some = rotary_angles(from(std::vector<int64_t>{5, 0, 1048575}), o, Dtype::f64);
  for (const auto& [row, at] : {std::pair<int64_t, int64_t>{0, 5}, {1, 0}, {2, 1048575}})
    EXPECT_EQ(narrow(some, 0, row, 1).to_vector<double>(), rotary_angles(1, at, o, Dtype::f64).to_vector<double>());
}

/// Frequencies, read off the angles of position 1.
std::vector<double> frequencies(const RotaryOptions& o, int64_t length = 0) {
  const auto a = rotary_angles(1, 1, o, Dtype::f64, cpu, length).to_vector<double>();
  std::vector<double> f;
  for (int64_t j = 0; j < o.dim / 2; ++j) f.push_back(std::atan2(a[size_t(o.dim / 2 + j)], a[size_t(j)]));
  return f;
}

TEST(Rotary, Scalings) {
  const RotaryOptions plain{.dim = 64, .theta = 5e5};
  const auto with = [&](RotaryScaling scaling) {
    RotaryOptions o = plain;
    o.scaling = scaling;
    return o;
  };
  const auto f = frequencies(plain), linear = frequencies(with({.kind = Kind::linear, .factor = 4}));
  const auto ntk = frequencies(with({.kind = Kind::ntk, .factor = 4}));
  const auto llama3 = frequencies(with({.kind = Kind::llama3, .factor = 8, .low = 1, .high = 4, .original = 8192}));
  int same = 0, smooth = 0, scaled = 0;
  for (size_t j = 0; j < f.size(); ++j) {
    EXPECT_NEAR(linear[j], f[j] / 4, 1e-12);
    EXPECT_NEAR(ntk[j], std::pow(5e5 * std::pow(4.0, 64.0 / 62.0), -2.0 * double(j) / 64), 1e-12);
    const double wavelength = 2 * std::numbers::pi / f[j];
    if (wavelength < 2048) {
      ++same;
      EXPECT_NEAR(llama3[j], f[j], 1e-12);
    } else if (wavelength > 8192) {
      ++scaled;
      EXPECT_NEAR(llama3[j], f[j] / 8, 1e-12);
    } else {
      ++smooth;
      const double s = (8192 / wavelength - 1) / 3;
      EXPECT_NEAR(llama3[j], (1 - s) * f[j] / 8 + s * f[j], 1e-12);
    }
  }
  EXPECT_GT(same, 0);
  EXPECT_GT(smooth, 0);
  EXPECT_GT(scaled, 0);
  const RotaryOptions dynamic = with({.kind = Kind::dynamic, .factor = 2, .original = 100});
  EXPECT_EQ(frequencies(dynamic, 100), f);
  EXPECT_NEAR(frequencies(dynamic, 400)[1], std::pow(5e5 * std::pow(2.0 * 4 - 1, 64.0 / 62.0), -2.0 / 64), 1e-12);
}

TEST(Rotary, SixteenBitsTakeAnglesInSinglePrecision) {
  Rng rng(2);
  const Tensor x = cast(rng.normal({1, 3, 2, 8}), Dtype::bf16), angles = rotary_angles(3, 15962, {.dim = 8});
  const auto y = cast(rotary(x, angles, RotaryPairs::rotate_half), Dtype::f32).to_vector<float>();
  const auto expected = rotary(cast(x, Dtype::f32), angles, RotaryPairs::rotate_half).to_vector<float>();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 4e-3 * std::fabs(expected[i]) + 1e-6);
}

}  // namespace
}  // namespace spool::test
