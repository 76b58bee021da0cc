// Moves, windows and diagonals by example, their gradients and what they refuse.
#include "values.h"

#include <spool/tensor/error.h>

#include <algorithm>

namespace spool {
namespace {

using namespace test;

TEST(Moving, SlicesGoDown) {
  const Tensor x = f64({0, 1, 2, 3, 4});
  EXPECT_EQ(values_of(slice(x, 0, -1, slice_end, -2)), (Values{4, 2, 0}));
  EXPECT_EQ(values_of(slice(x, 0, 3, 0, -1)), (Values{3, 2, 1}));
  EXPECT_EQ(values_of(slice(x, 0, 99, -99, -3)), (Values{4, 1}));
  EXPECT_EQ(values_of(slice(x, 0, 1, 3, -1)), Values{});
  EXPECT_EQ(slice(zeros({0}), 0, slice_end, slice_end, -1).numel(), 0);
  EXPECT_EQ(gradient_of(x, [](const Tensor& t) { return slice(t, 0, -1, slice_end, -2) * f64({1, 2, 3}); }), (Values{3, 0, 2, 0, 1}));
  EXPECT_EQ(refusal<ShapeError>([&] { slice(x, 0, 0, 2, 0); }), "slice: step must not be 0");
}

TEST(Moving, PadsInFourModes) {
  const Tensor x = f64({1, 2, 3});
  const auto padded = [&](PadMode mode, int64_t before, int64_t after) {
    return values_of(pad(x, 0, {before, after}, {.mode = mode, .value = 9}));
  };
  EXPECT_EQ(padded(PadMode::constant, 1, 2), (Values{9, 1, 2, 3, 9, 9}));
  EXPECT_EQ(padded(PadMode::constant, -1, 1), (Values{2, 3, 9}));
  EXPECT_EQ(padded(PadMode::constant, -1, -2), Values{});
  EXPECT_EQ(padded(PadMode::edge, 2, 1), (Values{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(padded(PadMode::reflect, 2, 2), (Values{3, 2, 1, 2, 3, 2, 1}));
  EXPECT_EQ(padded(PadMode::wrap, 2, 3), (Values{2, 3, 1, 2, 3, 1, 2, 3}));
  const auto gradient = [&](PadMode mode) { return gradient_of(x, [=](const Tensor& t) { return pad(t, 0, {2, 2}, {.mode = mode}); }); };
  EXPECT_EQ(gradient(PadMode::constant), (Values{1, 1, 1}));
  EXPECT_EQ(gradient(PadMode::edge), (Values{3, 1, 3}));
  EXPECT_EQ(gradient(PadMode::reflect), (Values{2, 3, 2}));
  EXPECT_EQ(gradient(PadMode::wrap), (Values{2, 3, 2}));
  EXPECT_EQ(refusal<ShapeError>([&] { padded(PadMode::constant, -2, -2); }),
            "pad: widths -2 and -2 leave out more than axis 0 of shape [3] has");
  EXPECT_EQ(refusal<ShapeError>([&] { padded(PadMode::reflect, 3, 0); }),
            "pad: axis 0 of shape [3] is too short for a width of 3 in mode reflect");
  EXPECT_EQ(refusal<ShapeError>([&] { padded(PadMode::wrap, 0, 4); }),
            "pad: axis 0 of shape [3] is too short for a width of 4 in mode wrap");
  EXPECT_EQ(refusal<ShapeError>([&] { padded(PadMode::edge, -1, 0); }), "pad: widths -1 and 0 of axis 0: mode edge takes none below 0");
  EXPECT_EQ(refusal<ShapeError>([] { pad(zeros({0}), 0, {1, 0}, {.mode = PadMode::edge}); }),
            "pad: axis 0 of shape [0] is too short for a width of 1 in mode edge");
  EXPECT_EQ(refusal<ShapeError>([&] { pad(x, {{1, 1}, {0, 0}}); }), "pad: 2 widths for the axes of shape [3]");
}

TEST(Moving, PadsArePlannedAsTheyRun) {
  const auto bytes = [](PadMode mode, Device device) {
    const With mine(&Ambient::ledger, std::make_shared<Ledger>());
    const Tensor x = leaf(empty({7, 5}, Dtype::f32, device));
    if (!device.meta) std::fill_n(x.data<float>(), 35, 1.f);
    Tape tape;
    tape.backward(sum(pad(x, {{2, 3}, {1, 4}}, {.mode = mode})));
    return std::pair(ambient().ledger->peak(), ambient().ledger->allocations());
  };
  for (const PadMode mode : {PadMode::constant, PadMode::edge, PadMode::reflect, PadMode::wrap})
    EXPECT_EQ(bytes(mode, cpu), bytes(mode, meta())) << "mode " << int(mode);
}

TEST(Moving, WindowsShareMemoryAndTheirGradientsAddUp) {
  const Tensor x = arange(6, Dtype::f64);
  const Tensor windows = unfold(x, 0, 3, 2);
  EXPECT_EQ(windows.shape(), (Shape{2, 3}));
  EXPECT_EQ(values_of(windows), (Values{0, 1, 2, 2, 3, 4}));
  EXPECT_EQ(windows.storage().get(), x.storage().get());
  EXPECT_EQ(gradient_of(x, [](const Tensor& t) { return unfold(t, 0, 3, 2); }), (Values{1, 1, 2, 1, 1, 0}));
  EXPECT_EQ(gradient_of(x, [](const Tensor& t) { return unfold(t, 0, 5, 1); }), (Values{1, 2, 2, 2, 2, 1}));
}

TEST(Moving, DiagonalsAreViews) {
  const Tensor x = from({{1, 2, 3}, {4, 5, 6}}, Dtype::f64);
  EXPECT_EQ(values_of(diag(x, 1)), (Values{2, 6}));
  EXPECT_EQ(diagonal(x).storage().get(), x.storage().get());
  EXPECT_EQ(values_of(diag(f64({7, 8}), -1)), (Values{0, 0, 0, 7, 0, 0, 0, 8, 0}));
  EXPECT_EQ(gradient_of(x, [](const Tensor& t) { return diagonal(t, -1); }), (Values{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(values_of(tril(ones({2, 3}), -1)), (Values{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(values_of(triu(cast(ones({2, 3}), Dtype::boolean), 1)), (Values{0, 1, 1, 0, 0, 1}));
  EXPECT_EQ(refusal<ShapeError>([] { diag(zeros({1, 1, 1})); }), "diag: needs a vector or a matrix, got shape [1, 1, 1]");
}

TEST(Moving, RollsRepeatsAndChunks) {
  const Tensor x = f64({1, 2, 3});
  EXPECT_EQ(values_of(roll(x, 1)), (Values{3, 1, 2}));
  EXPECT_EQ(values_of(roll(x, -4)), (Values{2, 3, 1}));
  EXPECT_EQ(values_of(tile(x, 2)), (Values{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(values_of(repeat_interleave(x, 2)), (Values{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(tile(x, 0).shape(), Shape{0});
  EXPECT_EQ(tile(zeros({1, 2, 1, 2, 1, 2, 1, 2}), 3, 3).shape(), (Shape{1, 2, 1, 6, 1, 2, 1, 2}));
  EXPECT_EQ(gradient_of(x, [](const Tensor& t) { return tile(t, 2) * f64({1, 2, 3, 10, 20, 30}); }), (Values{11, 22, 33}));
  EXPECT_EQ(gradient_of(x, [](const Tensor& t) { return repeat_interleave(t, 2) * f64({1, 10, 2, 20, 3, 30}); }), (Values{11, 22, 33}));
  EXPECT_EQ(refusal<ShapeError>([&] { tile(x, -1); }), "tile: repeats must be at least 0, got -1");
  EXPECT_EQ(refusal<ShapeError>([&] { roll(x, Dims{1, 2}, Dims{0}); }), "roll: shifts [1, 2] and axes [0] differ in number");
  std::vector<int64_t> sizes;
  for (const Tensor& part : chunk(zeros({5}), 4)) sizes.push_back(part.numel());
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 2, 1}));
  EXPECT_EQ(chunk(zeros({0, 2}), 3).size(), 1u);
  EXPECT_EQ(refusal<ShapeError>([&] { chunk(x, 0); }), "chunk: count must be at least 1, got 0");
}

TEST(Moving, StandardDeviationHasGradientZeroWhereItIsZero) {
  EXPECT_NEAR(stddev(f64({1, 2, 3, 4})).item(), 1.2909944487358056, 1e-15);
  EXPECT_NEAR(stddev(f64({1, 2, 3, 4}), 0, false, 0).item(), 1.118033988749895, 1e-15);
  EXPECT_EQ(gradient_of(f64({2, 2, 2}), [](const Tensor& t) { return stddev(t); }), (Values{0, 0, 0}));
  // (x - mean) / (n - 1) / σ
  expect_near(gradient_of(f64({1, 3}), [](const Tensor& t) { return stddev(t); }), {-1 / std::sqrt(2.0), 1 / std::sqrt(2.0)}, 1e-15);
  EXPECT_EQ(stddev(zeros({2, 3, 4}), {0, 2}, true).shape(), (Shape{1, 3, 1}));
}

}  // namespace
}  // namespace spool
