#pragma once
// Checking a gradient against finite differences, for tests and for people who write their own ops.
#include <spool/tensor/tensor.h>

#include <functional>
#include <string>

namespace spool {

struct GradcheckOptions {
  double step = 1e-3;        ///< Relative to max(1, |x|). The stencil has four points: error O(step⁴).
  int64_t max_elements = 64; ///< Elements tried of each input (chosen at random when there are more).
  uint64_t seed = 1;         ///< Of the random cotangents and the choice of elements.
};

struct GradcheckResult {
  double error = 0;     ///< max |analytic − numeric| / max(1, |largest gradient|).
  std::string worst;    ///< Where: input, element, both values.
};

/// Compares the gradients of u·f(x), with random u, with central differences. Inputs must be f64; those that require a gradient are tried.
GradcheckResult gradcheck(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs, const GradcheckOptions& options = {});

}  // namespace spool
