// The plan of a training step against the step as it runs, for every preset and every kind of step: the same events, in order.
#include <spool/autograd/checkpoint.h>
#include <spool/autograd/tape.h>
#include <spool/optim/clip.h>

#include "../../support.h"
#include "support.h"
#include "train/presets.h"
#include "train/step.h"

namespace spool::train::testing {
namespace {

/// A preset at a size whose step runs in milliseconds: an eighth of the widths, a 32nd of the length, the rest as it is.
RunConfig shrunk(const Preset& preset) {
  RunConfig config = resolve({.preset = std::string(preset.name), .file = {}, .hf = {}, .settings = {}});
  config.model.performer.d_model /= 8;
  config.model.performer.d_ff /= 8;
  config.model.llama.hidden_size /= 8;
  config.model.llama.num_attention_heads = 2;
  config.model.llama.num_key_value_heads = 1;
  config.model.gpt.n_embd /= 8;
  config.model.gpt.n_head = 2;
  config.data.seq = std::max<int64_t>(8, config.data.seq / 32);
  if (config.data.task == Task::text) config.data.path = SPOOL_SOURCE_DIR "/train";
  config.train.steps = 6;
  return config;
}

/// What the optimizer step of a run posts, step by step.
struct Trial {
  RunConfig config;
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  With<std::shared_ptr<Ledger>> on{&Ambient::ledger, ledger};
  Dataset data = Dataset::open(config.data, options_of(config));
  std::unique_ptr<nn::LanguageModel> model = make_model(config);
  std::unique_ptr<Optimizer> optimizer = make_optimizer(config, *model);
  explicit Trial(const RunConfig& c) : config(c) {}
  Plan step(int64_t index) {
    return record_plan(ledger, [&] {
      train_step(config, *model, *optimizer, feed(config, data.train(index)), index);
    });
  }
};

void expect_same(const Plan& planned, const Plan& run, const std::string& what) {
  EXPECT_EQ(first_difference(planned.events, run.events), "") << what;
  EXPECT_EQ(planned.base, run.base) << what;
  EXPECT_EQ(planned.peak, run.peak) << what;
  EXPECT_GT(run.events.size(), 50u) << what;
}

TEST(PlanIsRun, EveryTextPresetHasAClosedForm) {
  for (const Preset& preset : presets()) {
    RunConfig config = shrunk(preset);
    if (config.data.task != Task::text) continue;
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      for (const nn::Recompute recompute : {nn::Recompute::none, nn::Recompute::block}) {
        if (recompute != nn::Recompute::none && config.model.type == ModelType::performer) continue;
        config.train.dtype = dtype;
        config.train.recompute = recompute;
        for (const bool chunked : {false, true}) {
          if (chunked && config.model.type != ModelType::performer) continue;
          config.train.chunk = chunked ? std::optional<int64_t>(7) : std::nullopt;
          const auto known = closed_form(config, chunked);
          ASSERT_TRUE(known.has_value()) << preset.name;
          EXPECT_EQ(known->peak.bytes, plan_step(config, chunked).step.peak) << preset.name << (chunked ? " in slices" : "");
          EXPECT_EQ(known->parameters, make_model(config, meta())->parameter_count()) << preset.name;
        }
      }
    }
  }
}

TEST(PlanIsRun, EveryPresetPostsThePlannedEvents) {
  for (const Preset& preset : presets()) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
      if (::spool::test::slow_build && dtype != Dtype::f32) continue;
      RunConfig config = shrunk(preset);
      config.train.dtype = dtype;
      const std::string what = std::string(preset.name) + ", " + std::string(dtype_name(dtype));
      {
        config.train.mode = Mode::full;
        Trial run(config);
        run.step(0);
        const Plan planned = plan_step(config, false).step;
        for (const int64_t step : {1, 2}) expect_same(planned, run.step(step), what + ", full");
        EXPECT_EQ(plan_run(config).step.peak, planned.peak);
      }
      if (config.model.type != ModelType::performer) continue;
      for (const StatePolicy policy : {StatePolicy::subtract, StatePolicy::subtract64, StatePolicy::store}) {
        for (const int64_t chunk : {int64_t(1), config.data.seq / 3, config.data.seq - 1, 2 * config.data.seq}) {
          if (dtype != Dtype::f32 && (policy != StatePolicy::subtract64 || chunk != config.data.seq / 3)) continue;
          config.train.mode = Mode::chunked;
          config.train.chunk = chunk;
          config.train.state = policy;
          Trial run(config);
          run.step(0);
          expect_same(plan_step(config, true).step, run.step(1), what + ", C = " + std::to_string(chunk) + ", policy " + std::to_string(int(policy)));
        }
      }
    }
  }
}

TEST(PlanIsRun, WhateverIsRecomputed) {
  for (const Preset& preset : presets()) {
    RunConfig config = shrunk(preset);
    if (config.model.type == ModelType::performer) continue;
    int64_t peak = 0;
    for (const nn::Recompute recompute : {nn::Recompute::none, nn::Recompute::attention, nn::Recompute::block, nn::Recompute::first_blocks(1), nn::Recompute::groups(2), nn::Recompute::groups(2, true)}) {
      for (const int64_t rows : {0, 5}) {
        config.train.recompute = recompute;
        config.train.loss_chunk = config.train.feed_forward_chunk = rows;
        config.train.accumulate = 2;
        Trial run(config);
        run.step(0);
        const Plan planned = plan_step(config, false).step;
        expect_same(planned, run.step(1), std::string(preset.name) + ", recompute " + to_string(recompute) + ", rows " + std::to_string(rows));
        if (!peak) peak = planned.peak;
        else EXPECT_LT(planned.peak, peak) << "less than when everything is kept";
      }
    }
  }
}

TEST(PlanIsRun, FineTuningFollowsTheTwoPlansInTurn) {
  for (const Preset& preset : presets()) {
    RunConfig config = shrunk(preset);
    if (config.model.type != ModelType::performer) continue;
    config.train.mode = Mode::finetune;
    config.train.chunk = config.data.seq / 5;
    const Plan full = plan_step(config, false).step, chunked = plan_step(config, true).step;
    Trial run(config);
    run.step(0);
    int64_t highest = 0;
    for (int64_t step = 1; step < config.train.steps; ++step) {
      const Plan measured = run.step(step);
      expect_same(config.train.chunked_at(step) ? chunked : full, measured, std::string(preset.name) + ", step " + std::to_string(step));
      highest = std::max(highest, measured.peak);
    }
    EXPECT_EQ(plan_run(config).step.peak, highest) << preset.name;
  }
}

/// A step whose loss is computed again in backward, with the preset's optimizer and clipping.
Plan recomputed_step(const RunConfig& config, Device device, int64_t chunk) {
  const auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  const auto model = make_model(config, device);
  const auto optimizer = make_optimizer(config, *model);
  Dataset data = Dataset::open(config.data, options_of(config));
  const auto step = [&] {
    const nn::TokenBatch batch = device.meta ? meta_feed(config)(0) : to_tensors(data.train(0));
    {
      Tape tape;
      tape.backward(checkpoint("step", [&](const Tensors&) { return Tensors{model->training_loss(batch, {.chunk = chunk ? std::optional(chunk) : std::nullopt})}; }, {})[0]);
    }
    clip_grad_norm(model->named_parameters(), 1.0);
    optimizer->step();
    optimizer->zero_grad();
  };
  step();
  return record_plan(ledger, step);
}

TEST(PlanIsRun, RecomputedStepsToo) {
  for (const Preset& preset : presets()) {
    const RunConfig config = shrunk(preset);
    for (const int64_t chunk : {int64_t(0), config.data.seq / 3}) {
      if (chunk && config.model.type != ModelType::performer) continue;
      expect_same(recomputed_step(config, meta(), chunk), recomputed_step(config, cpu, chunk), std::string(preset.name) + ", C = " + std::to_string(chunk));
    }
  }
}

}  // namespace
}  // namespace spool::train::testing
