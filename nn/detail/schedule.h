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

/// Parameters, gradients and optimizer state; checks the sizes.
Estimate state_estimate(int64_t parameters, const StepSizes& sizes);

/// The whole estimate: `step_from(base)` makes a step with run(), s, start and saved.
template <class F>
Estimate estimate_of(int64_t parameters, const StepSizes& sizes, const F& step_from) {
  Estimate out = state_estimate(parameters, sizes);
  auto step = step_from(out.parameter_bytes + out.optimizer_bytes);
  step.run();
  out.start_of_backward = step.start;
  out.saved_bytes = step.saved;
  out.end_of_backward = step.s.now("end of backward");
  out.optimizer_step = step.s.now("optimizer step");
  out.peak = step.s.peak();
  return out;
}

}  // namespace spool::nn::detail
