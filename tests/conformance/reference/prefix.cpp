// Scans along the middle axis: each element from the elements before it, one by one.
#include "reference.h"

#include <limits>

namespace spool::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// f of the elements that y[i] is made of, nearest the start of the scan first.
Reference scan_of(Tensor (*scan)(const Tensor&, int, PrefixOptions), double (*f)(const Numbers&), double tolerance = 1e-12) {
  return [=](Comparison& c) {
    const Tensor x = concat(Tensors{c.rng().normal({1, 5, 3}), cast(c.rng().integers({2, 5, 3}, -1, 2), Dtype::f64)});
    const Array from(x);
    for (const bool reverse : {false, true}) {
      for (const bool exclusive : {false, true}) {
        Array to(x.shape());
        each_index(to.shape, [&](size_t i, const Shape& at) {
          Numbers before;
          for (int64_t j = reverse ? 4 : 0; j != at[1]; j += reverse ? -1 : 1) before.push_back(look_up(from, {at[0], j, at[2]}));
          if (!exclusive) before.push_back(look_up(from, at));
          to.values[i] = f(before);
        });
        const PrefixOptions options{.reverse = reverse, .exclusive = exclusive};
        c.expect(concat("reverse ", reverse, ", exclusive ", exclusive), scan(x, 1, options), to, tolerance);
        const Tensor integers = cast(x, Dtype::i32);
        if (scan == prefix_sum || scan == prefix_prod)
          c.expect("integers", scan(integers, 1, options), scan(cast(integers, Dtype::f64), 1, options).to_vector<double>(), 0);
      }
    }
  };
}

double sum_of(const Numbers& x) {
  double y = 0;
  for (const double v : x) y += v;
  return y;
}
double prod_of(const Numbers& x) {
  double y = 1;
  for (const double v : x) y *= v;
  return y;
}
double lse_of(const Numbers& x) {
  double y = 0;
  for (const double v : x) y += std::exp(v);
  return std::log(y);
}
double max_of(const Numbers& x) {
  double y = -inf;
  for (const double v : x) y = v > y ? v : y;
  return y;
}
double min_of(const Numbers& x) {
  double y = inf;
  for (const double v : x) y = v < y ? v : y;
  return y;
}

void linear_recurrence_of(Comparison& c) {
  const Tensor a = c.rng().normal({2, 5, 3}), b = c.rng().normal({2, 5, 3});
  for (const bool reverse : {false, true}) {
    Array h(b.shape());
    for (int64_t k = 0; k < 5; ++k) {
      const int64_t i = reverse ? 4 - k : k;
      for (int64_t o = 0; o < 2; ++o)
        for (int64_t n = 0; n < 3; ++n)
          h.at({o, i, n}) = Array(b).at({o, i, n}) + (k ? Array(a).at({o, i, n}) * h.at({o, reverse ? i + 1 : i - 1, n}) : 0);
    }
    c.expect(reverse ? "reverse" : "forward", linear_recurrence(a, b, 1, reverse), h);
  }
}

[[maybe_unused]] const bool added = add_references({
    {"prefix_sum", scan_of(prefix_sum, sum_of)},
    {"prefix_prod", scan_of(prefix_prod, prod_of)},
    {"logcumsumexp", scan_of(logcumsumexp, lse_of)},
    {"prefix_max", scan_of(prefix_max, max_of, 0)},
    {"prefix_min", scan_of(prefix_min, min_of, 0)},
    {"linear_recurrence", linear_recurrence_of},
});

}  // namespace
}  // namespace spool::test
