#include <spool/ops/cpu/clones.h>
#include <spool/optim/clip.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <cmath>

namespace spool {
namespace {

constexpr int64_t block_size = 1 << 14;

template <class T>
SPOOL_CLONES double square_sum(const T* x, int64_t n) {
  constexpr int lanes = 8;
  double lane[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int l = 0; l < lanes; ++l) lane[l] += double(x[i + l]) * double(x[i + l]);
  for (; i < n; ++i) lane[0] += double(x[i]) * double(x[i]);
  double total = 0;
  for (double l : lane) total += l;
  return total;
}

}  // namespace

double clip_grad_norm(const std::vector<std::pair<std::string, Tensor>>& parameters, double max_norm) {
  if (!(max_norm > 0) || std::isinf(max_norm)) fail<ConfigError>("clip_grad_norm: max_norm must be above 0 and finite, got ", max_norm);
  const With op(&Ambient::op, "clip_grad_norm");
  double total = 0;
  for (const auto& [name, parameter] : parameters) {
    const Tensor& g = parameter.grad();
    if (!g.defined() || g.numel() == 0) continue;
    if (g.device().meta) return 0;
    visit_float("clip_grad_norm", g.dtype(), [&]<class T>() {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        const T* x = g.data<T>();
        const int64_t n = g.numel(), blocks = (n + block_size - 1) / block_size;
        std::vector<double> partial(static_cast<size_t>(blocks));
        parallel_blocks(blocks, block_size, [&](int64_t b) { partial[size_t(b)] = square_sum(x + b * block_size, std::min(block_size, n - b * block_size)); });
        for (double p : partial) total += p;
      } else {
        for (double value : g.to_vector<double>()) total += value * value;
      }
    });
  }
  const double norm = std::sqrt(total);
  if (!std::isfinite(norm) || norm <= max_norm) return norm;
  for (const auto& [name, parameter] : parameters) {
    const Tensor& g = parameter.grad();
    if (!g.defined() || g.numel() == 0) continue;
    bump_version(g);
    visit_float("clip_grad_norm", g.dtype(), [&]<class T>() {
      T* x = static_cast<T*>(g.raw());
      const auto scale = accumulate_t<T>(max_norm / norm);
      parallel_range(g.numel(), block_size, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) x[i] = static_cast<T>(accumulate_t<T>(x[i]) * scale);
      });
    });
  }
  return norm;
}

}  // namespace spool
