#pragma once
// Stochastic gradient descent.
#include <spool/optim/optimizer.h>

namespace spool {

struct SgdOptions {
  double lr = 1e-2, momentum = 0;
  double weight_decay = 0;  ///< L2: added to the gradient.
};

/// u ← momentum·u + g, θ ← θ − lr·u. Without momentum there is no state.
class Sgd : public Optimizer {
 public:
  Sgd(std::vector<std::pair<std::string, Tensor>> parameters, const SgdOptions& options);

 protected:
  void update(const Slot& slot, int64_t t) override;

 private:
  SgdOptions options_;
};

}  // namespace spool
