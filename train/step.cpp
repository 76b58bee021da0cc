#include "train/step.h"

#include <spool/autograd/tape.h>
#include <spool/optim/adam.h>
#include <spool/optim/clip.h>
#include <spool/optim/schedule.h>
#include <spool/optim/sgd.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace spool::train {

std::unique_ptr<nn::LanguageModel> make_model(const RunConfig& config, Device device) {
  return make_model(config.model, {.seed = uint64_t(config.train.seed), .dtype = config.train.dtype, .device = device});
}

std::unique_ptr<Optimizer> make_optimizer(const RunConfig& config, const nn::LanguageModel& model) {
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

nn::TokenBatch to_tensors(const Batch& batch) {
  const Shape shape{batch.rows, batch.seq};
  nn::TokenBatch out{empty(shape, batch.narrow ? Dtype::u8 : Dtype::i32), {}, batch.scored};
  visit(out.tokens.dtype(), [&]<class T>() {
    std::ranges::transform(batch.tokens, out.tokens.data<T>(), [](int32_t token) { return static_cast<T>(token); });
  });
  if (batch.mask.empty()) return out;
  out.mask = empty(shape, Dtype::boolean);
  std::ranges::copy(batch.mask, static_cast<uint8_t*>(out.mask.raw()));
  return out;
}

Feed feed(const RunConfig& config, Batch step) {
  return [rows = config.data.batch, step = std::move(step)](int64_t part) { return to_tensors(step.slice(part * rows, rows)); };
}

Feed meta_feed(const RunConfig& config) {
  return [&config](int64_t) {
    const Shape shape{config.data.batch, config.data.seq};
    nn::TokenBatch out = nn::token_batch(empty(shape, config.data.tokenizer.empty() ? Dtype::u8 : Dtype::i32, meta()));
    if (config.data.task == Task::copy) out.mask = empty(shape, Dtype::boolean, meta());
    return out;
  };
}

StepResult train_step(const RunConfig& config, nn::LanguageModel& model, Optimizer& optimizer, const Feed& feed, int64_t step) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const RandomKey key = RandomKey(uint64_t(config.train.seed)).fold("step").fold(uint64_t(step));
  bool planned = false;
  StepResult result{0, unknown, false};
  for (int64_t part = 0; part < config.train.accumulate; ++part) {
    const With random(&Ambient::random, part ? key.fold(uint64_t(part)) : key);
    const nn::TokenBatch batch = feed(part);
    planned = batch.tokens.device().meta;
    Tape tape;
    const Tensor loss = model.training_loss(batch, config.train.loss_options(step));
    result.loss += planned ? unknown : loss.item();
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
  StepPlan out{.chunked = chunked, .step = {}, .history = {}};
  const auto model = make_model(planned, meta());
  const auto optimizer = make_optimizer(planned, *model);
  optimizer->prepare();
  out.history = ledger->take_events();
  out.step = record_plan(ledger, [&] {
    train_step(planned, *model, *optimizer, meta_feed(planned), 0);
  });
  out.history.insert(out.history.end(), out.step.events.begin(), out.step.events.end());
  return out;
}

std::string peak_place(const StepPlan& plan) {
  int64_t live = plan.step.base;
  std::string_view phase;
  for (const Event& e : plan.step.events) {
    if (e.kind == Event::Kind::phase) phase = e.op;
    if (e.kind == Event::Kind::release) live -= e.bytes;
    if (e.kind != Event::Kind::allocate) continue;
    live += e.bytes;
    if (live < plan.step.peak) continue;
    std::string out = concat("in ", phase.empty() ? "forward" : phase);
    if (*e.op) out += concat(", ", e.op);
    if (e.path) out += concat(" in ", path_name(e.path));
    return out;
  }
  return "before the step";
}

namespace {
nn::StepSizes sizes_of(const RunConfig& config, bool chunked) {
  const TrainConfig& t = config.train;
  nn::StepSizes sizes{.batch = config.data.batch, .length = config.data.seq - 1, .dtype = t.dtype, .byte_tokens = config.data.tokenizer.empty(),
                      .masked = config.data.task == Task::copy, .accumulate = t.accumulate, .loss = t.loss_options(0)};
  sizes.loss.chunk = chunked ? t.chunk : std::nullopt;
  if (config.optim.name == OptimizerName::sgd) sizes.optimizer = config.optim.momentum != 0 ? nn::OptimizerState::momentum : nn::OptimizerState::none;
  return sizes;
}
}  // namespace

std::optional<nn::Estimate> closed_form(const RunConfig& config, bool chunked) {
  try {
    return ModelConfig::chosen(config.model, [&](const auto& family) { return nn::estimate(family, sizes_of(config, chunked)); });
  } catch (const ConfigError&) {
    return {};
  }
}

std::vector<nn::ModuleEstimate> closed_form_modules(const RunConfig& config) {
  nn::StepSizes sizes = sizes_of(config, false);
  sizes.loss = {.attention = config.train.attention};
  return ModelConfig::chosen(config.model, [&](const auto& family) { return nn::module_estimates(family, sizes); });
}

StepPlan plan_run(const RunConfig& config) {
  const bool first = config.train.chunked_at(0), last = config.train.chunked_at(config.train.steps - 1);
  StepPlan plan = plan_step(config, first);
  if (first == last) return plan;
  StepPlan other = plan_step(config, last);
  return plan.step.peak >= other.step.peak ? std::move(plan) : std::move(other);
}

}  // namespace spool::train
