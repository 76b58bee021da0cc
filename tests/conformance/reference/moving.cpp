// Ops that move elements, repeat them or join them by constants: each element of the result is looked up by its indices.
#include "reference.h"

namespace spool::test {
namespace {

/// to[…] = x[index(…)] for the results of all indices; outside is `filler`.
template <class F>
Array looked_up(const Tensor& x, const Shape& shape, F&& index, double filler = 0) {
  const Array from(x);
  Array to(shape);
  each_index(shape, [&](size_t i, const Shape& at) {
    const Shape place = index(at);
    bool inside = true;
    for (int axis = 0; axis < place.size(); ++axis) inside = inside && place[axis] >= 0 && place[axis] < x.shape()[axis];
    to.values[i] = inside ? look_up(from, place) : filler;
  });
  return to;
}

void roll_of(Comparison& c) {
  const Tensor x = c.rng().normal({3, 5});
  c.expect("value", roll(x, 2), looked_up(x, {3, 5}, [](const Shape& at) { return Shape{at[0], (at[1] + 3) % 5}; }), 0);
  const auto both = [](const Shape& at) { return Shape{(at[0] + 1) % 3, (at[1] + 4) % 5}; };
  c.expect("two axes", roll(x, Dims{-1, 6}, Dims{0, 1}), looked_up(x, {3, 5}, both), 0);
}

void pad_of(Comparison& c) {
  const Tensor x = c.rng().normal({4, 5});
  const auto around = [](const Shape& at) { return Shape{at[0] - 1, at[1] + 2}; };
  c.expect("constant, one side cut", pad(x, {{1, 0}, {-2, 3}}, {.value = -7}), looked_up(x, {5, 6}, around, -7), 0);
  c.expect("one axis", pad(x, 0, {1, 2}), looked_up(x, {7, 5}, [](const Shape& at) { return Shape{at[0] - 1, at[1]}; }), 0);
  const Shape wide{8, 10};
  const std::vector<PadWidth> widths{{3, 1}, {2, 3}};
  const auto both = [&](PadMode mode, int64_t (*f)(int64_t, int64_t)) {
    c.expect(concat("mode ", int(mode)), pad(x, widths, {.mode = mode}),
             looked_up(x, wide, [f](const Shape& at) { return Shape{f(at[0] - 3, 4), f(at[1] - 2, 5)}; }), 0);
  };
  both(PadMode::edge, [](int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; });
  both(PadMode::wrap, [](int64_t i, int64_t n) { return i < 0 ? i + n : i >= n ? i - n : i; });
  both(PadMode::reflect, [](int64_t i, int64_t n) {
    while (i < 0 || i >= n) i = i < 0 ? -i : 2 * n - 2 - i;
    return i;
  });
}

void unfold_of(Comparison& c) {
  const Tensor x = c.rng().normal({2, 9, 3});
  const auto windows = [](const Shape& at) { return Shape{at[0], 2 * at[1] + at[3], at[2]}; };
  c.expect("value", unfold(x, 1, 4, 2), looked_up(x, {2, 3, 3, 4}, windows), 0);
}

void unfold_backward_of(Comparison& c) {
  const Tensor x = c.rng().normal({2, 9, 3}), u = c.rng().normal({2, 3, 3, 4});
  Array to(x.shape());
  each_index(u.shape(), [&](size_t i, const Shape& at) { to.at({at[0], 2 * at[1] + at[3], at[2]}) += Array(u).values[i]; });
  c.expect("gradient", gradients_of([](const Tensors& in) { return Tensors{unfold(in[0], 1, 4, 2)}; }, {x}, {u})[0], to);
}

Reference triangle_of(Tensor (*f)(const Tensor&, int64_t), bool (*keeps)(int64_t, int64_t, int64_t)) {
  return [=](Comparison& c) {
    const Tensor x = c.rng().normal({2, 3, 5});
    for (int64_t diagonal = -4; diagonal <= 6; ++diagonal) {
      const auto kept = [=](const Shape& at) { return keeps(at[1], at[2], diagonal) ? at : Shape{-1, 0, 0}; };
      c.expect(concat("diagonal ", diagonal), f(x, diagonal), looked_up(x, x.shape(), kept), 0);
    }
  };
}

void diagonal_of(Comparison& c) {
  const Tensor x = c.rng().normal({3, 4, 5});
  c.expect("main", diagonal(x), looked_up(x, {3, 4}, [](const Shape& at) { return Shape{at[0], at[1], at[1]}; }), 0);
  c.expect("above", diagonal(x, 3), looked_up(x, {3, 2}, [](const Shape& at) { return Shape{at[0], at[1], at[1] + 3}; }), 0);
  c.expect("below, outer axes", diagonal(x, -2, 2, 0), looked_up(x, {4, 3}, [](const Shape& at) { return Shape{at[1], at[0], at[1] + 2}; }), 0);
  const Tensor matrix = c.rng().normal({3, 4});
  c.expect("of a matrix", diag(matrix, 1), looked_up(matrix, {3}, [](const Shape& at) { return Shape{at[0], at[0] + 1}; }), 0);
}

void diag_embed_of(Comparison& c) {
  const Tensor x = c.rng().normal({2, 3}), v = c.rng().normal({3});
  const auto above = [](const Shape& at) { return Shape{at[0], at[2] == at[1] + 2 ? at[1] : -1}; };
  c.expect("above", diag_embed(x, 2), looked_up(x, {2, 5, 5}, above), 0);
  c.expect("below", diag(v, -1), looked_up(v, {4, 4}, [](const Shape& at) { return Shape{at[0] == at[1] + 1 ? at[1] : -1}; }), 0);
}

[[maybe_unused]] const bool added = add_references({
    {"roll", roll_of},
    {"pad", pad_of},
    {"unfold", unfold_of},
    {"unfold_backward", unfold_backward_of},
    {"tril", triangle_of(tril, [](int64_t i, int64_t j, int64_t diagonal) { return j - i <= diagonal; })},
    {"triu", triangle_of(triu, [](int64_t i, int64_t j, int64_t diagonal) { return j - i >= diagonal; })},
    {"diagonal", diagonal_of},
    {"diag_embed", diag_embed_of},
});

}  // namespace
}  // namespace spool::test
