#pragma once
// Cross-entropy from logits.
#include <spool/tensor/tensor.h>

#include <cstdint>

namespace spool {

enum class Reduction : uint8_t { none, sum, mean };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  int64_t ignore_index = -100;  ///< Targets with this value count neither in the sum nor in the mean and get gradient exactly 0.
  double label_smoothing = 0;   ///< ε: the target distribution is (1 − ε)·one-hot + ε/classes.
};

/// −log softmax(logits)[target] for logits [..., classes] and targets [...] (u8, i32 or i64): [] for sum and mean, [...] for none, in f32
/// for 16-bit logits (a sum of losses needs more digits than they have) and in the logits' type otherwise. Rows are added in f64 in fixed
/// blocks. When every target is ignored, the mean is 0 with gradient 0 (a choice: others give NaN). IndexError for a
/// target outside [0, classes) that is not the ignored value. Keeps logits, targets and each row's log Σ e^logit.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, CrossEntropyOptions options = {});

}  // namespace spool
