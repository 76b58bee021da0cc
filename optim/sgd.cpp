#include <spool/optim/detail/kernel.h>
#include <spool/optim/sgd.h>
#include <spool/tensor/error.h>

#include <cmath>
#include <utility>

namespace spool {
namespace {

constexpr const char* name = "sgd";

template <class S>
struct Numbers {
  S lr, decay, momentum;
  bool nesterov;
};

template <class P, class G, class S = detail::state_t<P>>
SPOOL_CLONES void plain(P* __restrict p, const G* __restrict gradient, S* __restrict master, int64_t n, Numbers<S> k) {
  for (int64_t i = 0; i < n; ++i) {
    const S w = detail::weight<P>(p[i], detail::has_master<P> ? master[i] : S(0));
    const S g = static_cast<S>(gradient[i]) + k.decay * w, updated = w - k.lr * g;
    if constexpr (detail::has_master<P>) master[i] = updated;
    p[i] = P(updated);
  }
}

template <class P, class G, class S = detail::state_t<P>>
SPOOL_CLONES void with_momentum(P* __restrict p, const G* __restrict gradient, S* __restrict velocity, S* __restrict master, int64_t n,
                                Numbers<S> k) {
  for (int64_t i = 0; i < n; ++i) {
    const S w = detail::weight<P>(p[i], detail::has_master<P> ? master[i] : S(0));
    const S g = static_cast<S>(gradient[i]) + k.decay * w, v = k.momentum * velocity[i] + g;
    velocity[i] = v;
    const S updated = w - k.lr * (k.nesterov ? g + k.momentum * v : v);
    if constexpr (detail::has_master<P>) master[i] = updated;
    p[i] = P(updated);
  }
}

std::vector<std::string> slots(const SgdOptions& c) {
  if (!(c.momentum >= 0 && c.momentum < 1)) fail<ConfigError>("sgd: momentum must be in [0, 1), got ", c.momentum);
  if (!std::isfinite(c.weight_decay) || c.weight_decay < 0)
    fail<ConfigError>("sgd: weight_decay must be finite and at least 0, got ", c.weight_decay);
  if (c.nesterov && c.momentum == 0) fail<ConfigError>("sgd: nesterov needs a momentum above 0");
  return c.momentum > 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>{};
}

}  // namespace

Sgd::Sgd(NamedTensors parameters, SgdOptions config)
    : Optimizer(name, std::move(parameters), config.lr, config.allow_missing, slots(config)), config_(config) {}

void Sgd::update(const Update& u) const {
  detail::for_blocks(name, u.parameter, u.gradient, [&]<class P, class G>(int64_t begin, int64_t end) {
    using S = detail::state_t<P>;
    const Numbers<S> k{S(lr()), S(config_.weight_decay), S(config_.momentum), config_.nesterov};
    P* p = detail::at<P>(u.parameter, begin);
    const G* g = detail::at<const G>(u.gradient, begin);
    S* master = detail::at<S>(u.master, begin);
    if (u.slots.empty()) return plain<P, G>(p, g, master, end - begin, k);
    with_momentum<P, G>(p, g, detail::at<S>(u.slots[0], begin), master, end - begin, k);
  });
}

}  // namespace spool
