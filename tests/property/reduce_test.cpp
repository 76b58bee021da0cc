// A reduction of joined parts is the reduction of the parts' reductions, forward and backward; and every reduction against a loop.
#include "property.h"

#include <cmath>
#include <functional>

namespace spool::property {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

struct Fold {
  const char* name;
  Tensor (*run)(const Tensor&, const Axes&, bool);
  double start;
  double (*join)(double, double);
  bool needs_elements;
};
const Fold folds[] = {
    {"sum", sum, 0, [](double a, double b) { return a + b; }, false},
    {"prod", prod, 1, [](double a, double b) { return a * b; }, false},
    {"amax", amax, -inf, [](double a, double b) { return std::max(a, b); }, true},
    {"amin", amin, inf, [](double a, double b) { return std::min(a, b); }, true},
    {"norm", norm, 0, [](double a, double b) { return std::hypot(a, b); }, false},
};

void close(const Tensor& a, const Tensor& b) {
  RC_ASSERT(a.shape() == b.shape());
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) RC_ASSERT(x[i] == y[i] || std::fabs(x[i] - y[i]) <= 1e-13 * (10 + std::fabs(y[i])));
}

Axes axes_of(const Shape& s) {
  Axes axes;
  for (int axis = 0; axis < s.size(); ++axis)
    if (coin()) axes.push_back(coin() ? axis : axis - s.size());
  return axes;
}

RC_GTEST_PROP(Reduce, AgreesWithALoop, ()) {
  const Tensor x = strided(shape(int(integer(0, 6))));
  const Axes axes = axes_of(x.shape());
  const bool keepdim = coin();
  const Fold& f = folds[size_t(integer(0, 4))];
  std::vector<bool> gone(size_t(x.dims()), axes.empty());
  for (const int64_t axis : axes) gone[size_t(axis < 0 ? axis + x.dims() : axis)] = true;
  Shape result, kept;
  for (int axis = 0; axis < x.dims(); ++axis) {
    kept.push_back(gone[size_t(axis)] ? 1 : x.size(axis));
    if (!gone[size_t(axis)] || keepdim) result.push_back(kept[axis]);
  }
  if (f.needs_elements && x.numel() == 0 && numel(kept) > 0) {
    RC_ASSERT_THROWS_AS(f.run(x, axes, keepdim), ShapeError);
    return;
  }
  std::vector<double> expected(size_t(numel(kept)), f.start);
  const auto values = x.to_vector<double>();
  each_index(x.shape(), [&](size_t i, const Shape& at) {
    double& to = expected[broadcast_place(kept, at)];
    to = f.join(to, values[i]);
  });
  close(f.run(x, axes, keepdim), from(expected, result, Dtype::f64));
}

RC_GTEST_PROP(Reduce, OfJoinedPartsIsOfTheParts, ()) {
  Shape s = shape(int(integer(1, 5)));
  for (int64_t& size : s) size = std::max<int64_t>(size, 1);
  const int axis = int(integer(0, s.size() - 1));
  Tensors parts;
  const int64_t count = integer(1, 5);
  for (int64_t i = 0; i < count; ++i) {
    Shape part = s;
    part[axis] = integer(1, 4);
    parts.push_back(strided(part));
  }
  const Fold& f = folds[size_t(integer(0, 4))];
  const int over = int(integer(0, s.size() - 1));
  const auto joined = [&](const Tensors& all) { return f.run(concat(all, axis), Axes(over), true); };
  const auto apart = [&](const Tensors& all) {
    Tensors reduced;
    for (const Tensor& part : all) reduced.push_back(f.run(part, Axes(over), true));
    const Tensor whole = concat(reduced, axis);
    return over == axis ? f.run(whole, Axes(axis), true) : whole;
  };
  Tensors gradients[2];
  Tensor results[2], g;
  for (const int way : {0, 1}) {
    Tensors leaves;
    for (const Tensor& part : parts) {
      leaves.push_back(part.detach());
      leaves.back().requires_grad(true);
    }
    Tape tape;
    results[way] = way == 0 ? joined(leaves) : apart(leaves);
    if (!g.defined()) g = normal(results[way].shape());
    tape.backward({results[way]}, {g});
    for (const Tensor& leaf : leaves) gradients[way].push_back(leaf.grad());
  }
  close(results[0], results[1]);
  for (size_t i = 0; i < parts.size(); ++i) close(gradients[0][i], gradients[1][i]);
}

}  // namespace
}  // namespace spool::property
