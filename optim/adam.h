#pragma once
// Adam (Kingma & Ba, arXiv:1412.6980, algorithm 1) and AdamW (Loshchilov & Hutter, arXiv:1711.05101, algorithm 2).
#include <spool/optim/optimizer.h>

#include <utility>

namespace spool {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;          ///< In [0, 1).
  double beta2 = 0.999;        ///< In [0, 1).
  double eps = 1e-8;           ///< Positive. Added to the root after its bias correction.
  double weight_decay = 0;     ///< λ ≥ 0, as a term λw of the gradient (L2).
  bool allow_missing = false;  ///< Parameters may go without a gradient.
};

/// As AdamOptions, with decoupled decay.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  ///< λ ≥ 0: w shrinks by lr·λ, beside the update.
  bool allow_missing = false;
};

/// m ← β₁m + (1 − β₁)g; v ← β₂v + (1 − β₂)g²; w ← w − lr · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε), with g including λw. t counts the updates of
/// each parameter on its own, so that one that was unfrozen late is corrected as new.
/// State: "moment1" and "moment2", 8 bytes an element for f32 parameters, 16 for f64, 12 for bf16 and f16 (with the master copy).
class Adam : public Optimizer {
 public:
  /// Throws ConfigError, naming the key, for values out of range.
  explicit Adam(NamedTensors parameters, AdamOptions config = {}) : Adam("adam", std::move(parameters), config, false) {}

 protected:
  Adam(const char* op, NamedTensors parameters, const AdamOptions& config, bool decoupled);

 private:
  void update(const Update& u) const override;
  AdamOptions config_;
  const char* op_;
  bool decoupled_;
};

/// Adam with the decay decoupled from the gradient: w ← (1 − lr·λ)w before the update, and g does not contain λw. For parameters that
/// should not decay (norms, biases) use a second optimizer with weight_decay = 0.
class AdamW : public Adam {
 public:
  explicit AdamW(NamedTensors parameters, AdamWOptions c = {})
      : Adam("adamw", std::move(parameters), {c.lr, c.beta1, c.beta2, c.eps, c.weight_decay, c.allow_missing}, true) {}
};

}  // namespace spool
