// Losses at the places where they have gone wrong: nothing to score, rows of -inf, targets out of range, extreme logits, unequal shapes.
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

namespace spool {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;
using Loss = std::function<Tensor(const Tensor& logits, const Tensor& targets)>;

Tensor ids(std::initializer_list<double> values) { return from(values, {}, Dtype::i64); }
void expect_near(const Values& got, const Values& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == want[i] || std::abs(got[i] - want[i]) <= tolerance) << "element " << i << ": " << got[i] << ", expected " << want[i];
}
struct Scored {
  double loss;
  Values gradient;
};
Scored scored(const Loss& loss, const Tensor& x, const Tensor& targets) {
  const Tensor leaf = x.detach().requires_grad(true);
  Tape tape;
  const Tensor y = loss(leaf, targets);
  tape.backward(y);
  return {y.item(), leaf.grad().to_vector<double>()};
}
template <class F>
std::string text_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing thrown";
}

/// The three ways to score classes; the last multiplies by a weight that changes nothing. Logits [rows, 3].
std::vector<std::pair<const char*, Loss>> class_losses() {
  const Tensor identity = from({{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, Dtype::f64);
  return {{"cross_entropy", [](const Tensor& x, const Tensor& t) { return cross_entropy(x, t); }},
          {"nll_loss", [](const Tensor& x, const Tensor& t) { return nll_loss(log_softmax(x), t); }},
          {"linear_cross_entropy", [identity](const Tensor& x, const Tensor& t) { return linear_cross_entropy(x, identity, t); }},
          {"linear_cross_entropy, one row at a time", [identity](const Tensor& x, const Tensor& t) { return linear_cross_entropy(x, identity, t, {}, 1); }}};
}

TEST(Cases, B4AllTargetsIgnored) {
  for (const auto& [name, loss] : class_losses()) {
    SCOPED_TRACE(name);
    const Scored s = scored(loss, from({{1, 2, 3}, {4, 5, 6}}, Dtype::f64), ids({-100, -100}));
    EXPECT_EQ(s.loss, 0);
    EXPECT_EQ(s.gradient, Values(6, 0));
  }
}

TEST(Cases, B4SomeTargetsIgnored) {
  const Values first{0.09003057317038046, 0.24472847105479764, -0.3347590442251781, 0, 0, 0};
  for (const auto& [name, loss] : class_losses()) {
    SCOPED_TRACE(name);
    const Scored s = scored(loss, from({{1, 2, 3}, {1, 2, 3}}, Dtype::f64), ids({2, -100}));
    EXPECT_NEAR(s.loss, 0.4076059644443806, 1e-15);  // over one row, not two
    expect_near(s.gradient, first, 1e-10);
    EXPECT_EQ(Values(s.gradient.begin() + 3, s.gradient.end()), Values(3, 0));
    if (name[0] == 'l') continue;  // a product with -inf is NaN before any loss
    const Scored masked = scored(loss, from({{1, 2, 3}, {-inf, -inf, -inf}}, Dtype::f64), ids({2, -100}));
    EXPECT_NEAR(masked.loss, 0.4076059644443806, 1e-15);
    expect_near(masked.gradient, first, 1e-10);
    EXPECT_EQ(Values(masked.gradient.begin() + 3, masked.gradient.end()), Values(3, 0));
  }
}

TEST(Cases, B4TargetOutOfRange) {
  for (const auto& [name, loss] : class_losses()) {
    const Tensor x = zeros({2, 3}, Dtype::f64);
    EXPECT_NE(text_of([&] { loss(x, ids({0, 3})); }).find("index 3 at position "), std::string::npos) << name;
    EXPECT_NE(text_of([&] { loss(x, ids({0, -1})); }).find("index -1 at position "), std::string::npos) << name;
    EXPECT_THROW(loss(x, ids({0, 3})), IndexError) << name;
  }
}

TEST(Cases, B4ZeroLogitsOf256Classes) {
  const Tensor x = zeros({4, 256}, Dtype::f64), t = ids({0, 255, 7, 128});
  EXPECT_NEAR(cross_entropy(x, t).item(), 5.545177444479562, 1e-15);
  EXPECT_NEAR(cross_entropy(x, t).item() / std::numbers::ln2, 8, 1e-14);
  EXPECT_NEAR(nll_loss(log_softmax(x), t).item(), 5.545177444479562, 1e-15);
  EXPECT_NEAR(linear_cross_entropy(zeros({4, 2}, Dtype::f64), zeros({256, 2}, Dtype::f64), t, {}, 3).item(), 5.545177444479562, 1e-15);
}

TEST(Nll, IsCrossEntropyOfLogProbabilities) {
  Rng rng(2);
  const Tensor x = rng.normal({3, 5, 7}), t = rng.integers({3, 5}, 0, 7, Dtype::u8);
  for (const Reduction reduction : {Reduction::none, Reduction::sum, Reduction::mean}) {
    const Tensor a = nll_loss(log_softmax(x), t, {.reduction = reduction, .ignore_index = 3}), b = cross_entropy(x, t, {.reduction = reduction, .ignore_index = 3});
    EXPECT_EQ(a.shape(), b.shape());
    expect_near(a.to_vector<double>(), b.to_vector<double>(), 1e-13);
  }
  EXPECT_EQ(nll_loss(cast(x, Dtype::bf16), t).dtype(), Dtype::f32);
}

TEST(Losses, Values) {
  const Tensor a = from({1, -2, 0.5, 4}, {}, Dtype::f64), b = from({0, -2, 1, 1}, {}, Dtype::f64);  // differences 1, 0, -0.5, 3
  EXPECT_EQ(mse_loss(a, b).item(), 10.25 / 4);
  EXPECT_EQ(mse_loss(a, b, Reduction::sum).item(), 10.25);
  EXPECT_EQ(mse_loss(a, b, Reduction::none).to_vector<double>(), (Values{1, 0, 0.25, 9}));
  EXPECT_EQ(l1_loss(a, b, Reduction::none).to_vector<double>(), (Values{1, 0, 0.5, 3}));
  EXPECT_EQ(huber_loss(a, b, 2, Reduction::none).to_vector<double>(), (Values{0.5, 0, 0.125, 4}));
  EXPECT_EQ(smooth_l1_loss(a, b, 0.5, Reduction::none).to_vector<double>(), (Values{0.75, 0, 0.25, 2.75}));
  const auto slope = [&](const Loss& loss) { return scored([&](const Tensor& x, const Tensor& t) { return sum(loss(x, t)); }, a, b).gradient; };
  EXPECT_EQ(slope([](const Tensor& x, const Tensor& t) { return mse_loss(x, t, Reduction::none); }), (Values{2, 0, -1, 6}));
  EXPECT_EQ(slope([](const Tensor& x, const Tensor& t) { return l1_loss(x, t, Reduction::none); }), (Values{1, 0, -1, 1}));
  EXPECT_EQ(slope([](const Tensor& x, const Tensor& t) { return huber_loss(x, t, 2, Reduction::none); }), (Values{1, 0, -0.5, 2}));
  EXPECT_EQ(slope([](const Tensor& x, const Tensor& t) { return smooth_l1_loss(x, t, 0.5, Reduction::none); }), (Values{1, 0, -1, 1}));
}

TEST(Losses, BinaryCrossEntropyAtTheExtremes) {
  const Tensor x = from({1000, 1000, -1000, -1000, 0, 40}, {}, Dtype::f64), t = from({1, 0, 0, 1, 0.25, 1}, {}, Dtype::f64);
  const auto none = [](const Tensor& a, const Tensor& b) { return binary_cross_entropy_with_logits(a, b, Reduction::none); };
  expect_near(none(x, t).to_vector<double>(), {0, 1000, 0, 1000, std::numbers::ln2, 4.248354255291589e-18}, 1e-15);
  EXPECT_NEAR(none(x, t).to_vector<double>()[5] / 4.248354255291589e-18, 1, 1e-14);
  const Scored s = scored([&](const Tensor& a, const Tensor& b) { return sum(none(a, b)); }, x, t);
  expect_near(s.gradient, {0, 1, 0, -1, 0.25, -4.248354255291589e-18}, 1e-15);
}

TEST(Losses, KlDivergence) {
  const Tensor p = from({{0.5, 0.5, 0}, {0.2, 0.3, 0.5}}, Dtype::f64);
  const Tensor q = log(from({{0.25, 0.5, 0.25}, {0.2, 0.3, 0.5}}, Dtype::f64));
  expect_near(kl_div(q, p, Reduction::none).to_vector<double>(), {0.5 * std::numbers::ln2, 0, 0, 0, 0, 0}, 1e-15);
  const Scored s = scored([&](const Tensor& a, const Tensor& b) { return kl_div(a, b, Reduction::sum); }, from({{-1, -1, -inf}}, Dtype::f64), from({{0.5, 0.5, 0}}, Dtype::f64));
  EXPECT_NEAR(s.loss, 1 - std::numbers::ln2, 1e-15);  // what has no probability does not ask the model
  EXPECT_EQ(s.gradient, (Values{-0.5, -0.5, 0}));
}

TEST(Losses, NothingBroadcasts) {
  const Tensor a = zeros({3, 1}), b = zeros({3});
  EXPECT_EQ(text_of([&] { mse_loss(a, b); }), "mse_loss: shapes [3, 1] and [3] differ; nothing broadcasts here");
  for (const auto loss : {l1_loss, binary_cross_entropy_with_logits, kl_div}) EXPECT_THROW(loss(a, b, Reduction::mean), ShapeError);
  EXPECT_THROW(mse_loss(b, zeros({3}, Dtype::f64)), DtypeError);
  EXPECT_EQ(text_of([&] { huber_loss(b, b, 0); }), "huber_loss: delta must be above 0, got 0");
  EXPECT_EQ(text_of([&] { smooth_l1_loss(b, b, 0); }), "smooth_l1_loss: beta must be above 0, got 0; l1_loss is its limit at 0");
}

TEST(Losses, HuberWithoutAnEndIsHalfTheSquare) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const Loss huber = [](const Tensor& a, const Tensor& b) { return huber_loss(a, b, inf, Reduction::sum); };
    const Scored s = scored(huber, from({3, -1}, {}, dtype), zeros({2}, dtype));
    EXPECT_EQ(s.loss, 5);
    EXPECT_EQ(s.gradient, (Values{3, -1}));
  }
  EXPECT_EQ(huber_loss(from({3}), from({0}), 1e300).item(), 4.5);  // more than f32 holds
  EXPECT_EQ(smooth_l1_loss(from({3}), from({0}), inf).item(), 0);
}

TEST(Losses, KlDivergenceDoesNotHideTargetsThatAreNoProbabilities) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Values losses = kl_div(from({-1, -1, -1}, {}, Dtype::f64), from({nan, -0.5, 0}, {}, Dtype::f64), Reduction::none).to_vector<double>();
  EXPECT_TRUE(std::isnan(losses[0]));
  EXPECT_TRUE(std::isnan(losses[1]));
  EXPECT_EQ(losses[2], 0);
}

}  // namespace
}  // namespace spool
