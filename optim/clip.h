#pragma once
// The norm of all gradients together, and clipping by it.
#include <spool/tensor/tensor.h>

namespace spool {

/// √Σg² over the gradients of `parameters` (those that have one; 0 when none has). Summed in f64 over fixed blocks, so the bits do not
/// depend on the number of threads, and rescaled where the squares would leave f64: large and tiny gradients have the right norm. Not
/// finite when a gradient is not: infinite, or NaN when there is a NaN. On meta: 0, since a plan has no values. Throws ShapeError naming
/// the parameter when a gradient is not contiguous.
double grad_norm(const NamedTensors& parameters);

/// Scales all gradients in place by max_norm / norm when their norm exceeds max_norm; returns the norm before. A norm that is not finite is
/// returned and the gradients stay as they are: skip the step then. Gradients that share bytes are scaled once. `max_norm` must be above 0
/// and finite, otherwise ConfigError.
double clip_grad_norm(const NamedTensors& parameters, double max_norm);

}  // namespace spool
