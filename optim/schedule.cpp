#include <spool/optim/schedule.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace spool {
namespace {

void check_rate(const char* key, double value) {
  if (!std::isfinite(value) || value < 0) fail<ConfigError>("schedule: ", key, " must be finite and at least 0, got ", value);
}
void check_steps(const char* key, int64_t value) {
  if (value < 0) fail<ConfigError>("schedule: ", key, " must be at least 0, got ", value);
}

}  // namespace

Schedule Schedule::constant(double lr, int64_t warmup) {
  check_rate("lr", lr);
  check_steps("warmup", warmup);
  Schedule out;
  out.lr = lr;
  out.warmup = warmup;
  return out;
}

Schedule Schedule::step(const Step& s) {
  check_rate("factor", s.factor);
  check_steps("after", s.after);
  Schedule out = constant(s.lr, s.warmup);
  out.kind = Kind::step;
  out.factor = s.factor;
  out.after = s.after;
  return out;
}

Schedule Schedule::cosine(const Cosine& c) {
  check_rate("min_lr", c.min_lr);
  if (c.min_lr > c.lr) fail<ConfigError>("schedule: min_lr ", c.min_lr, " is above lr ", c.lr);
  if (c.steps <= c.warmup) fail<ConfigError>("schedule: steps ", c.steps, " must be above warmup ", c.warmup);
  Schedule out = constant(c.lr, c.warmup);
  out.kind = Kind::cosine;
  out.min_lr = c.min_lr;
  out.steps = c.steps;
  return out;
}

double Schedule::operator()(int64_t s) const {
  if (s < warmup) return lr * double(s + 1) / double(warmup);
  switch (kind) {
    case Kind::constant:
      break;
    case Kind::step:
      return s < after ? lr : lr * factor;
    case Kind::cosine: {
      const double progress = double(std::min(s, steps) - warmup) / double(steps - warmup);
      return s >= steps ? min_lr : min_lr + (lr - min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
    }
  }
  return lr;
}

}  // namespace spool
