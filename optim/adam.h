#pragma once
// Adam and AdamW.
#include <spool/optim/optimizer.h>

namespace spool {

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;
};

/// Adam (Kingma & Ba, 2015): m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², θ ← θ − lr·(m/(1−β₁ᵗ))/(√(v/(1−β₂ᵗ)) + ε). Weight decay is L2: it is
/// added to g.
class Adam : public Optimizer {
 public:
  Adam(std::vector<std::pair<std::string, Tensor>> parameters, const AdamOptions& options) : Adam(std::move(parameters), options, "adam", false) {}

 protected:
  Adam(std::vector<std::pair<std::string, Tensor>> parameters, const AdamOptions& options, const char* name, bool decoupled);
  void update(const Slot& slot, int64_t t) override;

 private:
  AdamOptions options_;
  bool decoupled_;
};

/// Adam with decoupled weight decay (Loshchilov & Hutter, 2019): θ ← θ·(1 − lr·decay) before the step.
class AdamW : public Adam {
 public:
  AdamW(std::vector<std::pair<std::string, Tensor>> parameters, const AdamOptions& options) : Adam(std::move(parameters), options, "adamw", true) {}
};

}  // namespace spool
