// Shapes of gradients, norms of any rank, and offsets beyond 32 bits.
#include "values.h"

#include "tests/support.h"

#include <spool/tensor/error.h>

namespace spool {
namespace {

using namespace test;

TEST(Cases, A6ABroadcastThatStretchesNothingSumsNothing) {
  const Tensor a = leaf(f64({1, 2, 3, 4, 5}));
  Tape tape;
  tape.backward(sum(expand(a, {5}) * f64({1, 2, 3, 4, 5})));
  EXPECT_EQ(a.grad().shape(), Shape{5});
  EXPECT_EQ(values_of(a.grad()), (Values{1, 2, 3, 4, 5}));
}

TEST(Cases, A16AFullReductionHasNoAxesNorHasItsGradient) {
  EXPECT_EQ(sum(ones({5})).shape(), Shape{});
  const Tensor x = leaf(scalar(3, Dtype::f64));
  Tape tape;
  tape.backward(sum(x));
  EXPECT_EQ(x.grad().shape(), Shape{});
  EXPECT_EQ(x.grad().item(), 1);
}

/// The result and all gradients of a norm, as numbers.
template <class F>
std::vector<Values> norm_and_gradients(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& upstream, F&& norm) {
  const Tensors in = {leaf(x.detach()), leaf(weight.detach()), leaf(bias.detach())};
  Tape tape;
  const Tensor y = norm(in[0], in[1], in[2]);
  std::vector<Values> all = {values_of(y)};
  for (const Tensor& g : tape.gradient({y}, in, {upstream})) all.push_back(g.defined() ? values_of(g) : Values{});
  return all;
}

TEST(Cases, A18NormsOfThreeAxesEqualThoseOfTheirRows) {
  const Tensor x = normal({2, 3, 4}, RandomKey(1)), upstream = normal({2, 3, 4}, RandomKey(2)), weight = normal({4}, RandomKey(3)),
               bias = normal({4}, RandomKey(4));
  const auto both = [&](auto&& norm) {
    const auto whole = norm_and_gradients(x, weight, bias, upstream, norm);
    EXPECT_EQ(norm_and_gradients(reshape(x, {6, 4}), weight, bias, reshape(upstream, {6, 4}), norm), whole);
    const Tensor turned = transpose(contiguous(transpose(x)));
    ASSERT_FALSE(turned.is_contiguous());
    EXPECT_EQ(norm_and_gradients(turned, weight, bias, upstream, norm), whole);
  };
  both([](const Tensor& t, const Tensor& w, const Tensor& b) { return layer_norm(t, w, b); });
  both([](const Tensor& t, const Tensor& w, const Tensor&) { return rms_norm(t, w); });
}

TEST(Cases, B8OffsetsBeyond32Bits) {
  EXPECT_EQ(select(empty({24901, 8, 128, 128}, Dtype::f32, meta()), 0, 16384).offset(), 2'147'483'648);
  const Tensor flat = empty({16385, 131072}, Dtype::f32, meta());
  EXPECT_EQ(select(select(flat, 0, 16384), 0, 3).offset(), 2'147'483'651);
  EXPECT_EQ(narrow(flat, 0, 16384, 1).offset(), 2'147'483'648);
  EXPECT_EQ(flip(flat, Dims{0, 1}).offset(), 16385 * int64_t(131072) - 1);
}

TEST(Cases, B8AViewOfMoreThanFourGigaElementsNeedsNoMemory) {
  const int64_t n = int64_t(1) << 33, far = n - 7;
  const Tensor x = f64({3}).view_as({n}, {0}, 0);
  EXPECT_EQ(x.numel(), 8'589'934'592);
  EXPECT_EQ(sum(slice(x, 0, far - 1000, far)).item(), 3000);
  EXPECT_EQ(slice(x, 0, slice_end, slice_end, -3).numel(), n / 3 + 1);
  EXPECT_EQ(values_of(narrow(x, 0, n - 5, 5)), Values(5, 3));
  EXPECT_EQ(refusal<ShapeError>([&] { narrow(x, 0, n - 5, 6); }), "narrow: 6 elements from 8589934587 leave axis 0 of shape [8589934592]");
  const Tensor index = from(std::initializer_list<double>{double(far), 0, double(n - 1)}, {}, Dtype::i64);
  EXPECT_EQ(values_of(gather(x, 0, index)), Values(3, 3));
  EXPECT_EQ(values_of(index_select(x, 0, index)), Values(3, 3));
  EXPECT_EQ(refusal<IndexError>([&] { index_select(x, 0, index + 1.0); }),
            "index_select: index 8589934592 at position 2 is out of range for 8589934592");
  EXPECT_EQ(unfold(x, 0, 2, 4).shape(), (Shape{n / 4, 2}));
  EXPECT_EQ(values_of(select(unfold(x, 0, 2, 4), 0, -1)), Values(2, 3));
}

TEST(Cases, B8ElementsBeyond32BitsAreReached) {
  SKIP_IN_SLOW_BUILD();
  const int64_t rows = 16385, columns = 131072, far = rows * columns - 3;  // above 2^31; pages that nobody touches take no memory
  const Tensor x = empty({rows, columns}, Dtype::u8), flat = reshape(x, {rows * columns});
  uint8_t* bytes = x.data<uint8_t>();
  for (int64_t i = 0; i < columns; ++i) bytes[(rows - 1) * columns + i] = 1;
  bytes[far] = 7;
  const Tensor index = from(std::initializer_list<double>{double(far), double(far - 1)}, {}, Dtype::i64);
  EXPECT_EQ(values_of(gather(flat, 0, index)), (Values{7, 1}));
  EXPECT_EQ(values_of(index_select(flat, 0, index)), (Values{7, 1}));
  EXPECT_EQ(values_of(select(index_select(x, 0, i64({16384})), 1, columns - 3)), Values{7});
  EXPECT_EQ(sum(select(x, 0, 16384)).item(), double(columns - 1 + 7));
  EXPECT_EQ(values_of(narrow(flat, 0, far - 1, 3)), (Values{1, 7, 1}));
  EXPECT_EQ(values_of(select(unfold(flat, 0, 2, 1), 0, far)), (Values{7, 1}));
  EXPECT_EQ(values_of(select(flip(flat, 0), 0, 2)), Values{7});
}

TEST(Cases, B8ResultsOfMoreThanFourGigaElementsArePlanned) {
  const int64_t n = int64_t(1) << 33;
  const Tensor x = empty({n}, Dtype::u8, meta()), y = empty({2, n}, Dtype::f32, meta());
  EXPECT_EQ(argmax(x, 0).dtype(), Dtype::i64);
  EXPECT_EQ(argmax(y, 1).shape(), Shape{2});
  EXPECT_EQ(prefix_sum(x, 0).nbytes(), 8 * n);
  EXPECT_EQ(pad(y, 1, {3, 4}).shape(), (Shape{2, n + 7}));
  EXPECT_EQ(topk(y, 5).indices.shape(), (Shape{2, 5}));
  EXPECT_EQ(tile(y, 2).numel(), 4 * n);
}

TEST(Shapes, SizesBeyond64BitsAreRefused) {
  const int64_t most = std::numeric_limits<int64_t>::max(), lowest = std::numeric_limits<int64_t>::min(), quarter = int64_t(1) << 62;
  const RandomKey key(1);
  const Tensor x = f64({1, 2, 3, 4});
  const auto text = [](auto&& f) { return refusal<ShapeError>(f); };
  for (const Device device : {cpu, meta()})
    EXPECT_EQ(text([&] { empty({quarter, 4}, Dtype::u8, device); }), "empty: shape [4611686018427387904, 4] of u8 has more bytes than 64 bits count");
  EXPECT_EQ(text([] { zeros({int64_t(1) << 61}, Dtype::f64); }), "empty: shape [2305843009213693952] of f64 has more bytes than 64 bits count");
  EXPECT_EQ(text([&] { expand(x, {quarter, 4}); }), "expand: shape [4611686018427387904, 4] of f64 has more bytes than 64 bits count");
  EXPECT_EQ(text([&] { randperm(int64_t(1) << 61, key); }), "randperm: shape [2305843009213693952] of i64 has more bytes than 64 bits count");
  EXPECT_EQ(text([&] { multinomial(x, most, key); }), "multinomial: shape [9223372036854775807] of i64 has more bytes than 64 bits count");
  EXPECT_EQ(text([] { one_hot(i64({0, 1}), most); }), "one_hot: shape [2, 9223372036854775807] of f32 has more bytes than 64 bits count");
  EXPECT_EQ(text([&] { tile(x, quarter); }), "tile: 4611686018427387904 repeats of axis 0 of shape [4] are too many");
  EXPECT_EQ(text([&] { split(x, Dims{most, most, 6}); }), "split: sizes [9223372036854775807, 9223372036854775807, 6] do not add up to axis 0 of shape [4]");
  EXPECT_EQ(text([&] { diag_embed(x, lowest); }), "diag_embed: an offset of -9223372036854775808 is beyond -1152921504606846976");
  for (const PadMode mode : {PadMode::constant, PadMode::edge})
    EXPECT_EQ(text([&] { pad(x, 0, {1, most}, {.mode = mode}); }), "pad: a width of 9223372036854775807 at axis 0 is beyond 1152921504606846976");
  EXPECT_EQ(text([&] { pad(x, 0, {-most, -most}); }), "pad: a width of -9223372036854775807 at axis 0 is beyond -1152921504606846976");
}

TEST(Shapes, ANinthAxisIsRefusedByName) {
  const Tensor x = zeros({1, 1, 1, 1, 1, 1, 1, 2});
  EXPECT_EQ(refusal<ShapeError>([&] { unfold(x, -1, 1); }), "unfold: at most 8 dimensions, cannot add one to [1, 1, 1, 1, 1, 1, 1, 2]");
  EXPECT_EQ(refusal<ShapeError>([&] { one_hot(cast(x, Dtype::i64), 2); }), "one_hot: at most 8 dimensions, cannot add one to [1, 1, 1, 1, 1, 1, 1, 2]");
}

TEST(Shapes, AxesKeepAllTheirBits) {
  const int64_t axis = int64_t(1) << 32;
  const Tensor x = f64({1, 2, 3});
  const auto text = [](auto&& f) { return refusal<ShapeError>(f); };
  EXPECT_EQ(text([&] { sum(x, {axis}); }), "sum: axis 4294967296 is out of range for shape [3]");
  EXPECT_EQ(text([&] { roll(x, Dims{1}, Dims{axis}); }), "roll: axis 4294967296 is out of range for shape [3]");
  EXPECT_EQ(text([&] { flip(x, Dims{axis}); }), "flip: axis 4294967296 is out of range for shape [3]");
  EXPECT_EQ(text([&] { permute(x, Dims{axis}); }), "permute: axis 4294967296 is out of range for shape [3]");
}

TEST(Shapes, AnUndefinedInputIsRefused) {
  const Tensor none;
  const auto text = [](auto&& f) { return refusal<Error>(f); };
  EXPECT_EQ(text([&] { mean(none); }), "mean: the first input is undefined; assign it before use");
  EXPECT_EQ(text([&] { logcumsumexp(none, 0); }), "logcumsumexp: the first input is undefined; assign it before use");
  EXPECT_EQ(text([&] { layer_norm(none); }), "layer_norm: the first input is undefined; assign it before use");
  EXPECT_EQ(text([&] { group_norm(none, 1); }), "group_norm: the first input is undefined; assign it before use");
  EXPECT_EQ(text([&] { einsum("i->i", {none}); }), "einsum: the inputs are undefined; assign them before use");
}

}  // namespace
}  // namespace spool
