// Reductions and the softmax family.
#include "reference.h"

#include <limits>

namespace spool::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

/// A reduction through its public function, over all sets of axes of a 3-d tensor, with and without the axes kept.
Reference reduction(Tensor (*f)(const Tensor&, const Axes&, bool), double (*naive)(const Numbers&), bool booleans = false) {
  return [=](Comparison& c) {
    const Tensor x = booleans ? c.rng().booleans({3, 4, 5}) : c.rng().normal({3, 4, 5});
    const Array from(x);
    for (int mask = 0; mask < 8; ++mask) {
      Axes axes;
      Shape kept;
      for (int axis = 0; axis < 3; ++axis) {
        if (mask >> axis & 1) axes.push_back(axis);
        kept.push_back(mask >> axis & 1 ? 1 : x.shape()[axis]);
      }
      if (mask == 0) kept = {1, 1, 1};  // no axes: all
      std::map<std::vector<int64_t>, Numbers> groups;
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 4; ++j)
          for (int64_t k = 0; k < 5; ++k) groups[{kept[0] > 1 ? i : 0, kept[1] > 1 ? j : 0, kept[2] > 1 ? k : 0}].push_back(from.at({i, j, k}));
      Array to(kept);
      size_t at = 0;
      for (const auto& [place, numbers] : groups) to.values[at++] = naive(numbers);
      c.expect(concat("axes ", axes, ", kept"), f(x, axes, true), to);
      Array dropped;
      dropped.values = to.values;
      for (int axis = 0; axis < 3; ++axis)
        if (mask && !(mask >> axis & 1)) dropped.shape.push_back(x.shape()[axis]);
      c.expect(concat("axes ", axes), f(x, axes, false), dropped);
    }
  };
}

double total(const Numbers& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum;
}
double average(const Numbers& x) { return total(x) / double(x.size()); }
double variance(const Numbers& x) {
  double sum = 0;
  for (const double value : x) sum += (value - average(x)) * (value - average(x));
  return sum / (double(x.size()) - 1);
}
double product(const Numbers& x) {
  double out = 1;
  for (const double value : x) out *= value;
  return out;
}
double largest(const Numbers& x) {
  double out = -inf;
  for (const double value : x) out = std::isnan(value) || std::isnan(out) ? nan : std::max(out, value);
  return out;
}
double smallest(const Numbers& x) {
  double out = inf;
  for (const double value : x) out = std::isnan(value) || std::isnan(out) ? nan : std::min(out, value);
  return out;
}
double length(const Numbers& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}
double every(const Numbers& x) {
  for (const double value : x)
    if (value == 0) return 0;
  return 1;
}
double some(const Numbers& x) {
  for (const double value : x)
    if (value != 0) return 1;
  return 0;
}

Numbers place_of_largest(const Numbers& x) {
  size_t best = 0;
  for (size_t i = 1; i < x.size(); ++i)
    if (!std::isnan(x[best]) && (std::isnan(x[i]) || x[i] > x[best])) best = i;
  return {double(best)};
}
Numbers place_of_smallest(const Numbers& x) {
  size_t best = 0;
  for (size_t i = 1; i < x.size(); ++i)
    if (!std::isnan(x[best]) && (std::isnan(x[i]) || x[i] < x[best])) best = i;
  return {double(best)};
}

/// log Σ eˣ; −∞ for a row of −∞ or of nothing.
double log_sum_exp(const Numbers& x) {
  const double top = largest(x);
  if (top == -inf) return -inf;
  double sum = 0;
  for (const double value : x) sum += std::exp(value - top);
  return top + std::log(sum);
}
Numbers softmax_row(const Numbers& x) {
  const double lse = log_sum_exp(x);
  Numbers out;
  for (const double value : x) out.push_back(lse == -inf ? 0 : std::exp(value - lse));
  return out;
}
Numbers log_softmax_row(const Numbers& x) {
  const double lse = log_sum_exp(x);
  Numbers out;
  for (const double value : x) out.push_back(lse == -inf ? -inf : value - lse);
  return out;
}

/// g and y as rows of one shape to dx.
Reference row_pairs(Numbers (*f)(const Numbers& g, const Numbers& y)) {
  return of_samples([f](const std::vector<Array>& in) {
    Array out = in[0];
    const auto n = size_t(in[0].columns());
    for (size_t at = 0; n && at < out.values.size(); at += n) {
      const auto row = [&](const Array& a) { return Numbers(a.values.begin() + long(at), a.values.begin() + long(at + n)); };
      const Numbers dx = f(row(in[0]), row(in[1]));
      std::copy(dx.begin(), dx.end(), out.values.begin() + long(at));
    }
    return std::vector<Array>{out};
  });
}
Numbers softmax_backward_row(const Numbers& g, const Numbers& y) {
  Numbers dx(g.size());
  for (size_t i = 0; i < g.size(); ++i)
    for (size_t j = 0; j < g.size(); ++j) dx[i] += g[j] * (i == j ? y[i] * (1 - y[i]) : -y[i] * y[j]);
  return dx;
}
Numbers log_softmax_backward_row(const Numbers& g, const Numbers& y) {
  Numbers dx(g.size());
  for (size_t i = 0; i < g.size(); ++i) dx[i] = g[i] - std::exp(y[i]) * total(g);
  return dx;
}

std::vector<Array> logsumexp_backward_of(const std::vector<Array>& in) {  // g, x, y
  Array out = in[1];
  const auto n = size_t(in[1].columns());
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = in[0].values[i / n] * std::exp(in[1].values[i] - in[2].values[i / n]);
  return {out};
}
std::vector<Array> prod_backward_of(const std::vector<Array>& in) {  // g, x
  Array out = in[1];
  const auto n = size_t(in[1].columns());
  for (size_t i = 0; i < out.values.size(); ++i) {
    out.values[i] = in[0].values[i / n];
    for (size_t j = i / n * n; j < (i / n + 1) * n; ++j)
      if (j != i) out.values[i] *= in[1].values[j];
  }
  return {out};
}
std::vector<Array> column_sum_of(const std::vector<Array>& in) {
  Array out(Shape{in[0].size(1)});
  for (int64_t i = 0; i < in[0].size(0); ++i)
    for (int64_t j = 0; j < in[0].size(1); ++j) out.values[size_t(j)] += in[0].at({i, j});
  return {out};
}

[[maybe_unused]] const bool added = add_references({
    {"sum", reduction(sum, total)},
    {"mean", reduction(mean, average)},
    {"amax", reduction(amax, largest)},
    {"amin", reduction(amin, smallest)},
    {"prod", reduction(prod, product)},
    {"norm", reduction(norm, length)},
    {"var", reduction([](const Tensor& x, const Axes& axes, bool keep) { return var(x, axes, keep); }, variance)},
    {"all", reduction(all, every, true)},
    {"any", reduction(any, some, true)},
    {"argmax", by_rows(place_of_largest, false, 0)},
    {"argmin", by_rows(place_of_smallest, false, 0)},
    {"softmax", by_rows(softmax_row, true)},
    {"log_softmax", by_rows(log_softmax_row, true)},
    {"logsumexp", by_rows([](const Numbers& x) { return Numbers{log_sum_exp(x)}; }, false)},
    {"softmax_backward", row_pairs(softmax_backward_row)},
    {"log_softmax_backward", row_pairs(log_softmax_backward_row)},
    {"logsumexp_backward", of_samples(logsumexp_backward_of)},
    {"prod_backward", of_samples(prod_backward_of)},
    {"column_sum", of_samples(column_sum_of)},
});

}  // namespace
}  // namespace spool::test
