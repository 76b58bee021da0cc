#include <spool/optim/adagrad.h>
#include <spool/optim/detail/kernel.h>
#include <spool/tensor/error.h>

#include <cmath>
#include <utility>

namespace spool {
namespace {

constexpr const char* name = "adagrad";

template <class S>
struct Numbers {
  S rate, decay, start, eps;
};

template <class P, class G, class S = detail::state_t<P>>
SPOOL_CLONES void run(P* __restrict p, const G* __restrict gradient, S* __restrict sum, S* __restrict master, int64_t n, Numbers<S> k) {
  for (int64_t i = 0; i < n; ++i) {
    const S w = detail::weight<P>(p[i], detail::has_master<P> ? master[i] : S(0));
    const S g = static_cast<S>(gradient[i]) + k.decay * w, s = sum[i] + k.start + g * g;
    sum[i] = s;
    const S updated = w - k.rate * g / (std::sqrt(s) + k.eps);
    if constexpr (detail::has_master<P>) master[i] = updated;
    p[i] = P(updated);
  }
}

const AdagradOptions& checked(const AdagradOptions& c) {
  const auto not_negative = [](const char* key, double value) {
    if (!std::isfinite(value) || value < 0) fail<ConfigError>(name, ": ", key, " must be finite and at least 0, got ", value);
  };
  not_negative("lr_decay", c.lr_decay);
  not_negative("initial_accumulator", c.initial_accumulator);
  not_negative("weight_decay", c.weight_decay);
  if (!std::isfinite(c.eps) || c.eps <= 0) fail<ConfigError>(name, ": eps must be finite and above 0, got ", c.eps);
  return c;
}

}  // namespace

Adagrad::Adagrad(NamedTensors parameters, AdagradOptions config)
    : Optimizer(name, std::move(parameters), config.lr, config.allow_missing, {"sum"}), config_(checked(config)) {}

void Adagrad::update(const Update& u) const {
  // State starts as zeros, so the first update brings the initial value.
  const double start = u.step == 1 ? config_.initial_accumulator : 0, rate = lr() / (1 + double(u.step - 1) * config_.lr_decay);
  detail::for_blocks(name, u.parameter, u.gradient, [&]<class P, class G>(int64_t begin, int64_t end) {
    using S = detail::state_t<P>;
    run<P, G>(detail::at<P>(u.parameter, begin), detail::at<const G>(u.gradient, begin), detail::at<S>(u.slots[0], begin),
              detail::at<S>(u.master, begin), end - begin, Numbers<S>{S(rate), S(config_.weight_decay), S(start), S(config_.eps)});
  });
}

}  // namespace spool
