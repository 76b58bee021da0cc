#pragma once
// Gradient clipping by the global norm.
#include <spool/tensor/tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace spool {

/// The Euclidean norm of all gradients together, before clipping; when it is larger than `max_norm`, every gradient is scaled in place by
/// max_norm / norm. Formed in f64 in fixed blocks, so squares of large f32 values do not overflow. When it is not finite, it is returned and the
/// gradients stay as they are: skip the step. ConfigError unless max_norm is above 0 and finite. On meta: 0, and nothing happens.
double clip_grad_norm(const std::vector<std::pair<std::string, Tensor>>& parameters, double max_norm);

}  // namespace spool
