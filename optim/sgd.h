#pragma once
// Stochastic gradient descent, with momentum and Nesterov's form.
#include <spool/optim/optimizer.h>

namespace spool {

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;         ///< μ in [0, 1).
  bool nesterov = false;       ///< Needs momentum.
  double weight_decay = 0;     ///< λ ≥ 0, as a term of the gradient (L2).
  bool allow_missing = false;  ///< Parameters may go without a gradient.
};

/// g ← g + λw; v ← μv + g; w ← w − lr·v, or w − lr·(g + μv) with nesterov (Sutskever et al., ICML 2013, in the form of PyTorch's SGD
/// without dampening). State: "velocity", only with momentum: 4 bytes an element (8 for f64).
class Sgd : public Optimizer {
 public:
  /// Throws ConfigError, naming the key, for values out of range.
  explicit Sgd(NamedTensors parameters, SgdOptions config = {});

 private:
  void update(const Update& u) const override;
  SgdOptions config_;
};

}  // namespace spool
