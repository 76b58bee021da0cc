// Training by slices and in full gives one and the same curve: slim acceptance check 16 on the trainer's own steps and on text.
#include <cmath>

#include "../../support.h"
#include "support.h"
#include "train/dataset.h"
#include "train/step.h"

namespace spool::train::testing {
namespace {

struct Curve {
  std::vector<double> losses, parameters;
};

Curve train(RunConfig config, Mode mode, int64_t chunk) {
  config.train.mode = mode;
  config.train.chunk = chunk;
  const Dataset data = Dataset::open(config.data, options_of(config));
  const auto model = make_model(config);
  const auto optimizer = make_optimizer(config, *model);
  Curve curve;
  for (int64_t step = 0; step < config.train.steps; ++step) {
    const StepResult result = train_step(config, *model, *optimizer, feed(config, data.train(step)), step);
    EXPECT_FALSE(result.skipped);
    curve.losses.push_back(result.loss);
  }
  for (const auto& [name, parameter] : model->named_parameters()) {
    const auto values = parameter.to_vector<double>();
    curve.parameters.insert(curve.parameters.end(), values.begin(), values.end());
  }
  return curve;
}

/// Largest relative difference of losses, and of all parameters as one vector.
std::pair<double, double> distance(const Curve& a, const Curve& b) {
  double loss = 0, difference = 0, norm = 0;
  for (size_t i = 0; i < b.losses.size(); ++i) loss = std::max(loss, std::fabs(a.losses[i] - b.losses[i]) / b.losses[i]);
  for (size_t i = 0; i < b.parameters.size(); ++i) {
    difference += (a.parameters[i] - b.parameters[i]) * (a.parameters[i] - b.parameters[i]);
    norm += b.parameters[i] * b.parameters[i];
  }
  return {loss, std::sqrt(difference / norm)};
}

/// 20 steps of enwik8-small in f64, on enwik8 where it is at hand.
RunConfig twenty_steps() {
  RunConfig config = resolve({.preset = "enwik8-small", .file = {}, .hf = {}, .settings = {}});
  const auto prefix = spool::test::data_path("enwik8/enwik8.prefix");
  config.data.path = fs::exists(prefix) ? prefix.string() : SPOOL_SOURCE_DIR;
  config.train.dtype = Dtype::f64;
  config.train.steps = 20;
  config.optim.warmup = 5;  // so that the steps are not all tiny
  return config;
}

void expect_one_curve(const RunConfig& config, int64_t chunk) {
  ASSERT_NE((config.data.seq - 1) % chunk, 0) << "the last slice is to be shorter";
  const Curve full = train(config, Mode::full, chunk), chunked = train(config, Mode::chunked, chunk);
  const auto [loss, parameters] = distance(chunked, full);
  EXPECT_LT(full.losses.back(), full.losses.front() - 0.2) << "the steps must change something";
  EXPECT_LE(loss, 1e-10);
  EXPECT_LE(parameters, 1e-10);
  ::testing::Test::RecordProperty("losses", std::to_string(loss * 1e13) + "e-13");
  ::testing::Test::RecordProperty("parameters", std::to_string(parameters * 1e13) + "e-13");
}

TEST(Trajectory, SlicesAndTheWholeSequenceTrainAlike) {
  SKIP_IN_SLOW_BUILD();
  RunConfig config = twenty_steps();
  config.model.performer.d_model /= 4;
  config.model.performer.d_ff /= 4;
  config.data.seq /= 4;
  expect_one_curve(config, 75);
}

TEST(Trajectory, SlicesAndTheWholeSequenceTrainAlikeAtFullSizeNightly) { expect_one_curve(twenty_steps(), 300); }

TEST(Trajectory, FineTuningDoesNotJump) {
  SKIP_IN_SLOW_BUILD();
  RunConfig config = twenty_steps();
  config.model.performer.d_model /= 4;
  config.model.performer.d_ff /= 4;
  config.data.seq /= 8;
  const Curve full = train(config, Mode::full, 50), tuned = train(config, Mode::finetune, 50);
  const size_t half = full.losses.size() / 2;
  for (size_t i = 0; i < half; ++i) EXPECT_EQ(tuned.losses[i], full.losses[i]) << "the first half is full";
  EXPECT_LE(std::fabs(tuned.losses[half] - full.losses[half]), 1e-6 * full.losses[half]);
  EXPECT_LE(distance(tuned, full).second, 1e-10);
}

}  // namespace
}  // namespace spool::train::testing
