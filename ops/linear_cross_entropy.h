#pragma once
// The head of a language model and its loss in one: the logits, by far the largest tensor of a step when the vocabulary is large, exist
// for a few rows at a time, forward and backward.
#include <spool/ops/cross_entropy.h>

namespace spool {

/// cross_entropy(x·weightᵀ, targets, options) for x [..., dim], weight [classes, dim] and targets [...], with logits of `rows` rows at a
/// time (0: all at once). Keeps x, weight, targets and each row's log Σ e^logit; backward forms the logits again. Gradients
/// of a weight that is gathered already are added to in place. The number of rows changes nothing but rounding in weight's gradient.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets, CrossEntropyOptions options = {}, int64_t rows = 0);

}  // namespace spool
