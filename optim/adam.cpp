#include <spool/optim/adam.h>
#include <spool/optim/detail/kernel.h>
#include <spool/tensor/error.h>

#include <cmath>
#include <utility>

namespace spool {
namespace {

/// The update with everything that is the same for all elements worked out in f64:
/// w ← keep·w − step · m / (√v · root + eps), where step = lr/(1 − β₁ᵗ) and root = 1/√(1 − β₂ᵗ).
template <class S>
struct Numbers {
  S beta1, rest1, beta2, rest2;  // rest = 1 − β, formed in f64
  S l2, keep, step, root, eps;
};

template <class P, class G, class S = detail::state_t<P>>
SPOOL_CLONES void run(P* __restrict p, const G* __restrict gradient, S* __restrict moment1, S* __restrict moment2, S* __restrict master,
                      int64_t n, Numbers<S> k) {
  for (int64_t i = 0; i < n; ++i) {
    const S w = detail::weight<P>(p[i], detail::has_master<P> ? master[i] : S(0));
    const S g = static_cast<S>(gradient[i]) + k.l2 * w;
    const S m = k.beta1 * moment1[i] + k.rest1 * g;
    const S v = k.beta2 * moment2[i] + k.rest2 * g * g;
    moment1[i] = m;
    moment2[i] = v;
    const S updated = k.keep * w - k.step * m / (std::sqrt(v) * k.root + k.eps);
    if constexpr (detail::has_master<P>) master[i] = updated;
    p[i] = P(updated);
  }
}

const AdamOptions& checked(const char* op, const AdamOptions& c) {
  const auto beta = [&](const char* key, double value) {
    if (!(value >= 0 && value < 1)) fail<ConfigError>(op, ": ", key, " must be in [0, 1), got ", value);
  };
  beta("beta1", c.beta1);
  beta("beta2", c.beta2);
  if (!std::isfinite(c.eps) || c.eps <= 0) fail<ConfigError>(op, ": eps must be finite and above 0, got ", c.eps);
  if (!std::isfinite(c.weight_decay) || c.weight_decay < 0)
    fail<ConfigError>(op, ": weight_decay must be finite and at least 0, got ", c.weight_decay);
  return c;
}

}  // namespace

Adam::Adam(const char* op, NamedTensors parameters, const AdamOptions& config, bool decoupled)
    : Optimizer(op, std::move(parameters), config.lr, config.allow_missing, {"moment1", "moment2"}),
      config_(checked(op, config)),
      op_(op),
      decoupled_(decoupled) {}

void Adam::update(const Update& u) const {
  const double rate = lr(), decay = config_.weight_decay;
  const double correction1 = 1 - std::pow(config_.beta1, double(u.step)), correction2 = 1 - std::pow(config_.beta2, double(u.step));
  detail::for_blocks(op_, u.parameter, u.gradient, [&]<class P, class G>(int64_t begin, int64_t end) {
    using S = detail::state_t<P>;
    const Numbers<S> k{.beta1 = S(config_.beta1),
                       .rest1 = S(1 - config_.beta1),
                       .beta2 = S(config_.beta2),
                       .rest2 = S(1 - config_.beta2),
                       .l2 = S(decoupled_ ? 0 : decay),
                       .keep = S(decoupled_ ? 1 - rate * decay : 1),
                       .step = S(rate / correction1),
                       .root = S(1 / std::sqrt(correction2)),
                       .eps = S(config_.eps)};
    run<P, G>(detail::at<P>(u.parameter, begin), detail::at<const G>(u.gradient, begin), detail::at<S>(u.slots[0], begin),
              detail::at<S>(u.slots[1], begin), detail::at<S>(u.master, begin), end - begin, k);
  });
}

}  // namespace spool
