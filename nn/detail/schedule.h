#pragma once
// Live bytes as a step goes on, told by hand: what comes to be, what goes, and what is beside it for the moment. Private to the estimates.
#include <spool/nn/estimate.h>

#include <string>
#include <string_view>

namespace spool::nn::detail {

class Schedule {
 public:
  explicit Schedule(int64_t base) : live_(base) {}

  /// An op: `results` stay; `scratch` and `beside` (contiguous copies) are live with them while it runs.
  void op(std::string_view what, int64_t results, int64_t scratch = 0, int64_t beside = 0);
  void drop(int64_t bytes) { live_ -= bytes; }
  int64_t live() const { return live_; }
  /// Names what follows: "layers.3", say. The text is kept only where it is needed, at a new peak.
  void place(std::string_view what, int64_t index = -1);
  Instant now(std::string_view what) const { return {std::string(what), live_, 0}; }
  const Instant& peak() const { return peak_; }

 private:
  int64_t live_;
  std::string_view place_;
  int64_t index_ = -1;
  Instant peak_;
};

/// Scratch that a registered op declares for these inputs.
int64_t declared_scratch(std::string_view op, const Metas& inputs, const void* attrs = nullptr);
/// The same for a product [m, k]·[k, n].
int64_t product_scratch(int64_t m, int64_t k, int64_t n, Dtype dtype);

/// Parameters, buffers (counted with them), gradients and optimizer state; checks the sizes.
Estimate state_estimate(int64_t parameters, int64_t buffers, const StepSizes& sizes);

/// The whole estimate. `made(schedule)` gives a model's step: forward() from the tokens to the loss before it is scaled, backward() from
/// that loss' cotangent, which it drops, to all gradients.
template <class F>
Estimate estimate_of(int64_t parameters, int64_t buffers, const StepSizes& sizes, const F& made) {
  Estimate out = state_estimate(parameters, buffers, sizes);
  Schedule s(out.parameter_bytes + out.optimizer_bytes);
  auto step = made(s);
  const int64_t before = s.live(), loss = sizes.dtype == Dtype::f64 ? 8 : 4;
  s.op("tokens", sizes.batch * (sizes.length + 1) * (sizes.byte_tokens ? 1 : 4));
  step.forward();
  s.op("scale", loss);
  s.drop(loss);
  out.start_of_backward = s.now("start of backward");
  out.saved_bytes = s.live() - before - loss;
  s.op("loss gradient", loss);
  s.op("scale backward", loss);
  s.drop(loss);
  step.backward();
  s.drop(loss);
  out.end_of_backward = s.now("end of backward");
  out.optimizer_step = s.now("optimizer step");
  out.peak = s.peak();
  return out;
}

}  // namespace spool::nn::detail
