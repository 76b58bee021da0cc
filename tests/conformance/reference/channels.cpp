// Ops on [batch, channels, length]: convolution and group_norm.
#include "reference.h"

namespace spool::test {
namespace {

struct Case {
  int64_t in, out, kernel, length;
  Conv1dOptions options;
};
/// Every pair of options, groups from one to depthwise with two outputs a channel.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t stride : {1, 2, 3})
    for (const int64_t dilation : {1, 2})
      for (const int64_t groups : {1, 2, 4})
        for (const Padding padding : {Padding{}, Padding{2}, Padding{5, 1}}) all.push_back({4, 8, 3, 9, {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups}});
  all.push_back({3, 3, 4, 1100, {.groups = 3, .causal = true}});  // beyond what is summed at once
  all.push_back({2, 3, 2, 6, {.stride = 2, .dilation = 3, .causal = true}});
  return all;
}

/// Calls f(b, o, t, channel of x, channel of the weight, tap, element of x) for every product of a convolution.
template <class F>
void each_product(const Case& c, const Shape& y, F&& f) {
  const int64_t left = c.options.causal ? (c.kernel - 1) * c.options.dilation : c.options.padding.left, part = c.in / c.options.groups;
  for (int64_t b = 0; b < y[0]; ++b)
    for (int64_t o = 0; o < y[1]; ++o)
      for (int64_t t = 0; t < y[2]; ++t)
        for (int64_t i = 0; i < part; ++i)
          for (int64_t j = 0; j < c.kernel; ++j) {
            const int64_t at = t * c.options.stride + j * c.options.dilation - left;
            if (at >= 0 && at < c.length) f(b, o, t, o / (c.out / c.options.groups) * part + i, i, j, at);
          }
}

int64_t positions(const Case& c) {
  const int64_t reach = (c.kernel - 1) * c.options.dilation;
  const int64_t padded = c.length + (c.options.causal ? reach : c.options.padding.left + c.options.padding.right);
  int64_t count = 0;
  while (count * c.options.stride + reach < padded) ++count;
  return count;
}

enum class Part { value, input, weight };
Reference conv1d_of(Part part) {
  return [part](Comparison& c) {
    for (const Case& at : cases()) {
      const Tensor x = c.rng().normal({2, at.in, at.length}), w = c.rng().normal({at.out, at.in / at.options.groups, at.kernel}), bias = c.rng().normal({at.out});
      const Shape shape{2, at.out, positions(at)};
      const Tensor u = c.rng().normal(shape);
      const Array ax(x), aw(w), ab(bias), au(u);
      Array y(shape), dx(x.shape()), dw(w.shape());
      for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = ab.values[i / size_t(shape[2]) % size_t(at.out)];
      each_product(at, shape, [&](int64_t b, int64_t o, int64_t t, int64_t i, int64_t wi, int64_t j, int64_t p) {
        y.at({b, o, t}) += ax.at({b, i, p}) * aw.at({o, wi, j});
        dx.at({b, i, p}) += au.at({b, o, t}) * aw.at({o, wi, j});
        dw.at({o, wi, j}) += au.at({b, o, t}) * ax.at({b, i, p});
      });
      const std::string label = concat("groups ", at.options.groups, ", stride ", at.options.stride, ", dilation ", at.options.dilation, ", length ", at.length);
      if (part == Part::value) {
        c.expect(label, conv1d(x, w, bias, at.options), y);
        continue;
      }
      const Tensors g = gradients_of([&](const Tensors& in) { return Tensors{conv1d(in[0], in[1], {}, at.options)}; }, {x, w}, {u});
      c.expect(label, g[part == Part::input ? 0 : 1], part == Part::input ? dx : dw);
    }
  };
}

/// h = (x − mean)/√(var + eps) of each group, and the gradients over all pairs of a group's elements.
void group_norm_of(Comparison& c, bool backward) {
  for (const int64_t groups : {1, 2, 6}) {
    const Tensor x = c.rng().normal({2, 6, 5}), w = c.rng().normal({6}), bias = c.rng().normal({6}), u = c.rng().normal({2, 6, 5});
    const Array ax(x), aw(w), ab(bias), au(u);
    const double eps = 0.25;
    const size_t n = size_t(30 / groups);
    Array y(x.shape()), dx(x.shape()), dw(w.shape()), db(w.shape());
    for (size_t row = 0; row < ax.values.size(); row += n) {
      double mean = 0, square = 0;
      for (size_t i = row; i < row + n; ++i) mean += ax.values[i] / double(n);
      for (size_t i = row; i < row + n; ++i) square += (ax.values[i] - mean) * (ax.values[i] - mean) / double(n);
      const double scale = 1 / std::sqrt(square + eps);
      const auto h = [&](size_t i) { return (ax.values[i] - mean) * scale; };
      for (size_t i = row; i < row + n; ++i) {
        const size_t channel = i / 5 % 6;
        y.values[i] = h(i) * aw.values[channel] + ab.values[channel];
        dw.values[channel] += au.values[i] * h(i);
        db.values[channel] += au.values[i];
        for (size_t j = row; j < row + n; ++j)
          dx.values[j] += au.values[i] * aw.values[channel] * scale * (double(i == j) - 1 / double(n) - h(i) * h(j) / double(n));
      }
    }
    if (!backward) {
      c.expect(concat("groups ", groups), group_norm(x, groups, w, bias, eps), y);
      continue;
    }
    const Tensors g = gradients_of([&](const Tensors& in) { return Tensors{group_norm(in[0], groups, in[1], in[2], eps)}; }, {x, w, bias}, {u});
    c.expect("dx", g[0], dx);
    c.expect("dweight", g[1], dw);
    c.expect("dbias", g[2], db);
  }
}

[[maybe_unused]] const bool added = add_references({
    {"conv1d", conv1d_of(Part::value)},
    {"conv1d_input_backward", conv1d_of(Part::input)},
    {"conv1d_weight_backward", conv1d_of(Part::weight)},
    {"group_norm", [](Comparison& c) { group_norm_of(c, false); }},
    {"group_norm_backward", [](Comparison& c) { group_norm_of(c, true); }},
});

}  // namespace
}  // namespace spool::test
