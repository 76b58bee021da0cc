// Indexing at the places where engines have gone wrong: repeated indices, ties, indices out of range.
#include "values.h"

#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <algorithm>
#include <functional>

/// The names of the standard library stay usable beside ours.
int larger_of_ints(int a, int b) {
  using namespace std;
  using namespace spool;
  return max(a, b) - min(a, b) + max(a, b, [](int p, int q) { return p < q; });
}

namespace spool {
namespace {

using namespace test;

TEST(Cases, A4TiesGiveOneUnitOfGradient) {
  EXPECT_EQ(gradient_of(f64({1, 1}), [](const Tensor& t) { return amax(t); }), (Values{0.5, 0.5}));
  EXPECT_EQ(gradient_of(f64({1, 1}), [](const Tensor& t) { return max(t, 0).values; }), (Values{1, 0}));
  EXPECT_EQ(gradient_of(f64({2, 1, 1}), [](const Tensor& t) { return min(t, 0, true).values; }), (Values{0, 1, 0}));
  const Tensor a = leaf(f64({1})), b = leaf(f64({1}));
  Tape tape;
  tape.backward(sum(maximum(a, b)));
  EXPECT_EQ(a.grad().item(), 0.5);
  EXPECT_EQ(b.grad().item(), 0.5);
}

TEST(Indexing, MaxHasPositionsAndKeepsOrDropsTheAxis) {
  const Tensor x = from({{1, 5, 5}, {7, 2, 7}}, Dtype::f64);
  const auto [values, indices] = max(x);
  EXPECT_EQ(values_of(values), (Values{5, 7}));
  EXPECT_EQ(values_of(indices), (Values{1, 0}));
  EXPECT_EQ(indices.dtype(), Dtype::i64);
  EXPECT_EQ(max(x, 0).values.shape(), (Shape{3}));
  EXPECT_EQ(min(x, 0, true).indices.shape(), (Shape{1, 3}));
  EXPECT_EQ(larger_of_ints(2, 5), 8);
}

TEST(Cases, A5RepeatedIndicesAdd) {
  const Tensor index = i64({0, 0}), dy = f64({0.2, 0.3});
  EXPECT_EQ(gradient_of(f64({0.1}), [&](const Tensor& t) { return gather(t, 0, index) * dy; }), Values{0.5});
  EXPECT_EQ(gradient_of(f64({0.1}), [&](const Tensor& t) { return index_select(t, 0, index) * dy; }), Values{0.5});
  EXPECT_EQ(values_of(scatter_add(f64({0}), 0, index, dy)), Values{0.5});
  EXPECT_EQ(values_of(index_add(f64({0}), 0, index, dy)), Values{0.5});
  const Tensor rows = i64({1, 3, 1, 1}), upstream = from({{1, 10}, {2, 20}, {3, 30}, {4, 40}}, Dtype::f64);
  const Values expected{0, 0, 8, 80, 0, 0, 2, 20};
  EXPECT_EQ(gradient_of(zeros({4, 2}, Dtype::f64), [&](const Tensor& t) { return embedding(t, rows) * upstream; }), expected);
  EXPECT_EQ(gradient_of(zeros({4, 2}, Dtype::f64), [&](const Tensor& t) { return index_select(t, 0, rows) * upstream; }), expected);
}

TEST(Cases, A5TenThousandRepeatsOfOneIndexOnSeveralThreads) {
  const int64_t n = 10'000, width = 70;
  const Tensor index = full({n}, 2, Dtype::i64), dy = normal({n, width}, RandomKey(3));
  const Tensor wide = expand(unsqueeze(index, 1), {n, width});
  const auto by = [&](const Tensor& upstream, Dtype dtype) {
    const Tensor table = zeros({4, width}, dtype), u = cast(upstream, dtype);
    return std::vector<Values>{gradient_of(table, [&](const Tensor& t) { return gather(t, 0, wide) * u; }),
                               gradient_of(table, [&](const Tensor& t) { return index_select(t, 0, index) * u; }),
                               gradient_of(table, [&](const Tensor& t) { return embedding(t, index) * u; })};
  };
  const int before = num_threads();
  std::vector<Values> first;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    for (const Values& g : by(full({n, width}, 0.25), Dtype::f32))
      for (size_t i = 0; i < g.size(); ++i) ASSERT_EQ(g[i], i / size_t(width) == 2 ? 0.25 * double(n) : 0) << "element " << i;
    const auto got = by(dy, Dtype::f32);
    if (first.empty()) first = got;
    EXPECT_EQ(got, first) << threads << " threads";
    // formed in f32, rounded once
    const Tensor sums = index_add(zeros({4, width}, Dtype::bf16), 0, index, ones({n, width}, Dtype::bf16));
    EXPECT_EQ(values_of(sums)[size_t(2 * width)], 9984);
    for (const Values& g : by(ones({n, width}), Dtype::bf16)) EXPECT_EQ(g[size_t(2 * width + 69)], 9984);
  }
  set_num_threads(before);
}

TEST(Cases, A21AnIndexOutOfRangeSaysIndexPositionAndSize) {
  const Tensor x = zeros({3, 2}), high = i64({0, 4}), low = i64({0, -1}), row = zeros({2, 2});
  const auto column = [](const Tensor& index) { return expand(unsqueeze(index, 1), {2, 1}); };
  const std::vector<std::pair<std::string, std::function<void(const Tensor&)>>> ops = {
      {"gather", [&](const Tensor& index) { gather(x, 0, column(index)); }},
      {"gather", [&](const Tensor& index) { take_along(x, column(index), 0); }},
      {"scatter_add", [&](const Tensor& index) { scatter_add(x, 0, column(index), zeros({2, 1})); }},
      {"index_select", [&](const Tensor& index) { index_select(x, 0, index); }},
      {"index_add", [&](const Tensor& index) { index_add(x, 0, index, row); }},
      {"embedding", [&](const Tensor& index) { embedding(x, index); }},
      {"one_hot", [&](const Tensor& index) { one_hot(index, 3); }},
      {"cross_entropy", [&](const Tensor& index) { cross_entropy(zeros({2, 3}), index); }},
  };
  for (const auto& [name, run] : ops) {
    EXPECT_EQ(refusal<IndexError>([&] { run(high); }), name + ": index 4 at position 1 is out of range for 3");
    EXPECT_EQ(refusal<IndexError>([&] { run(low); }), name + ": index -1 at position 1 is out of range for 3");
  }
  EXPECT_EQ(refusal<IndexError>([] { cross_entropy(zeros({1, 256}), i64({256})); }),
            "cross_entropy: index 256 at position 0 is out of range for 256");
  // the position is that among the indices as they are written, whatever their strides
  const Tensor turned = transpose(from(std::initializer_list<double>{0, 1, 9, 2}, Shape{2, 2}, Dtype::i64));
  EXPECT_EQ(refusal<IndexError>([&] { gather(x, 0, turned); }), "gather: index 9 at position 1 is out of range for 3");
}

TEST(Indexing, OrdersAreStableAndNanIsLargest) {
  const double nan = std::nan("");
  const Tensor x = f64({2, nan, 1, 2, -inf, 1});
  EXPECT_EQ(values_of(sort(x).indices), (Values{4, 2, 5, 0, 3, 1}));
  EXPECT_EQ(values_of(sort(x, 0, true).indices), (Values{1, 0, 3, 2, 5, 4}));
  EXPECT_EQ(values_of(topk(x, 3).indices), (Values{1, 0, 3}));
  EXPECT_EQ(values_of(topk(x, 3, 0, false).values), (Values{-inf, 1, 1}));
  EXPECT_EQ(values_of(topk(x, 3, 0, false).indices), (Values{4, 2, 5}));
  EXPECT_EQ(values_of(sort(cast(i64({1, 0, 1}), Dtype::boolean)).values), (Values{0, 1, 1}));
  EXPECT_EQ(gradient_of(f64({3, 1, 2}), [](const Tensor& t) { return sort(t).values * f64({10, 20, 30}); }), (Values{30, 10, 20}));
  EXPECT_EQ(gradient_of(f64({3, 1, 2}), [](const Tensor& t) { return topk(t, 2).values * f64({10, 20}); }), (Values{10, 0, 20}));
  EXPECT_EQ(refusal<ShapeError>([&] { topk(x, 7); }), "topk: k = 7 of an axis of 6 elements in shape [6]");
  const Tensor deep = normal({2, 1, 3, 2, 4, 1, 2, 3}, RandomKey(2));
  const auto [values, indices] = sort(deep, 4);
  EXPECT_EQ(values_of(take_along(deep, indices, 4)), values_of(values));
  EXPECT_EQ(values_of(amax(deep, 4)), values_of(select(values, 4, 3)));
}

TEST(Indexing, LongRowsOfEqualsKeepTheirOrder) {
  const Tensor x = floor(uniform({1000}, RandomKey(5), 0, 3));
  const Values v = values_of(x);
  for (const bool descending : {false, true}) {
    Values order;
    for (size_t i = 0; i < v.size(); ++i) order.push_back(double(i));
    const auto before = [&](double a, double b) { return descending ? v[size_t(a)] > v[size_t(b)] : v[size_t(a)] < v[size_t(b)]; };
    std::stable_sort(order.begin(), order.end(), before);
    EXPECT_EQ(values_of(argsort(x, 0, descending)), order);
    order.resize(100);
    EXPECT_EQ(values_of(topk(x, 100, 0, descending).indices), order);
  }
}

TEST(Indexing, OneGradientGathersWhatManyFetch) {
  const Tensor x = leaf(zeros({1000, 16}));
  const auto ledger = std::make_shared<Ledger>();
  int64_t before = 0;
  {
    const With mine(&Ambient::ledger, ledger);
    Tape tape;
    Tensor total = scalar(0);
    for (int64_t i = 0; i < 50; ++i) total = total + sum(index_select(x, 0, full({1}, double(i), Dtype::i64)) * double(i));
    before = ledger->peak();
    tape.backward(total);
  }
  EXPECT_LT(ledger->peak() - before, 3 * x.nbytes());
  for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(values_of(x.grad())[size_t(i) * 16], double(i));
}

TEST(Indexing, ErrorsNameTheFunctionAndTheShapeThatWasGiven) {
  const Tensor none = zeros({0, 2}), one = scalar(1);
  EXPECT_EQ(refusal<ShapeError>([&] { max(none, 0); }), "max: no elements along the reduced axes of shape [0, 2]");
  EXPECT_EQ(refusal<ShapeError>([&] { argmin(none, 0); }), "argmin: no elements along the reduced axes of shape [0, 2]");
  EXPECT_EQ(max(none, 1).values.shape(), Shape{0});
  EXPECT_EQ(refusal<ShapeError>([&] { min(one); }), "min: axis -1 is out of range for shape []");
  EXPECT_EQ(refusal<ShapeError>([&] { sort(one); }), "sort: axis -1 is out of range for shape []");
  EXPECT_EQ(refusal<ShapeError>([&] { stddev(one, 1); }), "stddev: axis 1 is out of range for shape []");
  EXPECT_EQ(refusal<DtypeError>([&] { stddev(i64({1, 2})); }), "stddev: needs a float type, got i64; convert with cast(x, Dtype::f32)");
}

}  // namespace
}  // namespace spool
