// Ops that move elements: each element of the result is looked up by its indices.
#include "reference.h"

namespace spool::test {
namespace {

void expand_of(Comparison& c) {
  const Tensor x = c.rng().normal({3, 1, 2});
  const Array from(x);
  Array to(Shape{4, 3, 5, 2});
  each_index(to.shape, [&](size_t i, const Shape& at) { to.values[i] = look_up(from, {at[1], 0, at[3]}); });
  c.expect("value", expand(x, {4, 3, 5, 2}), to, 0);
}

void reshape_of(Comparison& c) {
  const Tensor x = c.rng().normal({4, 6});
  c.expect("a view", reshape(x, {3, -1}), [&] { Array a(x); a.shape = {3, 8}; return a; }(), 0);
  const Tensor t = transpose(x);
  c.expect("a copy", reshape(t, {8, 3}), [&] { Array a(t); a.shape = {8, 3}; return a; }(), 0);
}

void permute_of(Comparison& c) {
  const Tensor x = c.rng().normal({2, 3, 4});
  const Array from(x);
  Array to(Shape{4, 2, 3});
  each_index(to.shape, [&](size_t i, const Shape& at) { to.values[i] = look_up(from, {at[1], at[2], at[0]}); });
  c.expect("value", permute(x, {2, 0, 1}), to, 0);
}

void flip_of(Comparison& c) {
  const Tensor x = c.rng().normal({3, 5});
  const Array from(x);
  Array to(x.shape());
  each_index(to.shape, [&](size_t i, const Shape& at) { to.values[i] = look_up(from, {at[0], 4 - at[1]}); });
  c.expect("value", flip(x, -1), to, 0);
  each_index(to.shape, [&](size_t i, const Shape& at) { to.values[i] = look_up(from, {2 - at[0], 4 - at[1]}); });
  c.expect("both axes", flip(x, Dims{0, 1}), to, 0);
}

void slice_of(Comparison& c) {
  const Tensor x = c.rng().normal({3, 11});
  const Array from(x);
  Array to(Shape{3, 3});
  each_index(to.shape, [&](size_t i, const Shape& at) { to.values[i] = look_up(from, {at[0], 1 + 3 * at[1]}); });
  c.expect("1:9:3", slice(x, 1, 1, 9, 3), to, 0);
  c.expect("-10:-2:3", slice(x, 1, -10, -2, 3), to, 0);
  each_index(to.shape, [&](size_t i, const Shape& at) { to.values[i] = look_up(from, {at[0], 9 - 4 * at[1]}); });
  c.expect("-2:0:-4", slice(x, 1, -2, 0, -4), to, 0);
  c.expect("9::-4", slice(x, 1, 9, slice_end, -4), to, 0);
  c.expect("-2:-100:-4", slice(x, 1, -2, -100, -4), to, 0);
  c.expect("upwards, down", slice(x, 1, 2, 5, -1), Array(Shape{3, 0}), 0);
  c.expect("beyond", slice(x, 0, 5, 9), Array(Shape{0, 11}), 0);
}

void slice_backward_of(Comparison& c) {
  const Tensor x = c.rng().normal({3, 11}), u = c.rng().normal({3, 3});
  const Array from(u);
  Array to(Shape{3, 11});
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t i = 0; i < 3; ++i) to.at({row, 1 + 3 * i}) = from.at({row, i});
  c.expect("gradient", gradients_of([](const Tensors& in) { return Tensors{slice(in[0], 1, 1, 9, 3)}; }, {x}, {u})[0], to, 0);
}

void concat_of(Comparison& c) {
  const Tensor a = c.rng().normal({2, 3}), b = c.rng().normal({2, 1}), d = c.rng().normal({2, 4});
  Array to(Shape{2, 8});
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t i = 0; i < 3; ++i) to.at({row, i}) = Array(a).at({row, i});
    to.at({row, 3}) = Array(b).at({row, 0});
    for (int64_t i = 0; i < 4; ++i) to.at({row, 4 + i}) = Array(d).at({row, i});
  }
  c.expect("value", concat(Tensors{a, b, d}, 1), to, 0);
}

void contiguous_of(Comparison& c) {
  const Tensor x = c.rng().normal({3, 5});
  const Array from(x);
  Array to(Shape{5, 3});
  each_index(to.shape, [&](size_t i, const Shape& at) { to.values[i] = look_up(from, {at[1], at[0]}); });
  c.expect("value", contiguous(transpose(x)), to, 0);
}

void one_hot_of(Comparison& c) {
  const Tensor ids = c.rng().integers({3, 4}, 0, 5);
  const auto id = ids.to_vector<int64_t>();
  Array to(Shape{3, 4, 5});
  each_index(to.shape, [&](size_t i, const Shape& at) { to.values[i] = id[size_t(at[0] * 4 + at[1])] == at[2]; });
  c.expect("value", one_hot(ids, 5), to, 0);
}

[[maybe_unused]] const bool added = add_references({
    {"expand", expand_of},
    {"reshape", reshape_of},
    {"permute", permute_of},
    {"flip", flip_of},
    {"slice", slice_of},
    {"slice_backward", slice_backward_of},
    {"concat", concat_of},
    {"contiguous", contiguous_of},
    {"one_hot", one_hot_of},
});

}  // namespace
}  // namespace spool::test
