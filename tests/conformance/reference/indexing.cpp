// Ops that choose elements by index: each place is looked up, each sum is formed in the order of the indices.
#include "reference.h"

#include <limits>

namespace spool::test {
namespace {

/// Three axes, the middle one indexed by an index of the same other axes.
constexpr int64_t outer = 2, size = 4, inner = 3, chosen = 5;

struct Places {
  explicit Places(const Tensor& index) : values(index.to_vector<int64_t>()) {}
  int64_t at(int64_t o, int64_t i, int64_t k) const { return values[size_t((o * chosen + i) * inner + k)]; }
  std::vector<int64_t> values;
};
template <class F>
void each_place(F&& f) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < chosen; ++i)
      for (int64_t k = 0; k < inner; ++k) f(o, i, k);
}

void gather_of(Comparison& c) {
  const Tensor x = c.rng().normal({outer, size, inner}), index = c.rng().integers({outer, chosen, inner}, 0, size);
  const Places places(index);
  Array to(index.shape());
  each_place([&](int64_t o, int64_t i, int64_t k) { to.at({o, i, k}) = Array(x).at({o, places.at(o, i, k), k}); });
  c.expect("middle axis", gather(x, 1, index), to, 0);
  c.expect("take_along", take_along(x, index, -2), to, 0);

  const Tensor row = c.rng().normal({1, 4}), columns = c.rng().integers({3, 2}, 0, 4, Dtype::u8);
  const auto column = columns.to_vector<int64_t>();
  Array picked(Shape{3, 2});
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t k = 0; k < 2; ++k) picked.at({i, k}) = Array(row).at({0, column[size_t(2 * i + k)]});
  c.expect("one row for all", take_along(row, columns, 1), picked, 0);
}

void scatter_add_of(Comparison& c) {
  const Tensor x = c.rng().normal({outer, size, inner}), index = c.rng().integers({outer, chosen, inner}, 0, size),
               source = c.rng().normal({outer, chosen, inner});
  const Places places(index);
  Array to(x);
  each_place([&](int64_t o, int64_t i, int64_t k) { to.at({o, places.at(o, i, k), k}) += Array(source).at({o, i, k}); });
  c.expect("value", scatter_add(x, 1, index, source), to);
}

void index_select_of(Comparison& c) {
  const Tensor x = c.rng().normal({outer, size, inner}), index = c.rng().integers({chosen}, 0, size);
  const auto at = index.to_vector<int64_t>();
  Array to(Shape{outer, chosen, inner});
  each_place([&](int64_t o, int64_t i, int64_t k) { to.at({o, i, k}) = Array(x).at({o, at[size_t(i)], k}); });
  c.expect("value", index_select(x, -2, index), to, 0);
}

void index_add_of(Comparison& c) {
  const Tensor x = c.rng().normal({outer, size, inner}), index = c.rng().integers({chosen}, 0, size),
               source = c.rng().normal({outer, chosen, inner});
  const auto at = index.to_vector<int64_t>();
  Array to(x);
  each_place([&](int64_t o, int64_t i, int64_t k) { to.at({o, at[size_t(i)], k}) += Array(source).at({o, i, k}); });
  c.expect("value", index_add(x, 1, index, source), to);
}

/// The positions of a row in order, by insertion: NaN is larger than everything, equal elements stay as they are.
Numbers ordered(const Numbers& row, bool descending) {
  const auto larger = [](double a, double b) { return std::isnan(a) ? !std::isnan(b) : a > b; };
  Numbers order;
  for (size_t i = 0; i < row.size(); ++i) {
    size_t at = order.size();
    while (at > 0) {
      const double before = row[size_t(order[at - 1])];
      if (!(descending ? larger(row[i], before) : larger(before, row[i]))) break;
      --at;
    }
    order.insert(order.begin() + int64_t(at), double(i));
  }
  return order;
}

/// Rows without and with ties, infinities and NaN.
Tensor rows_to_order(Rng& rng) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  return concat(Tensors{rng.normal({2, 7}), cast(rng.integers({2, 7}, -2, 2), Dtype::f64), from({{nan, 1, -inf, nan, inf, 1, -0.0}}, Dtype::f64)});
}

/// Both ways along both axes, k of each line.
template <class F>
void compare_orders(Comparison& c, F&& run) {
  const Tensor x = rows_to_order(c.rng());
  for (const int axis : {0, 1}) {
    for (const bool descending : {false, true}) {
      for (const int64_t k : {int64_t(0), int64_t(3), x.size(axis)}) {
        const ValuesAndIndices got = run(x, k, axis, descending);
        Shape shape = x.shape();
        shape[axis] = k;
        Array values(shape), indices(shape);
        for (int64_t line = 0; line < x.size(1 - axis); ++line) {
          const Numbers row = select(x, 1 - axis, line).to_vector<double>(), order = ordered(row, descending);
          for (int64_t i = 0; i < k; ++i) {
            const size_t place = axis ? values.place({line, i}) : values.place({i, line});
            indices.values[place] = order[size_t(i)];
            values.values[place] = row[size_t(order[size_t(i)])];
          }
        }
        c.expect("values", got.values, values, 0);
        c.expect("indices", got.indices, indices, 0);
      }
    }
  }
}

void argsort_of(Comparison& c) {
  compare_orders(c, [](const Tensor& x, int64_t k, int axis, bool descending) {
    const auto [values, indices] = sort(x, axis, descending);
    return ValuesAndIndices{slice(values, axis, 0, k), slice(indices, axis, 0, k)};
  });
}

void topk_indices_of(Comparison& c) {
  compare_orders(c, [](const Tensor& x, int64_t k, int axis, bool largest) { return topk(x, k, axis, largest); });
}

[[maybe_unused]] const bool added = add_references({
    {"gather", gather_of},
    {"scatter_add", scatter_add_of},
    {"index_select", index_select_of},
    {"index_add", index_add_of},
    {"argsort", argsort_of},
    {"topk_indices", topk_indices_of},
});

}  // namespace
}  // namespace spool::test
