#pragma once
// Optimizers: an update of named parameters from their gradients, in place and in one pass each.
#include <spool/tensor/tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace spool {

/// Base of the optimizers. State (moments) is made at the first step, in f32 or better, and counted under Category::optimizer. Each update
/// reads and writes every element once, in fixed blocks: the same bits for any number of threads. On meta only the state's bytes are posted.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that requires a gradient. Throws AutogradError naming those that got none.
  void step();
  /// Drops all gradients, so that the next backward moves its contributions in instead of adding.
  void zero_grad();

  double lr() const { return lr_; }
  void set_lr(double lr) { lr_ = lr; }
  int64_t step_count() const { return steps_; }  ///< Steps made: the t of bias correction.

  /// State tensors by name ("first_moment.layers.0.up.weight"); empty before the first step.
  std::vector<std::pair<std::string, Tensor>> state() const;
  /// Puts back what `state` gave after `steps` steps. Throws IoError when names or shapes do not fit.
  void load_state(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps);

 protected:
  struct Slot {
    std::string name;
    Tensor parameter;
    std::vector<Tensor> moments;
  };
  Optimizer(std::vector<std::pair<std::string, Tensor>> parameters, const char* name, std::vector<std::string> moments, double lr);
  /// One parameter; `t` = step_count() of this step, from 1.
  virtual void update(const Slot& slot, int64_t t) = 0;

 private:
  void make_state();
  const char* name_;
  std::vector<std::string> moment_names_;
  std::vector<Slot> slots_;
  double lr_;
  int64_t steps_ = 0;
};

}  // namespace spool
