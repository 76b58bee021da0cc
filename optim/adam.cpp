#include <spool/ops/cpu/clones.h>
#include <spool/optim/adam.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/parallel.h>

#include <cmath>

namespace spool {
namespace {

template <class T>
struct Step {
  T keep, decay, beta1, beta2, eps, rate, correction2;
};

template <class T>
SPOOL_CLONES void adam_run(T* __restrict p, const T* __restrict g, T* __restrict m, T* __restrict v, int64_t n, Step<T> s) {
  for (int64_t i = 0; i < n; ++i) {
    const T gradient = g[i] + s.decay * p[i];
    const T first = s.beta1 * m[i] + (T(1) - s.beta1) * gradient, second = s.beta2 * v[i] + (T(1) - s.beta2) * gradient * gradient;
    m[i] = first;
    v[i] = second;
    p[i] = s.keep * p[i] - s.rate * first / (std::sqrt(second * s.correction2) + s.eps);
  }
}

}  // namespace

Adam::Adam(std::vector<std::pair<std::string, Tensor>> parameters, const AdamOptions& options, const char* name, bool decoupled)
    : Optimizer(std::move(parameters), name, {"first_moment", "second_moment"}, options.lr), options_(options), decoupled_(decoupled) {}

void Adam::update(const Slot& slot, int64_t t) {
  const auto& o = options_;
  const double correction1 = 1 - std::pow(o.beta1, double(t)), correction2 = 1 - std::pow(o.beta2, double(t));
  const Tensor gradient = as_contiguous(slot.parameter.grad());
  visit_float("adam", slot.parameter.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      const Step<T> step{T(decoupled_ ? 1 - lr() * o.weight_decay : 1), T(decoupled_ ? 0 : o.weight_decay), T(o.beta1), T(o.beta2), T(o.eps), T(lr() / correction1), T(1 / correction2)};
      T* p = slot.parameter.data<T>();
      const T* g = gradient.data<T>();
      T *m = slot.moments[0].data<T>(), *v = slot.moments[1].data<T>();
      parallel_range(slot.parameter.numel(), 1 << 15, [&](int64_t begin, int64_t end) { adam_run(p + begin, g + begin, m + begin, v + begin, end - begin, step); });
    }
  });
}

}  // namespace spool
