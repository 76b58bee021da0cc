// Chains of views. The same chain on a tensor of places says which element each element of the result is: values are looked up there, and
// the gradient adds up where an element was taken several times.
#include "property.h"

#include <cmath>
#include <functional>

namespace spool::property {
namespace {

using Step = std::function<Tensor(const Tensor&)>;
struct Named {
  std::string name;
  Step run;
};

int axis_in(const Shape& s) {
  const int axis = int(integer(0, s.size() - 1));
  return coin() ? axis : axis - s.size();
}

/// A random step that the shape allows.
Named step_for(const Shape& s) {
  const int dims = s.size();
  const auto with = [](std::string name, Step run) { return Named{std::move(name), std::move(run)}; };
  switch (integer(0, 13)) {
    case 0:
      if (dims < 8) {
        const int axis = int(integer(0, dims));
        return with("unsqueeze", [=](const Tensor& x) { return unsqueeze(x, axis); });
      }
      break;
    case 1:
      if (dims > 0) {
        const int axis = axis_in(s);
        const int64_t n = s[axis < 0 ? axis + dims : axis], edges = n > 0 && integer(0, 3), begin = edges ? integer(0, n - 1) : integer(-n - 1, n),
                      end = edges ? integer(begin + 1, n + 1) : integer(-n - 1, n + 1), step = edges || coin() ? integer(1, 3) : -integer(1, 3);
        return with(concat("slice ", begin, ":", end, ":", step), [=](const Tensor& x) { return slice(x, axis, begin, end, step); });
      }
      break;
    case 2:
      if (dims > 1) {
        const int a = axis_in(s), b = axis_in(s);
        return with("transpose", [=](const Tensor& x) { return transpose(x, a, b); });
      }
      break;
    case 3:
      if (dims > 0) {
        const int axis = axis_in(s);
        return with("flip", [=](const Tensor& x) { return flip(x, axis); });
      }
      break;
    case 4: {
      Shape to = s;
      for (int64_t& size : to)
        if (size == 1 && coin()) size = integer(0, 9) ? integer(2, 4) : 0;
      if (dims < 8 && coin()) to.insert(0, integer(1, 2));
      return with("expand", [=](const Tensor& x) { return expand(x, to); });
    }
    case 5:
      if (dims > 0) {
        const int axis = axis_in(s);
        if (s[axis < 0 ? axis + dims : axis] > 0) {
          const int64_t index = integer(0, s[axis < 0 ? axis + dims : axis] - 1);
          return with("select", [=](const Tensor& x) { return select(x, axis, index); });
        }
      }
      break;
    case 6:
      return with("flatten and back", [=](const Tensor& x) { return reshape(reshape(x, {numel(s)}), s); });
    case 7:
      if (dims > 0) {
        Shape to = s;  // two neighbours joined, or an axis cut where it divides
        const int axis = int(integer(0, dims - 1));
        if (axis + 1 < dims) {
          to[axis] *= to[axis + 1];
          to.erase(axis + 1);
        } else if (to[axis] % 2 == 0 && dims < 8) {
          to[axis] /= 2;
          to.insert(axis, 2);
        }
        return with("reshape", [=](const Tensor& x) { return reshape(x, to); });
      }
      break;
    case 8:
      return with("squeeze", [](const Tensor& x) { return squeeze(x); });
    case 9:
      if (dims > 0 && dims < 8) {
        const int axis = axis_in(s);
        const int64_t n = s[axis < 0 ? axis + dims : axis];
        if (n > 0) {
          const int64_t size = integer(1, n), step = integer(1, 3);
          return with("unfold", [=](const Tensor& x) { return unfold(x, axis, size, step); });
        }
      }
      break;
    case 10:
      if (dims > 1) {
        const int a = int(integer(0, dims - 1)), b = (a + int(integer(1, dims - 1))) % dims;
        const int64_t offset = integer(-2, 2);
        return with("diagonal", [=](const Tensor& x) { return diagonal(x, offset, a, b); });
      }
      break;
    case 11:
      if (dims > 0) {
        const int axis = axis_in(s);
        const int64_t shift = integer(-7, 7);
        return with("roll", [=](const Tensor& x) { return roll(x, shift, axis); });
      }
      break;
    case 12:
      if (dims > 0) {
        const int axis = axis_in(s);
        const int64_t n = s[axis < 0 ? axis + dims : axis], start = integer(0, n / 2), length = integer(0, 9) ? integer(std::min<int64_t>(1, n - start), n - start) : 0;
        return with("narrow", [=](const Tensor& x) { return narrow(x, axis, start, length); });
      }
      break;
    default:
      return with("contiguous", [](const Tensor& x) { return contiguous(x); });
  }
  return with("nothing", [](const Tensor& x) { return x; });
}

RC_GTEST_PROP(Views, AChainTakesTheElementsItSays, ()) {
  const Tensor x = strided(shape(int(integer(0, 5))));
  const int64_t n = x.numel();
  Tensor places = reshape(arange(n), x.shape());
  x.requires_grad(true);
  Tape tape;
  Tensor y = x;
  std::string chain;
  const int64_t length = integer(1, 7);
  for (int64_t i = 0; i < length && y.numel() < 4000; ++i) {
    const Named step = step_for(y.shape());
    chain += step.name + "; ";
    const Tensor copied = step.run(contiguous_copy(y));  // what it does to a copy of the elements
    y = step.run(y);
    places = step.run(places);
    RC_ASSERT(y.shape() == copied.shape());
    RC_ASSERT(y.to_vector<double>() == copied.to_vector<double>());
  }
  RC_LOG(chain);
  const auto all = x.to_vector<double>(), got = y.to_vector<double>();
  const auto from = places.to_vector<int64_t>();
  RC_ASSERT(got.size() == from.size());
  for (size_t i = 0; i < got.size(); ++i) RC_ASSERT(got[i] == all[size_t(from[i])]);

  const Tensor g = normal(y.shape());
  tape.backward({y}, {g});
  const auto cotangent = g.to_vector<double>();
  std::vector<double> expected(static_cast<size_t>(n)), size(static_cast<size_t>(n));
  for (size_t i = 0; i < from.size(); ++i) {
    expected[size_t(from[i])] += cotangent[i];
    size[size_t(from[i])] += std::fabs(cotangent[i]);
  }
  RC_ASSERT(x.grad().shape() == x.shape());
  const auto gradient = x.grad().to_vector<double>();
  for (size_t i = 0; i < gradient.size(); ++i) RC_ASSERT(std::fabs(gradient[i] - expected[i]) <= 1e-14 * (1 + size[i]));
}

}  // namespace
}  // namespace spool::property
