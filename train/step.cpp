#include "train/step.h"

#include <spool/autograd/tape.h>
#include <spool/optim/adam.h>
#include <spool/optim/clip.h>
#include <spool/optim/schedule.h>
#include <spool/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace spool::train {

std::unique_ptr<nn::Performer> make_model(const RunConfig& config, Device device) {
  return std::make_unique<nn::Performer>(nn::root({.seed = uint64_t(config.train.seed), .dtype = config.train.dtype, .device = device}), config.model);
}

std::unique_ptr<Optimizer> make_optimizer(const RunConfig& config, const nn::Performer& model) {
  const OptimConfig& o = config.optim;
  switch (o.name) {
    case OptimizerName::sgd: return std::make_unique<Sgd>(model.named_parameters(), SgdOptions{.lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay});
    case OptimizerName::adam:
      return std::make_unique<Adam>(model.named_parameters(), AdamOptions{.lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay});
    case OptimizerName::adamw: break;
  }
  return std::make_unique<AdamW>(model.named_parameters(), AdamWOptions{.lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay});
}

double learning_rate(const RunConfig& config, int64_t step) {
  const OptimConfig& o = config.optim;
  const auto schedule = [&] {
    switch (o.schedule) {
      case ScheduleName::step: return Schedule::step({.lr = o.lr, .factor = o.step_factor, .after = o.step_at, .warmup = o.warmup});
      case ScheduleName::cosine:  // a run that ends within its warm-up has no descent
        return Schedule::cosine({.lr = o.lr, .warmup = o.warmup, .steps = std::max(config.train.steps, o.warmup + 1), .min_lr = o.min_lr});
      case ScheduleName::constant: break;
    }
    return Schedule::constant(o.lr, o.warmup);
  };
  return schedule()(step);
}

nn::TokenBatch to_tensors(Batch batch) {
  const auto tensor = [&](std::vector<uint8_t> bytes, Dtype dtype) {
    Tensor t = empty({batch.rows, batch.seq}, dtype);
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(t.raw()));
    return t;
  };
  nn::TokenBatch out{tensor(std::move(batch.tokens), Dtype::u8), {}, batch.scored};
  if (!batch.mask.empty()) out.mask = tensor(std::move(batch.mask), Dtype::boolean);
  return out;
}

nn::TokenBatch meta_batch(const RunConfig& config) {
  const Shape shape{config.data.batch, config.data.seq};
  nn::TokenBatch out = nn::token_batch(empty(shape, Dtype::u8, meta()));
  if (config.data.task == Task::copy) out.mask = empty(shape, Dtype::boolean, meta());
  return out;
}

StepResult train_step(const RunConfig& config, nn::Performer& model, Optimizer& optimizer, const nn::TokenBatch& batch, int64_t step) {
  const bool planned = batch.tokens.device().meta;
  StepResult result{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN(), false};
  const With random(&Ambient::random, RandomKey(uint64_t(config.train.seed)).fold("step").fold(uint64_t(step)));
  {
    Tape tape;
    const Tensor loss = config.train.chunked_at(step) ? model.chunked_loss(batch, *config.train.chunk, config.train.state) : model.loss(batch);
    if (!planned) result.loss = loss.item();
    tape.backward(loss);
  }
  const double norm = clip_grad_norm(model.named_parameters(), config.optim.clip.value_or(std::numeric_limits<double>::max()));
  if (!planned) {
    result.grad_norm = norm;
    result.skipped = !std::isfinite(result.loss) || !std::isfinite(norm);
  }
  if (!result.skipped) {
    optimizer.set_lr(learning_rate(config, step));
    optimizer.step();
  }
  optimizer.zero_grad();
  return result;
}

StepPlan plan_step(const RunConfig& config, bool chunked) {
  RunConfig planned = config;
  planned.train.mode = chunked ? Mode::chunked : Mode::full;
  const auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  ledger->recording(true);
  StepPlan out;
  const auto model = make_model(planned, meta());
  const auto optimizer = make_optimizer(planned, *model);
  optimizer->prepare();
  out.history = ledger->take_events();
  out.step = record_plan(ledger, [&] {
    const nn::TokenBatch batch = meta_batch(planned);
    train_step(planned, *model, *optimizer, batch, 0);
  });
  out.history.insert(out.history.end(), out.step.events.begin(), out.step.events.end());
  return out;
}

StepPlan plan_run(const RunConfig& config) {
  const bool first = config.train.chunked_at(0), last = config.train.chunked_at(config.train.steps - 1);
  StepPlan plan = plan_step(config, first);
  if (first == last) return plan;
  StepPlan other = plan_step(config, last);
  return plan.step.peak >= other.step.peak ? std::move(plan) : std::move(other);
}

}  // namespace spool::train
