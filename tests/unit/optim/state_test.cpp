// Optimizer state through a file: the run that stopped and resumed has the bits of the run that did not.
#include <spool/optim.h>
#include <spool/tensor.h>

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace spool::test {
namespace {

constexpr int64_t size = 300;

Tensor normal(uint64_t seed, Dtype dtype) {
  Tensor t = empty({size}, Dtype::f32);
  Generator generator(seed);
  for (int64_t i = 0; i < size; ++i) t.data<float>()[i] = float(generator.normal());
  Tensor out = empty({size}, dtype);
  copy(out, t);
  return out;
}

/// Parameters of three types, and steps whose gradients depend on the step number alone.
struct Training {
  NamedTensors parameters;
  Training() {
    uint64_t seed = 0;
    for (const auto& [name, dtype] : {std::pair("single", Dtype::f32), {"double", Dtype::f64}, {"half", Dtype::bf16}})
      parameters.emplace_back(name, normal(++seed, dtype).requires_grad(true));
  }
  void steps(Optimizer& optimizer, int64_t from, int64_t to) const {
    const Schedule schedule = Schedule::cosine({.lr = 1e-2, .warmup = 2, .steps = 10});
    for (int64_t step = from; step < to; ++step) {
      uint64_t seed = 100 * uint64_t(step + 1);
      for (const auto& [name, p] : parameters) p.set_grad(normal(++seed, p.dtype()));
      optimizer.step(schedule(step));
    }
  }
};

using Make = std::function<std::unique_ptr<Optimizer>(const NamedTensors&)>;

const std::pair<const char*, Make> rules[] = {
    {"sgd", [](const NamedTensors& p) { return std::make_unique<Sgd>(p, SgdOptions{.momentum = .9}); }},
    {"adam", [](const NamedTensors& p) { return std::make_unique<Adam>(p, AdamOptions{.weight_decay = .1}); }},
    {"adamw", [](const NamedTensors& p) { return std::make_unique<AdamW>(p); }},
};

TEST(OptimizerState, ResumeThroughAFileIsExactInAnyOrderOfLoading) {
  const std::string directory = testing::TempDir(), model = directory + "spool_state_model", state = directory + "spool_state_optimizer";
  for (const auto& [name, make] : rules) {
    const Training whole;
    const auto optimizer = make(whole.parameters);
    whole.steps(*optimizer, 0, 10);
    for (const bool state_first : {false, true}) {
      {
        const Training half;
        const auto stopped = make(half.parameters);
        half.steps(*stopped, 0, 5);
        save_safetensors(model, half.parameters);
        save_safetensors(state, stopped->state());
      }
      const Training rest;
      const auto resumed = make(rest.parameters);
      if (state_first) resumed->load_state(load_safetensors(state));
      for (const auto& [key, tensor] : load_safetensors(model))
        for (const auto& [own, p] : rest.parameters)
          if (own == key) copy(p, tensor);
      if (!state_first) resumed->load_state(load_safetensors(state));
      EXPECT_EQ(resumed->step_count(), 5);
      rest.steps(*resumed, 5, 10);
      EXPECT_EQ(resumed->lr(), optimizer->lr());
      const NamedTensors a = optimizer->state(), b = resumed->state();
      ASSERT_EQ(a.size(), b.size());
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(std::memcmp(a[i].second.raw(), b[i].second.raw(), size_t(a[i].second.nbytes())), 0) << name << ": " << a[i].first;
      }
      for (size_t i = 0; i < 3; ++i) {
        const Tensor &x = whole.parameters[i].second, &y = rest.parameters[i].second;
        EXPECT_EQ(std::memcmp(x.raw(), y.raw(), size_t(x.nbytes())), 0) << name << ": " << whole.parameters[i].first;
      }
    }
  }
  std::filesystem::remove(model);
  std::filesystem::remove(state);
}

TEST(OptimizerState, AStateThatDoesNotFitIsRefusedWhole) {
  const Training run;
  Adam adam(run.parameters);
  run.steps(adam, 0, 2);
  const auto refused = [&](NamedTensors state) -> std::string {
    Adam other(run.parameters);
    try {
      other.load_state(state);
    } catch (const IoError& error) {
      EXPECT_EQ(other.state().size(), 2u) << "nothing was taken over";
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refused(adam.state()), "accepted");
  NamedTensors state = adam.state();
  for (auto& [name, tensor] : state) {
    if (name == "single.moment1") name = "single.moment7";
    if (name == "double.moment2") tensor = zeros({3});
  }
  const std::string text = refused(state);
  for (const char* part :
       {"missing single.moment1 f32[300]", "double.moment2 is f32[3] on cpu there and f64[300] here", "unexpected single.moment7"}) {
    EXPECT_NE(text.find(part), text.npos) << text;
  }
  state = adam.state();
  std::erase_if(state, [](const auto& item) { return item.first.starts_with("half."); });
  EXPECT_NE(refused(state).find("missing half.step"), std::string::npos) << "moments that are silently cold would spoil the run";
  Adam lenient(run.parameters);
  lenient.load_state(state, {.strict = false});
  EXPECT_EQ(lenient.step_count(), 2);
  Sgd sgd(run.parameters);
  EXPECT_THROW(sgd.load_state(adam.state()), IoError) << "the state of another rule";
}

TEST(OptimizerState, TheStateBeforeTheFirstStepIsCold) {
  const Training run;
  Adam fresh(run.parameters), used(run.parameters);
  run.steps(used, 0, 1);
  used.load_state(fresh.state());
  EXPECT_EQ(used.step_count(), 0);
  EXPECT_EQ(used.state().size(), 2u);
}

}  // namespace
}  // namespace spool::test
