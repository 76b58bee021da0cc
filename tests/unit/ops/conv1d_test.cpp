// Convolution: known numbers, causality, agreement of its two kernels, extremes, and what it allocates.
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace spool {
namespace {

using Values = std::vector<double>;
Values values_of(const Tensor& t) { return t.to_vector<double>(); }
Tensor f64(std::initializer_list<double> values, Shape shape) { return from(values, shape, Dtype::f64); }

TEST(Conv1d, AWorkedExample) {
  const Tensor x = f64({1, 2, 3, 4}, {1, 1, 4}), w = f64({1, 10, 100}, {1, 1, 3}), bias = f64({0.5}, {1});
  EXPECT_EQ(values_of(conv1d(x, w, bias)), (Values{321.5, 432.5}));
  EXPECT_EQ(values_of(conv1d(x, w, bias, {.padding = 1})), (Values{210.5, 321.5, 432.5, 43.5}));
  EXPECT_EQ(values_of(conv1d(x, w, bias, {.padding = {2, 0}})), (Values{100.5, 210.5, 321.5, 432.5}));
  EXPECT_EQ(values_of(conv1d(x, w, bias, {.causal = true})), (Values{100.5, 210.5, 321.5, 432.5}));
  EXPECT_EQ(values_of(conv1d(x, w, {}, {.stride = 2, .padding = 1})), (Values{210, 432}));
  EXPECT_EQ(values_of(conv1d(x, w, {}, {.dilation = 2, .causal = true})), (Values{100, 200, 310, 420}));
}

TEST(Conv1d, CausalSeesNothingAhead) {
  Rng rng(1);
  for (const int64_t groups : {1, 6}) {
    const Tensor x = rng.normal({2, 6, 40}), w = rng.normal({6, 6 / groups, 5});
    const Conv1dOptions options{.dilation = 3, .groups = groups, .causal = true};
    const Tensor whole = conv1d(x, w, {}, options), part = conv1d(slice(x, 2, 0, 17), w, {}, options);
    EXPECT_EQ(values_of(part), values_of(slice(whole, 2, 0, 17)));
  }
}

TEST(Conv1d, DepthwiseIsTheGroupedConvolutionOfADiagonalWeight) {
  Rng rng(2);
  const int64_t channels = 5, kernel = 4;
  const Tensor w = rng.normal({channels, 1, kernel}), u = rng.normal({3, channels, 1500});
  Tensor dense = zeros({channels, channels, kernel}, Dtype::f64);
  for (int64_t c = 0; c < channels; ++c) copy(dense.view_as({kernel}, {1}, (c * channels + c) * kernel), w.view_as({kernel}, {1}, c * kernel));
  const auto run = [&](const Tensor& weight, int64_t groups) {
    const Tensor x = Rng(4).normal({3, channels, 1500}).requires_grad(true);
    Tape tape;
    const Tensor y = conv1d(x, weight, {}, {.groups = groups, .causal = true});
    return std::pair{values_of(y), values_of(tape.gradient({y}, {x}, {u})[0])};
  };
  const auto a = run(w, channels), b = run(dense, 1);
  for (size_t i = 0; i < a.first.size(); ++i) {
    ASSERT_NEAR(a.first[i], b.first[i], 1e-12);
    ASSERT_NEAR(a.second[i], b.second[i], 1e-12);
  }
}

/// A sum over a long sequence keeps the digits of f32.
TEST(Conv1d, LongWeightGradients) {
  const int64_t length = 400'000;
  const Tensor x = full({1, 1, length}, 0.1), w = ones({1, 1, 3}).requires_grad(true);
  Tape tape;
  tape.backward(sum(conv1d(x, w, {}, {.causal = true})));
  for (int64_t j = 0; j < 3; ++j) EXPECT_NEAR(values_of(w.grad())[size_t(j)] / (double(length - 2 + j) * double(0.1f)), 1, 1e-6);
}

/// An infinity reaches what its taps reach, and nothing else: the padding is left out rather than multiplied.
TEST(Conv1d, PaddingIsNotMultiplied) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const int64_t groups : {1, 2}) {
    const Tensor w = full({2, 2 / groups, 3}, inf, Dtype::f64), x = ones({1, 2, 4}, Dtype::f64);
    for (const double y : values_of(conv1d(x, w, {}, {.padding = 2, .groups = groups}))) EXPECT_EQ(y, inf);
  }
}

TEST(Conv1d, NothingIsUnfolded) {
  const Tensor x = zeros({2, 32, 4096}), w = zeros({32, 32, 9});
  const auto ledger = std::make_shared<Ledger>();
  const With mine(&Ambient::ledger, ledger);
  const NoGrad quiet;
  const Tensor y = conv1d(x, w, {}, {.padding = 4});
  EXPECT_LT(ledger->peak() - y.nbytes(), 2 * x.nbytes());  // gemm's panels; unfolding would take nine times x
}

TEST(Conv1d, CausalSetsThePadding) {
  const Tensor x = zeros({1, 2, 4}), w = zeros({2, 2, 3});
  EXPECT_EQ(conv1d(x, w, {}, {.stride = 3, .causal = true}).shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(conv1d(zeros({1, 2, 0}), w, {}, {.causal = true}).shape(), (Shape{1, 2, 0}));
  EXPECT_THROW(conv1d(x, w, {}, {.padding = 1, .causal = true}), ConfigError);
  EXPECT_THROW(conv1d(zeros({1, 2, 0}), w), ShapeError);
}

}  // namespace
}  // namespace spool
