// Tensors as values: making them, views of them, and moving elements.
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/tensor.h>

#include <gtest/gtest.h>

#include <numeric>

namespace spool::test {
namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }

template <class E>
std::string message(auto&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Tensor, MakesAndReads) {
  const Tensor t = from({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(t.shape(), (Shape{2, 3}));
  EXPECT_EQ(t.strides(), (Strides{3, 1}));
  EXPECT_EQ(values(t), (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(t.size(-1), 3);
  EXPECT_EQ(values(arange(3, Dtype::i64, 5)), (Values{5, 6, 7}));
  EXPECT_EQ(values(full({2}, 2.5, Dtype::f16)), (Values{2.5, 2.5}));
  EXPECT_EQ(scalar(3).shape(), Shape{});
  EXPECT_EQ(scalar(3).item(), 3);
  EXPECT_EQ(zeros({2, 0, 3}).numel(), 0);
  EXPECT_TRUE(values(zeros({2, 0, 3})).empty());
  EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, ErrorsSayBothSides) {
  EXPECT_NE(message<ShapeError>([] { from({1, 2, 3}).item(); }).find("[3]"), std::string::npos);
  EXPECT_NE(message<DtypeError>([] { from({1.0}).data<double>(); }).find("f32, read as f64"), std::string::npos);
  EXPECT_NE(message<ShapeError>([] { empty({2, -1}); }).find("[2, -1]"), std::string::npos);
  EXPECT_NE(message<ShapeError>([] { from({1, 2, 3}, Shape{2, 2}); }).find("3 values do not fill shape [2, 2]"), std::string::npos);
  EXPECT_NE(message<PlanError>([] { empty({}, Dtype::f32, meta()).item(); }).find("planned step"), std::string::npos);
  EXPECT_NE(message<PlanError>([] { empty({2}, Dtype::f32, meta()).data<float>(); }).find("meta(cpu)"), std::string::npos);
  EXPECT_NE(message<ShapeError>([] { Shape{1, 1, 1, 1, 1, 1, 1, 1}.push_back(1); }).find("at most 8"), std::string::npos);
  EXPECT_NE(message<DtypeError>([] { zeros({2}, Dtype::i64).requires_grad(true); }).find("i64"), std::string::npos);
  EXPECT_NE(message<DeviceError>([] { empty({2}, Dtype::f32, cuda(0)); }).find("cuda:0"), std::string::npos);
  EXPECT_NE(message<Error>([] { Tensor().shape(); }).find("undefined"), std::string::npos);
  EXPECT_NE(message<ShapeError>([] { zeros({2, 3}).size(2); }).find("axis 2 is out of range for shape [2, 3]"), std::string::npos);
}

TEST(Tensor, ViewsShareBytesAndVersion) {
  const Tensor t = from({{1, 2, 3}, {4, 5, 6}});
  const Tensor flipped = t.view_as({3, 2}, {1, 3}, 0);
  EXPECT_EQ(values(flipped), (Values{1, 4, 2, 5, 3, 6}));
  EXPECT_FALSE(flipped.is_contiguous());
  const uint64_t version = t.storage()->version;
  fill(flipped.view_as({2}, {3}, 1), 9);
  EXPECT_EQ(values(t), (Values{1, 9, 3, 4, 9, 6}));
  EXPECT_EQ(t.storage()->version, version + 1);
  EXPECT_EQ(values(t.view_as({3}, {-2}, 4)), (Values{9, 3, 1}));
  EXPECT_EQ(values(t.view_as({2, 2}, {0, 1}, 2)), (Values{3, 4, 3, 4}));
  EXPECT_NE(message<ShapeError>([&] { t.view_as({7}, {1}, 0); }).find("leaves the storage of 6 elements"), std::string::npos);
  EXPECT_NE(message<ShapeError>([&] { t.view_as({3}, {-3}, 4); }).find("leaves the storage"), std::string::npos);
  EXPECT_NO_THROW(t.view_as({0, 100}, {100, 1}, 0)) << "nothing is read";
}

TEST(Tensor, CountsBeyond32Bits) {
  const Tensor one = ones({1});
  const Tensor wide = one.view_as({int64_t(1) << 33}, {0}, 0);
  EXPECT_EQ(wide.numel(), 8'589'934'592);
  EXPECT_EQ(wide.nbytes(), 34'359'738'368);
  EXPECT_EQ(numel({24901, 8, 128, 128}), 3'263'823'872);
  EXPECT_EQ(16384 * contiguous_strides({24901, 8, 128, 128})[0], 2'147'483'648);
  const Tensor planned = empty({65536, 32768}, Dtype::f32, meta());
  EXPECT_EQ(planned.storage()->bytes, 8'589'934'592);
  EXPECT_EQ(planned.view_as({2}, {int64_t(1) << 30}, (int64_t(1) << 30) - 1).offset(), 1'073'741'823);
}

TEST(Tensor, ContiguityIgnoresAxesOfOneAndTensorsOfNothing) {
  const Tensor t = zeros({6});
  EXPECT_TRUE(t.view_as({2, 1, 3}, {3, 77, 1}, 0).is_contiguous());
  EXPECT_FALSE(t.view_as({2, 2}, {3, 1}, 0).is_contiguous());
  EXPECT_TRUE(t.view_as({0, 4}, {1, 5}, 0).is_contiguous());
  EXPECT_TRUE(t.view_as({}, {}, 3).is_contiguous());
  EXPECT_TRUE(t.view_as({3}, {1}, 3).is_contiguous());
}

TEST(Copy, BroadcastsAndConverts) {
  const Tensor to = zeros({2, 3});
  copy(to, from({1, 2, 3}));
  EXPECT_EQ(values(to), (Values{1, 2, 3, 1, 2, 3}));
  copy(to, from({10, 20}, Shape{2, 1}));
  EXPECT_EQ(values(to), (Values{10, 10, 10, 20, 20, 20}));
  copy(to.view_as({3, 2}, {1, 3}, 0), from({{1, 2}, {3, 4}, {5, 6}}));
  EXPECT_EQ(values(to), (Values{1, 3, 5, 2, 4, 6}));
  const Tensor whole = zeros({3}, Dtype::i32);
  copy(whole, from({-1.9, 1.9, 2.5}));
  EXPECT_EQ(values(whole), (Values{-1, 1, 2}));
  EXPECT_NE(message<ShapeError>([&] { copy(zeros({3}), zeros({2, 3})); }).find("[2, 3]"), std::string::npos);
  EXPECT_NE(message<ShapeError>([&] { copy(zeros({2}), zeros({3})); }).find("[2] and [3]"), std::string::npos);
  EXPECT_THROW(copy(zeros({2}), empty({2}, Dtype::f32, meta())), DeviceError);
}

/// Random strides against element-by-element copying.
TEST(Copy, AnyStrides) {
  const Tensor base = arange(400, Dtype::f64), out = zeros({400}, Dtype::f64);
  for (int trial = 0; trial < 200; ++trial) {
    const Shape shape{1 + trial % 4, 1 + trial / 3 % 3, 1 + trial / 7 % 5};
    const Strides from_strides{(trial % 3 - 1) * 31, trial % 5 * 7, trial % 2 ? 2 : -2};
    const Tensor source = base.view_as(shape, from_strides, 200);
    fill(out, -1);
    const Tensor target = out.view_as(shape, {shape[1] * shape[2] * 2, shape[2], 1}, 3);
    copy(target, source);
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j)
        for (int64_t k = 0; k < shape[2]; ++k)
          ASSERT_EQ(out.data<double>()[3 + i * shape[1] * shape[2] * 2 + j * shape[2] + k], 200 + i * from_strides[0] + j * from_strides[1] + k * from_strides[2]) << trial;
    const Values all = values(out);
    ASSERT_EQ(std::count(all.begin(), all.end(), -1.0), 400 - shape[0] * shape[1] * shape[2]) << "wrote elsewhere, trial " << trial;
  }
}

TEST(Copy, AccumulateAddsInTheRightType) {
  const Tensor sum = full({3}, 1, Dtype::bf16), more = full({3}, 0x1p-9, Dtype::bf16);
  accumulate(sum, more);
  EXPECT_EQ(values(sum), (Values{1, 1, 1})) << "f32 sum, rounded once";
  const Tensor t = from({1, 2, 3, 4}, {}, Dtype::f64);
  accumulate(t.view_as({2}, {-2}, 2), from({10, 20}, {}, Dtype::f64));
  EXPECT_EQ(values(t), (Values{21, 2, 13, 4}));
  EXPECT_THROW(accumulate(zeros({2}), zeros({3})), ShapeError);
  EXPECT_THROW(accumulate(zeros({2}), zeros({2}, Dtype::f64)), DtypeError);
  EXPECT_THROW(accumulate(zeros({2}, Dtype::i64), zeros({2}, Dtype::i64)), DtypeError);
}

TEST(Shapes, BroadcastAsNumPyDoes) {
  EXPECT_EQ(broadcast_shapes("op", {3, 1, 5}, {2, 3, 4, 5}), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(broadcast_shapes("op", {}, {4, 0}), (Shape{4, 0}));
  EXPECT_EQ(broadcast_shapes("op", {4, 1}, {4, 0}), (Shape{4, 0}));
  EXPECT_EQ(message<ShapeError>([] { broadcast_shapes("op", {2, 3}, {2}); }).find("op: shapes [2, 3] and [2]"), 0u);
  EXPECT_EQ(normalize_axis("op", -1, {2, 3}), 1);
}

TEST(Text, OfTensors) {
  EXPECT_EQ(to_string(from({{1, 2}, {3, 4}})), "f32[2, 2] {1, 2, 3, 4}");
  EXPECT_EQ(to_string(Tensor()), "undefined");
  EXPECT_NE(to_string(empty({2}, Dtype::bf16, meta())).find("bf16[2] on meta(cpu)"), std::string::npos);
  EXPECT_NE(to_string(zeros({20})).find("…"), std::string::npos);
}

}  // namespace
}  // namespace spool::test
