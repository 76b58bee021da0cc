#pragma once
// One training step, and its plan. The plan runs the very same function on meta tensors.
#include <spool/autograd/plan.h>
#include <spool/nn/performer.h>
#include <spool/optim/optimizer.h>

#include <memory>

#include "train/config.h"
#include "train/dataset.h"

namespace spool::train {

/// What a step leaves behind. On meta the numbers are NaN.
struct StepResult {
  double loss = 0;       ///< Mean over the scored targets, in nats.
  double grad_norm = 0;  ///< Before clipping.
  bool skipped = false;  ///< Loss or gradient was not finite: nothing was updated.
};

/// The model and optimizer of a configuration, on `device`.
std::unique_ptr<nn::Performer> make_model(const RunConfig& config, Device device = cpu);
std::unique_ptr<Optimizer> make_optimizer(const RunConfig& config, const nn::Performer& model);
double learning_rate(const RunConfig& config, int64_t step);

/// Tokens and mask as tensors.
nn::TokenBatch to_tensors(Batch batch);
/// A batch of the configuration's shape without values.
nn::TokenBatch meta_batch(const RunConfig& config);

/// Gradient, clipping, update. Random numbers depend on the seed and `step` only.
StepResult train_step(const RunConfig& config, nn::Performer& model, Optimizer& optimizer, const nn::TokenBatch& batch, int64_t step);

/// A steady-state step planned on meta, and the history before it (parameters, optimizer state).
struct StepPlan {
  Plan step;                   ///< What each step posts.
  std::vector<Event> history;  ///< From the first parameter to the end of the planned step, for the report.
};
StepPlan plan_step(const RunConfig& config, bool chunked);
/// The plan of whichever kind of step of this run needs more.
StepPlan plan_run(const RunConfig& config);

}  // namespace spool::train
