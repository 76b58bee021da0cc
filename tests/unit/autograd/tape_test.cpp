// The tape: what flows where, what is kept, and what is refused.
#include <spool/autograd/custom_vjp.h>
#include <spool/autograd/sum_gradients.h>
#include <spool/autograd/tape.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/reduce.h>
#include <spool/ops/reshape.h>
#include <spool/ops/scalar.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <cmath>
#include <gtest/gtest.h>

namespace spool::test {
namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }
Tensor leaf(std::initializer_list<double> v) {
  Tensor t = from(v, {}, Dtype::f64);
  t.requires_grad(true);
  return t;
}
/// The message of an AutogradError.
std::string refused(auto&& f) {
  try {
    f();
  } catch (const AutogradError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}
bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(Tape, SharedNodesAreWalkedOnce) {
  const Tensor x = leaf({1}), a = from({1.0}, {}, Dtype::f64);
  Tape tape;
  const Tensor xa = x * a, x2 = x * x, f = x * xa + x2 * a + x * xa;
  tape.backward(f);
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(Tape, DiamondsTakeLinearTime) {
  const Tensor x = leaf({1});
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 40; ++i) y = y + y;
  tape.backward(y);
  EXPECT_EQ(x.grad().item(), 1099511627776.0);
}

TEST(Tape, GradientsAddUp) {
  const Tensor x = leaf({2, 3});
  for (int pass = 1; pass <= 2; ++pass) {
    Tape tape;
    tape.backward(sum(x * x + 3 * x));
    EXPECT_EQ(values(x.grad()), (Values{7.0 * pass, 9.0 * pass}));
  }
  EXPECT_EQ(x.grad().storage()->category, Category::gradient);
}

TEST(Tape, GradientsDoNotAliasInputsOrEachOther) {
  const Tensor x = leaf({1, 2}), y = leaf({1, 2});
  Tape tape;
  const Tensor z = x + y;
  const Tensor u = from({10, 20}, {}, Dtype::f64);
  tape.backward(Tensors{z}, {u});
  fill(x.grad(), 7);
  EXPECT_EQ(values(y.grad()), (Values{10, 20}));
  EXPECT_EQ(values(u), (Values{10, 20})) << "the caller's cotangent is the caller's";
}

TEST(Tape, CotangentsOfTheCallerAreNotWrittenTo) {
  const Tensor x = leaf({1, 2});
  const Tensor u = from({10, 20}, {}, Dtype::f64);
  Tape tape;
  const Tensor a = reshape(x, {1, 2}), b = reshape(x, {2, 1});
  tape.backward(Tensors{x + 0.0, a, b, x + 0.0}, {u, reshape(u, {1, 2}), reshape(u, {2, 1}), u});
  EXPECT_EQ(values(x.grad()), (Values{40, 80}));
  EXPECT_EQ(values(u), (Values{10, 20}));
}

TEST(Tape, FullReductionIsZeroDimensional) {
  const Tensor x = leaf({1, 2, 3, 4, 5});
  Tape tape;
  const Tensor total = sum(x);
  EXPECT_EQ(total.shape(), Shape{});
  const Tensor point = scalar(4, Dtype::f64).requires_grad(true);
  const Tensor same = sum(point);
  tape.backward(total);
  tape.backward(same);
  EXPECT_EQ(x.grad().shape(), (Shape{5}));
  EXPECT_EQ(point.grad().shape(), Shape{});
  EXPECT_EQ(point.grad().item(), 1);
}

// Overwriting

TEST(Tape, OverwritingWhatBackwardNeedsIsRefused) {
  const Tensor x = leaf({0, 0});
  Tape tape;
  const Tensor a = exp(x), loss = sum(a);
  {
    const With op(&Ambient::op, "doubling");
    copy(a, mul(a.detach(), 2));
  }
  const std::string text = refused([&] { tape.backward(loss); });
  EXPECT_TRUE(text.starts_with("exp: saved output 0 f64[2] was overwritten by doubling")) << text;
}

TEST(Tape, OverwritingThroughAnyViewIsNoticed) {
  for (int view = 0; view < 4; ++view) {
    const Tensor x = from({{1, 2}, {3, 4}}, Dtype::f64).requires_grad(true);
    Tape tape;
    const Tensor y = mul(x, x), loss = sum(square(y));
    const Tensor victim = view == 0 ? y.view_as({2, 2}, {1, 2}, 0) : view == 1 ? y.view_as({4}, {1}, 0) : view == 2 ? y.view_as({1}, {1}, 3) : y.detach();
    fill(victim, 0);
    EXPECT_TRUE(says(refused([&] { tape.backward(loss); }), "square: saved input 0")) << view;
  }
}

TEST(Tape, OverwritingWhatNobodyNeedsIsFine) {
  const Tensor x = leaf({1, 2});
  Tape tape;
  const Tensor a = x + 1.0, loss = sum(a);
  fill(a, 0);
  tape.backward(loss);
  EXPECT_EQ(values(x.grad()), (Values{1, 1}));
}

// Misuse

TEST(Tape, BackwardTwiceNeedsRetain) {
  const Tensor x = leaf({3});
  {
    Tape tape;
    const Tensor y = x * x;
    tape.backward(y, {.retain = true});
    tape.backward(y);
    EXPECT_EQ(x.grad().item(), 12);
    EXPECT_TRUE(says(refused([&] { tape.backward(y); }), "retain"));
  }
}

TEST(Tape, EndedTapesAreNotReached) {
  const Tensor x = leaf({3});
  Tensor y;
  {
    Tape tape;
    y = x * x;
  }
  Tape tape;
  EXPECT_TRUE(says(refused([&] { tape.backward(y); }), "tape that has ended"));
  const Tensor z = y * x;
  EXPECT_TRUE(says(refused([&] { tape.backward(z); }), "mul: backward reached an input that was computed on a tape that has ended; detach()"));
  const Tensor w = y.detach() * x;
  tape.backward(w);
  EXPECT_EQ(x.grad().item(), 9);
}

TEST(Tape, LossesThatDependOnNothingAreRefused) {
  const Tensor x = from({1.0, 2.0}, {}, Dtype::f64);
  Tape tape;
  EXPECT_TRUE(says(refused([&] { tape.backward(sum(x)); }), "does not depend on anything that requires a gradient"));
  const Tensor y = leaf({1, 2});
  EXPECT_THROW(tape.backward(y * y), ShapeError);
  EXPECT_THROW(tape.backward(Tensors{y * y}, {zeros({3}, Dtype::f64)}), ShapeError);
}

TEST(Tape, NothingIsRecordedWithoutNeed) {
  const Tensor x = leaf({1, 2}), c = from({1.0, 2.0}, {}, Dtype::f64);
  const Tensor before = x * x;  // no tape
  EXPECT_FALSE(before.requires_grad());
  Tape tape;
  c* c;
  EXPECT_EQ(tape.size(), 0);
  {
    const NoGrad quiet;
    const Tensor y = x * x;
    EXPECT_FALSE(is_recorded(y));
    {
      const NoGrad quieter;
    }
    x* x;
  }
  EXPECT_EQ(tape.size(), 0);
  const Tensor y = x * x;
  EXPECT_TRUE(is_recorded(y));
  EXPECT_TRUE(y.requires_grad());
  EXPECT_EQ(tape.size(), 1);
  less(y, 3);  // bool: no gradient to carry
  EXPECT_FALSE(is_recorded(less(y, 3)));
}

TEST(Tape, TheInnermostRecords) {
  const Tensor x = leaf({3});
  Tape outer;
  const Tensor y = x * x;
  {
    Tape inner;
    const Tensor z = x * x * x;
    EXPECT_EQ(inner.size(), 2);
    EXPECT_EQ(outer.size(), 1);
    inner.backward(z);
    EXPECT_EQ(x.grad().item(), 27);
    // A gradient for the outer tape's tensor can be asked for, as if it were a leaf.
    EXPECT_EQ(inner.gradient({y * 2.0}, {y})[0].item(), 2);
    EXPECT_TRUE(says(refused([&] { inner.backward(y * 2.0); }), "belongs to an enclosing tape"));
  }
  x.set_grad({});
  outer.backward(y);
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(Tape, GradientReturnsAndLeavesLeavesAlone) {
  const Tensor x = leaf({2, 3}), unused = leaf({1});
  Tape tape;
  const Tensor y = x * x, z = sum(y * x);
  const Tensors g = tape.gradient({z}, {x, y, unused});
  EXPECT_EQ(values(g[0]), (Values{12, 27}));
  EXPECT_EQ(values(g[1]), (Values{2, 3}));
  EXPECT_FALSE(g[2].defined());
  EXPECT_FALSE(x.grad().defined());
}

// Second order

TEST(Tape, SecondOrderThroughSumsOfGradients) {
  const Tensor x = leaf({0.5, 2});
  Tape tape;
  const Tensor y = sum(x * x * x + exp(x));  // x reaches y four times: its gradients meet in sum_gradients
  const Tensor first = tape.gradient({y}, {x}, {}, {.create_graph = true})[0];
  const Tensor second = tape.gradient({sum(first)}, {x}, {}, {.create_graph = true})[0];
  const Tensor third = tape.gradient({sum(second)}, {x})[0];
  for (size_t i = 0; i < 2; ++i) {
    const double v = values(x)[i];
    EXPECT_NEAR(values(first)[i], 3 * v * v + std::exp(v), 1e-12);
    EXPECT_NEAR(values(second)[i], 6 * v + std::exp(v), 1e-12);
    EXPECT_NEAR(values(third)[i], 6 + std::exp(v), 1e-12);
  }
}

TEST(Tape, SumOfGradientsIsAnOp) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  Tape tape;
  const Tensor s = sum_gradients(a, b);
  EXPECT_EQ(values(s), (Values{4, 6}));
  tape.backward(sum(s * s));
  EXPECT_EQ(values(a.grad()), (Values{8, 12}));
  EXPECT_EQ(values(b.grad()), (Values{8, 12}));
  EXPECT_THROW(sum_gradients(a, leaf({1})), ShapeError);
}

// Custom rules

TEST(CustomVjp, UsesTheRuleAndWhatItSaved) {
  const Tensor x = leaf({2, 3});
  Tape tape;
  const auto straight = [](const Tensor& t) {
    return custom_vjp("straight_through", [](const Tensors& in) { return Tensors{round(in[0])}; }, [](Saved& s) { return Tensors{s.grad() * s.input(0)}; }, Saves().input(0), {t})[0];
  };
  const Tensor y = straight(x);
  EXPECT_EQ(tape.size(), 1) << "the inside is not recorded";
  tape.backward(sum(y));
  EXPECT_EQ(values(x.grad()), (Values{2, 3}));
}

TEST(CustomVjp, RefusesUndeclaredReadsAndWrongShapes) {
  const Tensor x = leaf({2, 3});
  Tape tape;
  const auto f = [](const Tensors& in) { return Tensors{in[0] * 2.0}; };
  const Tensor a = custom_vjp("greedy", f, [](Saved& s) { return Tensors{s.input(0)}; }, {}, {x})[0];
  EXPECT_TRUE(says(refused([&] { tape.backward(sum(a)); }), "greedy: the gradient rule reads input 0, which `saves` does not declare"));
  const Tensor b = custom_vjp("shapeless", f, [](Saved& s) { return Tensors{sum(s.grad())}; }, {}, {x})[0];
  EXPECT_TRUE(says(refused([&] { tape.backward(sum(b)); }), "shapeless: the rule returned a gradient f64[] for input 0 of type f64[2]"));
  const Tensor c = custom_vjp("short", f, [](Saved&) { return Tensors{}; }, {}, {x})[0];
  EXPECT_TRUE(says(refused([&] { tape.backward(sum(c)); }), "short: the rule returned 0 gradients for 1 inputs"));
}

}  // namespace
}  // namespace spool::test
