#pragma once
// Learning rates as pure functions of the step number: resuming at step n needs nothing but n.
#include <cstdint>

namespace spool {

/// The learning rate of each step, steps counted from 0. All kinds may warm up: step s < warmup has lr · (s + 1) / warmup.
///
///   adam.step(Schedule::cosine({.lr = 1e-3, .warmup = 100, .steps = 10'000, .min_lr = 1e-5})(step));
struct Schedule {
  enum class Kind : uint8_t { constant, step, cosine };

  struct Step {
    double lr = 1e-3;
    double factor = 0.1;  ///< ≥ 0.
    int64_t after = 0;    ///< Steps `after`, `after` + 1, … have lr · factor.
    int64_t warmup = 0;
  };
  struct Cosine {
    double lr = 1e-3;
    int64_t warmup = 0;
    int64_t steps = 0;  ///< End of the descent, warm-up included; above `warmup`.
    double min_lr = 0;  ///< At most lr. From step `steps` on.
  };

  static Schedule constant(double lr, int64_t warmup = 0);
  static Schedule step(const Step& s);
  /// Half a cosine from lr at step `warmup` to min_lr at step `steps`: min + (lr − min)(1 + cos(π (s − warmup)/(steps − warmup)))/2
  /// (Loshchilov & Hutter, arXiv:1608.03983, eq. 5, without restarts).
  static Schedule cosine(const Cosine& c);
  // Each throws ConfigError naming the key for rates that are negative or not finite, and for step numbers that do not fit together.

  /// The learning rate of step s ≥ 0.
  double operator()(int64_t s) const;

  Kind kind = Kind::constant;
  double lr = 1e-3, factor = 1, min_lr = 0;
  int64_t warmup = 0, after = 0, steps = 0;
};

}  // namespace spool
