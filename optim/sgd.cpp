#include <spool/optim/sgd.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/parallel.h>

namespace spool {

Sgd::Sgd(std::vector<std::pair<std::string, Tensor>> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), "sgd", options.momentum ? std::vector<std::string>{"momentum"} : std::vector<std::string>{}, options.lr), options_(options) {}

void Sgd::update(const Slot& slot, int64_t) {
  const Tensor gradient = as_contiguous(slot.parameter.grad());
  visit_float("sgd", slot.parameter.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      T* p = slot.parameter.data<T>();
      const T* g = gradient.data<T>();
      T* u = slot.moments.empty() ? nullptr : slot.moments[0].data<T>();
      const T rate = T(lr()), momentum = T(options_.momentum), decay = T(options_.weight_decay);
      parallel_range(slot.parameter.numel(), 1 << 15, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          T step = g[i] + decay * p[i];
          if (u) step = u[i] = momentum * u[i] + step;
          p[i] -= rate * step;
        }
      });
    }
  });
}

}  // namespace spool
