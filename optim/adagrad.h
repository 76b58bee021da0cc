#pragma once
// Adagrad (Duchi, Hazan & Singer, JMLR 12, 2011, with the diagonal of the matrix).
#include <spool/optim/optimizer.h>

namespace spool {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;             ///< ≥ 0: update t uses lr/(1 + (t − 1)·lr_decay).
  double initial_accumulator = 0;  ///< ≥ 0: what the sum of squares starts from.
  double eps = 1e-10;              ///< Positive. Added to the root.
  double weight_decay = 0;         ///< λ ≥ 0, as a term λw of the gradient (L2).
  bool allow_missing = false;      ///< Parameters may go without a gradient.
};

/// g ← g + λw; s ← s + g²; w ← w − lr/(1 + (t − 1)·lr_decay) · g/(√s + ε). t counts the updates of each parameter on its own.
/// State: "sum", 4 bytes an element for f32 parameters, 8 for f64, 8 for bf16 and f16 (with the master copy).
class Adagrad : public Optimizer {
 public:
  /// Throws ConfigError, naming the key, for values out of range.
  explicit Adagrad(NamedTensors parameters, AdagradOptions config = {});

 private:
  void update(const Update& u) const override;
  AdagradOptions config_;
};

}  // namespace spool
