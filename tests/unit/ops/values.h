#pragma once
// What tests of values and gradients share.
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace spool::test {

inline constexpr double inf = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;

inline Tensor leaf(Tensor t) { return t.requires_grad(true); }
inline Tensor f64(std::initializer_list<double> values) { return from(values, {}, Dtype::f64); }
inline Tensor i64(std::initializer_list<double> values) { return from(values, {}, Dtype::i64); }
inline Values values_of(const Tensor& t) { return t.to_vector<double>(); }

/// Gradient of Σ f(x).
template <class F>
Values gradient_of(const Tensor& x, F f) {
  leaf(x);
  x.set_grad({});
  Tape tape;
  tape.backward(sum(f(x)));
  return values_of(x.grad());
}

inline void expect_near(const Values& got, const Values& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(got[i] == want[i] || std::abs(got[i] - want[i]) <= tolerance) << "element " << i << ": " << got[i] << ", expected " << want[i];
}

/// What f says when it throws E.
template <class E, class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace spool::test
