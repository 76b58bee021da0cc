// The update rules against numbers worked out by hand and by an independent loop; state, resume, errors, memory.
#include <spool/optim.h>
#include <spool/tensor.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

namespace spool::test {
namespace {

Tensor parameter(std::initializer_list<double> values, Dtype dtype = Dtype::f64) {
  Tensor t = from(values, {}, dtype);
  t.requires_grad(true);
  return t;
}

void give(const Tensor& p, std::initializer_list<double> values) { p.set_grad(from(values, {}, p.dtype())); }

/// w after one step for each gradient, from w = 1.
template <class O, class Config>
double run(Config config, std::initializer_list<double> gradients) {
  const Tensor w = parameter({1});
  O optimizer({{"w", w}}, config);
  for (const double g : gradients) {
    give(w, {g});
    optimizer.step();
  }
  return w.item();
}

Tensor random(const Shape& shape, uint64_t seed, Dtype dtype) {
  Tensor t = empty(shape, dtype);
  Generator generator(seed);
  visit(dtype, [&]<class T>() {
    for (int64_t i = 0; i < t.numel(); ++i) t.data<T>()[i] = static_cast<T>(static_cast<float>(generator.normal()));
  });
  return t;
}

template <class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}
#define EXPECT_MESSAGE(expression, text) \
  EXPECT_NE(message([&] { expression; }).find(text), std::string::npos) << message([&] { expression; })

bool same_bits(const Tensor& a, const Tensor& b) { return std::memcmp(a.raw(), b.raw(), size_t(a.nbytes())) == 0; }

constexpr std::initializer_list<double> four = {.5, -.3, .2, .4};

TEST(Adam, DecayIsL2InAdamAndDecoupledInAdamW) {
  EXPECT_NEAR((run<AdamW>(AdamWOptions{.lr = .1, .weight_decay = .01}, {.1})), 0.899000009999999, 1e-15);
  EXPECT_NEAR((run<Adam>(AdamOptions{.lr = .1, .weight_decay = .01}, {.1})), 0.9000000090909083, 1e-15);
}

TEST(Adam, EpsIsAddedAfterTheBiasCorrection) { EXPECT_NEAR((run<Adam>(AdamOptions{.lr = 1, .eps = 1e-3}, {1e-3})), 0.5, 1e-14); }

TEST(Adam, FourSteps) {
  const double expected[] = {0.9890000002, 0.9860960198939775, 0.9816356470589943, 0.975101455649162};
  const Tensor w = parameter({1});
  AdamW adam({{"w", w}}, {.lr = .01, .weight_decay = .1});
  for (size_t i = 0; i < 4; ++i) {
    give(w, {four.begin()[i]});
    adam.step();
    EXPECT_NEAR(w.item(), expected[i], i ? 1e-15 : 1e-10);
  }
  EXPECT_EQ(adam.step_count(), 4);
}

TEST(Adam, ResumeIsExactAndTheNumbersOfABadResumeAreNot) {
  enum class Mistake { none, counter, moments };
  const auto resumed = [](Mistake mistake) {
    const Tensor w = parameter({1});
    const AdamWOptions config{.lr = .01, .weight_decay = .1};
    AdamW first({{"w", w}}, config);
    for (size_t i = 0; i < 2; ++i) {
      give(w, {four.begin()[i]});
      first.step();
    }
    AdamW second({{"w", w}}, config);
    NamedTensors state = first.state();
    for (auto& [name, tensor] : state) {
      if (mistake == Mistake::counter && name == "w.step") fill(tensor, 0);
      if (mistake == Mistake::moments && name.starts_with("w.moment")) fill(tensor, 0);
    }
    if (mistake == Mistake::moments) fill(state[2].second, 0);
    second.load_state(state);
    for (size_t i = 2; i < 4; ++i) {
      give(w, {four.begin()[i]});
      second.step();
    }
    return w.item();
  };
  EXPECT_EQ(resumed(Mistake::none), (run<AdamW>(AdamWOptions{.lr = .01, .weight_decay = .1}, four)));
  EXPECT_NEAR(resumed(Mistake::counter), 0.9715815467, 1e-10);
  EXPECT_NEAR(resumed(Mistake::moments), 0.9644829945, 1e-10);
}

TEST(Sgd, MomentumNesterovAndDecay) {
  EXPECT_NEAR((run<Sgd>(SgdOptions{.lr = .1}, {.5, -.3})), 1 - .05 + .03, 1e-15);
  EXPECT_NEAR((run<Sgd>(SgdOptions{.lr = .1, .weight_decay = .1}, {.5})), 1 - .1 * .6, 1e-15);
  EXPECT_NEAR((run<Sgd>(SgdOptions{.lr = .1, .momentum = .9}, {.5, -.3})), 1 - .05 - .1 * (.9 * .5 - .3), 1e-15);
  EXPECT_NEAR((run<Sgd>(SgdOptions{.lr = .1, .momentum = .9, .nesterov = true}, {.5, -.3})),
              1 - .1 * (.5 + .9 * .5) - .1 * (-.3 + .9 * (.9 * .5 - .3)), 1e-15);
  const Tensor w = parameter({1});
  Sgd plain({{"w", w}}, {.lr = .1});
  give(w, {1});
  plain.step();
  EXPECT_EQ(plain.state().size(), 3u) << "step, lr and w.step: without momentum there is nothing to keep";
}

TEST(Adagrad, FourStepsWithEveryOption) {  // numbers of PyTorch's Adagrad
  const double expected[] = {0.9199286272988214, 0.9377595333829584, 0.9200920785765663, 0.899723607297976};
  const Tensor w = parameter({1}), half = parameter({1}, Dtype::bf16);
  Adagrad adagrad({{"w", w}, {"half", half}}, {.lr = .1, .lr_decay = .5, .initial_accumulator = .2, .eps = 1e-3, .weight_decay = .1});
  for (size_t i = 0; i < 4; ++i) {
    give(w, {four.begin()[i]});
    half.set_grad(from({four.begin()[i]}, {}, Dtype::f32));
    adagrad.step();
    EXPECT_NEAR(w.item(), expected[i], 1e-15);
    EXPECT_NEAR(half.item(), expected[i], 0x1p-9 + 1e-6) << "the rounding of its f32 master";
  }
}

/// Against a plain loop in f64, at sizes around the block and the vector length.
TEST(Adam, EverySizeAndTypeFollowsTheFormula) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    for (const int64_t n : {1, 7, 33, 16384, 50'001}) {
      const Tensor w = random({n}, 1, dtype);
      w.requires_grad(true);
      std::vector<double> expected = w.to_vector<double>(), m(expected.size()), v(expected.size());
      AdamW adam({{"w", w}}, {.lr = 1e-2, .weight_decay = .1});
      for (int t = 1; t <= 3; ++t) {
        w.set_grad(random({n}, uint64_t(10 + t), dtype));
        const auto g = w.grad().to_vector<double>();
        for (size_t i = 0; i < g.size(); ++i) {
          m[i] = .9 * m[i] + .1 * g[i];
          v[i] = .999 * v[i] + .001 * g[i] * g[i];
          expected[i] =
              expected[i] * (1 - 1e-3) - 1e-2 * (m[i] / (1 - std::pow(.9, t))) / (std::sqrt(v[i] / (1 - std::pow(.999, t))) + 1e-8);
        }
        adam.step();
      }
      const NamedTensors state = adam.state();
      const bool half = dtype_size(dtype) == 2;
      const auto exact = (half ? state.back().second : w).to_vector<double>(), seen = w.to_vector<double>();
      for (size_t i = 0; i < exact.size(); ++i) {
        ASSERT_NEAR(exact[i], expected[i], dtype == Dtype::f64 ? 1e-14 : 2e-6) << dtype_name(dtype) << " element " << i << " of " << n;
        const double rounded = dtype == Dtype::bf16 ? double(bfloat16(float(exact[i]))) : double(float16(float(exact[i])));
        ASSERT_EQ(seen[i], half ? rounded : exact[i]);
      }
      EXPECT_EQ(state[3].second.dtype(), dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32);
    }
  }
}

TEST(Adam, SmallUpdatesReachABf16ParameterThroughItsMaster) {
  const Tensor w = parameter({1}, Dtype::bf16);
  Sgd sgd({{"w", w}}, {.lr = 1e-3});
  for (int i = 0; i < 100; ++i) {
    w.set_grad(from({1.0}));  // f32 gradients are welcome
    sgd.step();
  }
  EXPECT_NEAR(w.item(), 0.9, 4e-3) << "without a master each step would round back to 1";
  fill(w, 2);
  w.set_grad(from({1.0}));
  sgd.step(0.5);
  EXPECT_EQ(w.item(), 1.5) << "a value written from outside wins over the master";
}

TEST(Adam, ABf16RunWhoseUpdatesAreFarBelowItsResolutionMovesAsInF64) {
  // A step of 2e-5 is a 200th of the spacing of bf16 just below 1.
  constexpr int steps = 1000;
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    const Tensor w = parameter({1}, dtype);
    AdamW adam({{"w", w}}, {.lr = 2e-5, .weight_decay = .1});
    double expected = 1, m = 0, v = 0;
    Generator random(3);
    for (int t = 1; t <= steps; ++t) {
      w.set_grad(from({.3 + .1 * random.normal()}, {}, dtype));
      const double g = w.grad().item();  // as the parameter's type has it
      m = .9 * m + .1 * g;
      v = .999 * v + .001 * g * g;
      expected = expected * (1 - 2e-5 * .1) - 2e-5 * (m / (1 - std::pow(.9, t))) / (std::sqrt(v / (1 - std::pow(.999, t))) + 1e-8);
      adam.step();
      if (t == 3) {
        EXPECT_EQ(w.item(), 1) << "three steps do not show";
      }
    }
    EXPECT_LT(expected, .983);
    EXPECT_NEAR(adam.state().back().second.item(), expected, 6e-5) << "the master, rounded a thousand times to the 6e-8 of f32 below 1";
    EXPECT_NEAR(w.item(), expected, dtype == Dtype::bf16 ? 2e-3 : 3e-4) << "and its rounding; without a master it would stand at 1";
  }
}

TEST(Optimizer, SameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  Tensors results;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const Tensor w = random({100'003}, 1, Dtype::f32);
    w.requires_grad(true);
    Adam adam({{"w", w}});
    for (uint64_t t = 0; t < 3; ++t) {
      w.set_grad(random({100'003}, t + 2, Dtype::f32));
      clip_grad_norm(adam.parameters(), 1);
      adam.step();
    }
    results.push_back(w);
  }
  set_num_threads(before);
  EXPECT_TRUE(same_bits(results[0], results[1]));
  EXPECT_TRUE(same_bits(results[0], results[2]));
}

std::vector<Event> bytes_events(std::vector<Event> events) {
  std::erase_if(events, [](const Event& e) { return e.kind == Event::Kind::phase; });
  return events;
}

TEST(Optimizer, PostsItsStateAndNothingElseAlsoOnMeta) {
  std::vector<Event> lists[2];
  for (const Device device : {cpu, meta()}) {
    auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    const Tensor a = zeros({40, 50}, Dtype::f32, device).requires_grad(true), b = zeros({7}, Dtype::bf16, device).requires_grad(true);
    a.set_grad(zeros({40, 50}, Dtype::f32, device));
    b.set_grad(zeros({7}, Dtype::bf16, device));
    Adam adam({{"a", a}, {"b", b}});
    ledger->recording(true);
    adam.step(1e-3);
    const size_t first = bytes_events(ledger->events()).size();
    EXPECT_EQ(ledger->live_by_category()[Category::optimizer], 2000 * 8 + 7 * 12);
    adam.step(1e-3);
    EXPECT_EQ(clip_grad_norm(adam.parameters(), 1), 0.0);
    adam.zero_grad();
    EXPECT_FALSE(a.grad().defined());
    lists[device.meta] = bytes_events(ledger->events());
    EXPECT_EQ(first, 5u);
    EXPECT_EQ(lists[device.meta].size(), 7u) << "the second step allocates nothing; two gradients are released";
    EXPECT_EQ(path_name(lists[device.meta][0].path), "a");
    EXPECT_STREQ(lists[device.meta][0].op, "adam");
  }
  EXPECT_EQ(lists[0], lists[1]);
}

TEST(Optimizer, PreparedTheFirstStepTakesNoMemory) {
  auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  const Tensor a = parameter({1, 2, 3}), frozen = parameter({4});
  frozen.requires_grad(false);
  Adam adam({{"a", a}, {"frozen", frozen}});
  adam.prepare();
  EXPECT_EQ(ledger->live_by_category()[Category::optimizer], 3 * 2 * 8) << "two f64 moments, none for the frozen one";
  give(a, {1, 1, 1});
  ledger->recording(true);
  adam.prepare();
  adam.step(1e-3);
  EXPECT_TRUE(bytes_events(ledger->events()).empty());
}

TEST(Optimizer, AStepBumpsTheVersionAndNamesTheWriter) {
  const Tensor w = parameter({1});
  const uint64_t before = w.storage()->version;
  AdamW adam({{"w", w}});
  give(w, {1});
  adam.step();
  EXPECT_EQ(w.storage()->version, before + 1);
  EXPECT_STREQ(w.storage()->writer, "adamw");
}

TEST(Optimizer, MissingGradientsAreListedAndFrozenParametersPassedOver) {
  const Tensor a = parameter({1}), b = parameter({2}), c = parameter({3});
  c.requires_grad(false);
  Adam strict({{"layers.0.a", a}, {"b", b}, {"c", c}});
  give(a, {1});
  EXPECT_MESSAGE(strict.step(), "adam: no gradient for b (1 of 2 parameters)");
  EXPECT_EQ(a.item(), 1);
  EXPECT_EQ(strict.step_count(), 0);
  Adam lenient({{"a", a}, {"b", b}, {"c", c}}, {.allow_missing = true});
  lenient.step();
  EXPECT_NE(a.item(), 1);
  EXPECT_EQ(b.item(), 2);
  c.requires_grad(true);
  give(b, {.5});
  give(c, {.5});
  lenient.step(.25);
  EXPECT_NEAR(c.item(), 2.75, 1e-7) << "unfrozen late, corrected as new";
  for (const Tensor& t : {a, b, c}) t.requires_grad(false);
  EXPECT_MESSAGE(lenient.step(), "none of the 3 parameters requires a gradient");
}

TEST(Optimizer, GradientsThatDoNotFit) {
  const Tensor w = from({{1, 2}, {3, 4}}).requires_grad(true);
  Adam adam({{"w", w}});
  w.set_grad(zeros({2, 2}, Dtype::f64));
  EXPECT_MESSAGE(adam.step(), "adam: parameter w is f32[2, 2], its gradient f64[2, 2]; convert the gradient to f32");
  w.set_grad(zeros_view({2, 2}));
  EXPECT_MESSAGE(adam.step(), "strides [0, 0]");
  w.set_grad(zeros({2, 2}, Dtype::f32, meta()));
  EXPECT_MESSAGE(adam.step(), "its gradient on meta(cpu)");
}

TEST(Optimizer, ConfigurationsOutOfRange) {
  const NamedTensors p{{"w", parameter({1})}};
  const double nan = std::nan("");
  EXPECT_MESSAGE(Adam(p, {.lr = nan}), "adam: lr must be finite");
  EXPECT_MESSAGE(Adam(p, {.lr = -1}), "at least 0, got -1");
  EXPECT_MESSAGE(Adam(p, {.beta1 = 1}), "adam: beta1 must be in [0, 1), got 1");
  EXPECT_MESSAGE(AdamW(p, {.beta2 = nan}), "adamw: beta2");
  EXPECT_MESSAGE(Adam(p, {.eps = 0}), "eps");
  EXPECT_MESSAGE(AdamW(p, {.weight_decay = -1}), "weight_decay");
  EXPECT_MESSAGE(Sgd(p, {.momentum = 1}), "momentum");
  EXPECT_MESSAGE(Sgd(p, {.nesterov = true}), "nesterov needs a momentum");
  EXPECT_MESSAGE(Sgd(NamedTensors{}), "sgd: no parameters");
  EXPECT_MESSAGE(Sgd({p[0], {"v", p[0].second}}), "parameter v is given twice");
  EXPECT_MESSAGE(Sgd({p[0], {"w", parameter({1})}}), "two parameters are named w");
  EXPECT_MESSAGE(Sgd({{"i", from(std::initializer_list<double>{1}, {}, Dtype::i64)}}), "parameter i is i64[1]; only float");
  EXPECT_MESSAGE(Sgd({{"t", from({{1, 2}, {3, 4}}).view_as({2, 2}, {1, 2}, 0)}}), "not contiguous");
}

}  // namespace
}  // namespace spool::test
