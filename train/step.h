#pragma once
// One training step, and its plan. The plan runs the very same function on meta tensors.
#include <spool/autograd/plan.h>
#include <spool/nn/estimate.h>
#include <spool/nn/language_model.h>
#include <spool/optim/optimizer.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
std::unique_ptr<nn::LanguageModel> make_model(const RunConfig& config, Device device = cpu);
std::unique_ptr<Optimizer> make_optimizer(const RunConfig& config, const nn::LanguageModel& model);
double learning_rate(const RunConfig& config, int64_t step);

/// Tokens and mask as tensors.
nn::TokenBatch to_tensors(const Batch& batch);

/// Makes micro-batch 0, 1, … of a step when its turn comes, so that one exists at a time. `scored` of each is that of the whole step: losses
/// and gradients add up to those of one large batch, however the targets are spread over the parts.
using Feed = std::function<nn::TokenBatch(int64_t part)>;
/// Micro-batches of data.batch rows of a step's batch.
Feed feed(const RunConfig& config, Batch step);
/// Micro-batches of the configuration's shape without values.
Feed meta_feed(const RunConfig& config);

/// Gradient over train.accumulate micro-batches, clipping, update. Random numbers depend on the seed, `step` and the part only.
StepResult train_step(const RunConfig& config, nn::LanguageModel& model, Optimizer& optimizer, const Feed& feed, int64_t step);

/// A steady-state step planned on meta, and the history before it (parameters, optimizer state).
struct StepPlan {
  bool chunked = false;        ///< Whether the step's gradient is.
  Plan step;                   ///< What each step posts.
  std::vector<Event> history;  ///< From the first parameter to the end of the planned step, for the report.
};
StepPlan plan_step(const RunConfig& config, bool chunked);
/// Where its peak is: "in backward, swiglu_backward in model.layers.3.mlp".
std::string peak_place(const StepPlan& plan);
/// The memory of a step in closed form; nothing where there is none for this configuration (see nn/estimate.h).
std::optional<nn::Estimate> closed_form(const RunConfig& config, bool chunked);
/// What the model's modules have, and would keep if nothing were recomputed or in pieces.
std::vector<nn::ModuleEstimate> closed_form_modules(const RunConfig& config);
/// The plan of whichever kind of step of this run needs more.
StepPlan plan_run(const RunConfig& config);

}  // namespace spool::train
