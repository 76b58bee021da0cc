#pragma once
// Losses besides cross_entropy. Tensors that are compared have one shape: nothing broadcasts, since a prediction [n, 1] against targets [n]
// would score n² pairs without a word (ShapeError names both). With Reduction::none the result has one loss an element, otherwise shape [];
// a mean of nothing is NaN. Those below the first are made of other ops, are computed in the type of the inputs, and have gradients of any
// order, also for targets.
#include <spool/ops/cross_entropy.h>

namespace spool {

struct NllOptions {
  Reduction reduction = Reduction::mean;
  int64_t ignore_index = -100;  ///< Targets with this value count neither in the sum nor in the mean and get gradient exactly 0.
};

/// −log_probs[target] for log-probabilities [..., classes] and targets [...] (u8, i32 or i64): cross_entropy(x, t) is
/// nll_loss(log_softmax(x), t). [] for sum and mean, [...] for none; f32 for 16-bit inputs. The mean is over targets that are not ignored,
/// and 0 with gradient 0 when there are none (a choice: others give NaN). Rows that are ignored are not read. IndexError for a target
/// outside [0, classes) that is not the ignored value. Keeps targets.
Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, NllOptions options = {});

/// (a − b)².
Tensor mse_loss(const Tensor& a, const Tensor& b, Reduction reduction = Reduction::mean);
/// |a − b|, slope 0 at 0.
Tensor l1_loss(const Tensor& a, const Tensor& b, Reduction reduction = Reduction::mean);
/// d²/2 where d = |a − b| ≤ delta, delta·(d − delta/2) beyond (Huber 1964). ConfigError unless delta > 0.
Tensor huber_loss(const Tensor& a, const Tensor& b, double delta = 1, Reduction reduction = Reduction::mean);
/// huber_loss / beta: slope ±1 beyond beta, as in PyTorch.
Tensor smooth_l1_loss(const Tensor& a, const Tensor& b, double beta = 1, Reduction reduction = Reduction::mean);
/// −t·log σ(x) − (1 − t)·log(1 − σ(x)) for logits x and targets t in [0, 1], without overflow, and without cancellation where t is 0 or 1.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets, Reduction reduction = Reduction::mean);
/// t·(log t − log_probs) for probabilities t ≥ 0, 0 where t = 0, NaN below: Kullback–Leibler divergence of the targets from the model,
/// elementwise as in PyTorch. The divergence of distributions is the sum over classes, so divide Reduction::sum by the number of rows.
Tensor kl_div(const Tensor& log_probs, const Tensor& targets, Reduction reduction = Reduction::mean);

}  // namespace spool
