// Broadcasting against a loop over indices: values, and gradients as sums over the places an element went to.
#include "property.h"

#include <cmath>
#include <functional>

namespace spool::property {
namespace {

/// A shape that broadcasts to `whole`: leading axes left out, some sizes 1.
Shape part_of(const Shape& whole) {
  Shape s;
  for (int axis = coin() ? 0 : int(integer(0, whole.size())); axis < whole.size(); ++axis) s.push_back(integer(0, 2) ? whole[axis] : 1);
  return s;
}
Shape joined(const Shape& a, const Shape& b) {
  Shape s;
  const int dims = std::max(a.size(), b.size());
  for (int i = 0; i < dims; ++i) {
    const int at_a = i - dims + a.size(), at_b = i - dims + b.size();
    const int64_t x = at_a < 0 ? 1 : a[at_a], y = at_b < 0 ? 1 : b[at_b];
    s.push_back(x == 1 ? y : x);
  }
  return s;
}

struct Binary {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&);
  double (*value)(double, double);
  double (*slope_a)(double, double);
  double (*slope_b)(double, double);
};
const Binary binaries[] = {
    {"add", add, [](double a, double b) { return a + b; }, [](double, double) { return 1.0; }, [](double, double) { return 1.0; }},
    {"sub", sub, [](double a, double b) { return a - b; }, [](double, double) { return 1.0; }, [](double, double) { return -1.0; }},
    {"mul", mul, [](double a, double b) { return a * b; }, [](double, double b) { return b; }, [](double a, double) { return a; }},
    {"div", div, [](double a, double b) { return a / b; }, [](double, double b) { return 1 / b; }, [](double a, double b) { return -a / (b * b); }},
    {"maximum", maximum, [](double a, double b) { return a > b ? a : b; }, [](double a, double b) { return a > b ? 1.0 : a < b ? 0.0 : 0.5; }, [](double a, double b) { return a < b ? 1.0 : a > b ? 0.0 : 0.5; }},
};

RC_GTEST_PROP(Broadcast, BinaryOpsAgreeWithALoop, ()) {
  const Shape whole = shape(int(integer(0, 8)));
  const Tensor a = strided(part_of(whole)), b = strided(part_of(whole));
  const Binary& op = binaries[size_t(integer(0, 4))];
  const Shape result = joined(a.shape(), b.shape());
  a.requires_grad(true);
  b.requires_grad(true);
  Tape tape;
  const Tensor y = op.run(a, b);
  RC_ASSERT(y.shape() == result);
  const Tensor g = normal(result);
  tape.backward({y}, {g});
  const auto va = a.to_vector<double>(), vb = b.to_vector<double>(), vy = y.to_vector<double>(), vg = g.to_vector<double>();
  std::vector<double> ga(va.size()), gb(vb.size()), ma(va.size()), mb(vb.size());  // gradients, and the magnitudes that they are sums of
  each_index(result, [&](size_t i, const Shape& at) {
    const size_t ia = broadcast_place(a.shape(), at), ib = broadcast_place(b.shape(), at);
    RC_ASSERT(vy[i] == op.value(va[ia], vb[ib]));
    const double da = vg[i] * op.slope_a(va[ia], vb[ib]), db = vg[i] * op.slope_b(va[ia], vb[ib]);
    ga[ia] += da;
    gb[ib] += db;
    ma[ia] += std::fabs(da);
    mb[ib] += std::fabs(db);
  });
  const auto agree = [](const Tensor& x, const std::vector<double>& expected, const std::vector<double>& size) {
    RC_ASSERT(x.grad().shape() == x.shape());
    const auto got = x.grad().to_vector<double>();
    for (size_t i = 0; i < got.size(); ++i) RC_ASSERT(std::fabs(got[i] - expected[i]) <= 1e-14 * (1 + size[i]));
  };
  agree(a, ga, ma);
  agree(b, gb, mb);
}

RC_GTEST_PROP(Broadcast, WhereAgreesWithALoop, ()) {
  const Shape whole = shape(int(integer(0, 6)));
  const Tensor condition = greater(strided(part_of(whole)), 0), a = strided(part_of(whole)), b = strided(part_of(whole));
  const Shape result = joined(joined(condition.shape(), a.shape()), b.shape());
  const Tensor y = where(condition, a, b);
  RC_ASSERT(y.shape() == result);
  const auto vc = condition.to_vector<bool>();
  const auto va = a.to_vector<double>(), vb = b.to_vector<double>(), vy = y.to_vector<double>();
  each_index(result, [&](size_t i, const Shape& at) {
    RC_ASSERT(vy[i] == (vc[broadcast_place(condition.shape(), at)] ? va[broadcast_place(a.shape(), at)] : vb[broadcast_place(b.shape(), at)]));
  });
}

RC_GTEST_PROP(Broadcast, ShapesThatDoNotJoinAreRefusedWithBothNamed, ()) {
  Shape a = shape(int(integer(1, 5))), b = a;
  const int axis = int(integer(0, a.size() - 1));
  a[axis] = integer(2, 4);
  b[axis] = a[axis] + integer(1, 3);
  try {
    add(zeros(a, Dtype::f64), zeros(b, Dtype::f64));
    RC_FAIL("nothing was thrown");
  } catch (const ShapeError& error) {
    const std::string text = error.what();
    RC_ASSERT(text.find(to_string(a)) != std::string::npos && text.find(to_string(b)) != std::string::npos);
  }
}

}  // namespace
}  // namespace spool::property
