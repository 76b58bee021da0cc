#pragma once
// What all optimizers share: the parameters, their state, the step number, and state for checkpoints. The rules are in sgd.h and adam.h.
//
//   Adam adam(model.named_parameters(), {.lr = 1e-3});
//   for (int64_t step = 0; step < steps; ++step) {
//     { Tape tape; tape.backward(loss(model, batch(step))); }
//     clip_grad_norm(adam.parameters(), 1.0);
//     adam.step(schedule(step));
//     adam.zero_grad();
//   }
//   save_safetensors("optimizer.safetensors", adam.state());
#include <spool/tensor/tensor.h>

#include <span>
#include <string>
#include <vector>

namespace spool {

struct LoadStateOptions {
  bool strict = true;  ///< A parameter that the state does not know is an error; otherwise it starts cold. The rest is always checked.
};

/// Updates parameters in place from their gradients: one pass over each parameter, no temporaries. State lives at least in f32: f64
/// parameters have f64 state, bf16 and f16 parameters an f32 master copy, of which they are the rounding. A parameter that was written by
/// someone else (a load) since the last step wins over its master, element by element where the two differ. Bytes an element with AdamW:
///
///   type        parameter  gradient  state           together
///   f32         4          4         4 + 4           16
///   bf16, f16   2          2         4 + 4 + 4       16, of which activations and gradients see the halves
///   f64         8          8         8 + 8           32
///
/// Without a master, an update below half the spacing of a 16-bit type (1/256 of the value for bf16) would be lost each time anew.
///
/// State is allocated by the first step, under Category::optimizer and with the parameter's name as path; other steps allocate nothing.
/// On meta a step allocates its state and moves nothing. Steps give the same bits for any number of threads.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One step with the learning rate in force. Parameters that do not require a gradient (frozen ones) are passed over. Checks everything
  /// before anything changes. Throws AutogradError when nothing is to be trained, and listing the parameters that got no gradient unless
  /// the configuration allows it (those then keep value, state and step number); DtypeError or ShapeError for a gradient that does not fit.
  void step();
  /// Sets the learning rate, then steps.
  void step(double learning_rate);
  /// Makes the state of all parameters that require a gradient now, not within the first step: then the first step takes no more memory
  /// than any other.
  void prepare();
  /// Drops all gradients, so that the next backward moves its first contribution in instead of adding.
  void zero_grad();

  const NamedTensors& parameters() const { return parameters_; }
  double lr() const { return lr_; }
  void set_lr(double value);                     ///< Finite and not negative, otherwise ConfigError.
  int64_t step_count() const { return steps_; }  ///< Steps taken, those before a resume included.

  /// Everything that the next step depends on besides parameters, gradients and configuration: "step" (i64 []), "lr" (f64 []), and for
  /// each parameter with state NAME.step (i64 [], its own number of updates), NAME.SLOT for the slots of the rule, and NAME.master for
  /// 16-bit parameters. Slots are the live tensors, not copies: save them before the next step.
  NamedTensors state() const;
  /// Takes over such a state, "lr" included. Throws IoError with one message that lists everything missing, unexpected or of another shape
  /// or type; nothing is changed then.
  void load_state(const NamedTensors& state, LoadStateOptions options = {});

 protected:
  /// `op` names the rule in errors, on the ledger and as writer of the parameters; `slots` are the state tensors that it keeps.
  /// Throws ConfigError on an empty list and on names or tensors given twice, DtypeError on parameters that are not float, ShapeError
  /// on parameters that are not contiguous.
  Optimizer(const char* op, NamedTensors parameters, double learning_rate, bool allow_missing, std::vector<std::string> slots);

  struct Update {
    const Tensor& parameter;
    const Tensor& gradient;         ///< Same shape; same type, or f32 for 16-bit parameters.
    std::span<const Tensor> slots;  ///< In the order given to the constructor; f64 for f64 parameters, otherwise f32.
    const Tensor& master;           ///< f32 for 16-bit parameters, otherwise undefined.
    int64_t step;                   ///< Number of this update: 1, 2, …
  };
  /// The rule. Only called where there are bytes.
  virtual void update(const Update& u) const = 0;

 private:
  struct State {
    bool allocated = false;
    Tensors slots;
    Tensor master;
    int64_t steps = 0;
  };
  std::vector<size_t> check_gradients() const;
  State allocate(size_t index) const;

  const char* op_;
  NamedTensors parameters_;
  std::vector<State> states_;
  std::vector<std::string> slot_names_;
  double lr_ = 0;
  bool allow_missing_;
  int64_t steps_ = 0;
};

}  // namespace spool
