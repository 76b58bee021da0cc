// Gradient accumulation: a step of A parts of B sequences is the step of one part of A·B, whatever the masks, and is planned to the byte.
#include <cmath>

#include "../../support.h"
#include "support.h"
#include "train/step.h"

namespace spool::train::testing {
namespace {

RunConfig small(int64_t accumulate, int64_t batch) {
  RunConfig config;
  config.model.performer = {.d_model = 16, .layers = 2, .heads = 2, .d_ff = 32};
  config.data = {.task = Task::copy, .seq = 24, .batch = batch};
  config.train.accumulate = accumulate;
  config.train.dtype = Dtype::f64;
  config.optim.name = OptimizerName::adamw;
  config.optim.lr = 1e-2;
  config.optim.clip = 1;
  validate(config);
  return config;
}

/// Four copying sequences of which row r counts the last 1 + 3r targets.
Batch uneven(const RunConfig& config, int64_t step) {
  Batch batch = Dataset::open(config.data, options_of(config)).train(step);
  batch.scored = 0;
  for (int64_t row = 0; row < batch.rows; ++row)
    for (int64_t at = 0; at < batch.seq; ++at) {
      auto& counts = batch.mask[size_t(row * batch.seq + at)];
      counts = at >= batch.seq - 1 - 3 * row;
      batch.scored += counts;
    }
  return batch;
}

struct Outcome {
  std::vector<double> losses, norms, parameters;
};
using Change = std::function<Feed(Feed)>;
Outcome three_steps(const RunConfig& config, const Change& change = [](Feed f) { return f; }) {
  const auto model = make_model(config);
  const auto optimizer = make_optimizer(config, *model);
  Outcome out;
  for (int64_t step = 0; step < 3; ++step) {
    const StepResult result = train_step(config, *model, *optimizer, change(feed(config, uneven(config, step))), step);
    out.losses.push_back(result.loss);
    out.norms.push_back(result.grad_norm);
  }
  for (const auto& [name, parameter] : model->named_parameters()) {
    const auto values = parameter.to_vector<double>();
    out.parameters.insert(out.parameters.end(), values.begin(), values.end());
  }
  return out;
}
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return a.size() == b.size() ? largest : 1e300;
}

TEST(Accumulation, PartsAddUpToTheLargeBatchWithUnequalMasks) {
  const Outcome whole = three_steps(small(1, 4));
  for (const auto& [accumulate, batch] : {std::pair(4, 1), std::pair(2, 2)}) {
    const Outcome parts = three_steps(small(accumulate, batch));
    EXPECT_LE(largest_difference(parts.losses, whole.losses), 1e-12);
    EXPECT_LE(largest_difference(parts.norms, whole.norms), 1e-12);
    EXPECT_LE(largest_difference(parts.parameters, whole.parameters), 1e-12);
  }
}

TEST(Accumulation, DividingByEachPartsOwnCountIsNoticed) {
  const Change own_count = [](Feed f) {
    return [f = std::move(f)](int64_t part) {
      nn::TokenBatch batch = f(part);
      batch.scored = 4 * (1 + 3 * part);  // its mean, a quarter of it for each of the four
      return batch;
    };
  };
  const Outcome whole = three_steps(small(1, 4)), wrong = three_steps(small(4, 1), own_count);
  EXPECT_GT(largest_difference(wrong.losses, whole.losses), 1e-3);
  EXPECT_GT(largest_difference(wrong.parameters, whole.parameters), 1e-3);
}

TEST(Accumulation, TextIsReadInTheSameOrder) {
  const TemporaryDirectory dir;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += char('a' + i * i % 26);
  DataConfig data{.path = dir.write("text", text).string(), .seq = 10, .batch = 4};
  for (const Order order : {Order::sequential, Order::shuffled}) {
    data.order = order;
    data.batch = 4;
    const Dataset whole = Dataset::open(data, {});
    data.batch = 1;
    const Dataset parts = Dataset::open(data, {.accumulate = 4});
    for (const int64_t step : {0, 1, 66, 67, 68, 200}) EXPECT_EQ(parts.train(step).tokens, whole.train(step).tokens) << step;
  }
}

TEST(Accumulation, ThePlanIsTheRun) {
  for (const bool chunked : {false, true}) {
    RunConfig config = small(3, 2);
    config.train.dtype = Dtype::f32;
    if (chunked) config.train.chunk = 7;
    const auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    const Dataset data = Dataset::open(config.data, options_of(config));
    const auto model = make_model(config);
    const auto optimizer = make_optimizer(config, *model);
    optimizer->prepare();
    const Plan planned = plan_step(config, chunked).step;
    for (const int64_t step : {0, 1}) {
      const Plan run = record_plan(ledger, [&] { train_step(config, *model, *optimizer, feed(config, data.train(step)), step); });
      EXPECT_EQ(first_difference(planned.events, run.events), "");
      EXPECT_EQ(planned.base, run.base);
      EXPECT_EQ(planned.peak, run.peak);
    }
    RunConfig one = config;
    one.train.accumulate = 1;
    const Plan single = plan_step(one, chunked).step;
    EXPECT_GT(planned.events.size(), 2 * single.events.size());
    EXPECT_LT(planned.peak, single.peak + single.peak / 4) << "parts take turns; only their gradient stays";
  }
}

}  // namespace
}  // namespace spool::train::testing
