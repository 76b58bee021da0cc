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
  /// Bytes that are live already are gradients of parameters from here on.
  void gradient(int64_t bytes) { gradients_ += bytes; }
  /// Operations besides the bytes that ops write.
  void work(double operations) { work_ += operations; }
  int64_t live() const { return live_; }
  double work() const { return work_; }
  /// Names what follows: "layers.3", say. The text is kept only where it is needed, at a new peak.
  void place(std::string_view what, int64_t index = -1);
  Instant now(std::string_view what) const { return {std::string(what), live_, 0, gradients_}; }
  const Instant& peak() const { return peak_; }

  /// What a stretch of the step changes, and that change over again `times` times: for stretches that are alike, of which the first and the
  /// last are told. What is live rises or falls along them, so their peaks are at the ends.
  struct Stretch {
    int64_t live = 0, gradients = 0;
    double work = 0;
  };
  Stretch mark() const { return {live_, gradients_, work_}; }
  Stretch since(const Stretch& mark) const { return {live_ - mark.live, gradients_ - mark.gradients, work_ - mark.work}; }
  void repeat(const Stretch& change, int64_t times) {
    live_ += times * change.live;
    gradients_ += times * change.gradients;
    work_ += double(times) * change.work;
  }

 private:
  int64_t live_, gradients_ = 0;
  double work_ = 0;
  std::string_view place_;
  int64_t index_ = -1;
  Instant peak_;
};

/// Scratch that a registered op declares for these inputs.
int64_t declared_scratch(std::string_view op, const Metas& inputs, const void* attrs = nullptr);
/// Operations that it declares.
double declared_work(std::string_view op, const Metas& inputs, const void* attrs = nullptr);
/// The scratch of a product [m, k]·[k, n].
int64_t product_scratch(int64_t m, int64_t k, int64_t n, Dtype dtype);

/// Parameters, buffers (counted with them), gradients and optimizer state; checks the sizes.
Estimate state_estimate(int64_t parameters, int64_t buffers, const StepSizes& sizes);

/// The whole estimate. `made(schedule, whether every parameter has a
/// gradient already)` gives a model's step for one micro-batch: forward() from the tokens to the loss before it is scaled, scaled() for what
/// goes after that, backward() from that loss' cotangent, which it drops, to all gradients.
template <class F>
Estimate estimate_of(int64_t parameters, int64_t buffers, const StepSizes& sizes, const F& made) {
  Estimate out = state_estimate(parameters, buffers, sizes);
  Schedule s(out.parameter_bytes + out.optimizer_bytes);
  const int64_t before = s.live(), loss = sizes.dtype == Dtype::f64 ? 8 : 4, ids = sizes.batch * (sizes.length + 1);
  const int64_t batch = ids * (sizes.byte_tokens ? 1 : 4) + (sizes.masked ? ids : 0);
  const auto part = [&](bool first) {
    auto step = made(s, !first);
    s.op("tokens", batch);
    step.forward();
    s.op("scale", loss);
    s.drop(loss);
    step.scaled();
    out.start_of_backward = s.now("start of backward");
    out.saved_bytes = s.live() - before - loss - out.start_of_backward.gradients;
    s.op("loss gradient", loss);
    s.op("scale backward", loss);
    s.drop(loss);
    step.backward();
    s.drop(loss);
    out.end_of_backward = s.now("end of backward");
  };
  part(true);
  if (sizes.accumulate > 1) {  // all but the first are alike
    const double first = s.work();
    s.drop(batch);
    part(false);
    s.work(double(sizes.accumulate - 2) * (s.work() - first));
  }
  out.optimizer_step = s.now("optimizer step");
  out.peak = s.peak();
  out.work = s.work();
  return out;
}

}  // namespace spool::nn::detail
