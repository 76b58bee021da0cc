#include <spool/ops/cpu/clones.h>
#include <spool/optim/clip.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace spool {
namespace {

constexpr int64_t block = 16384;  // elements of one partial sum
constexpr int lanes = 16;         // sums kept side by side within a block

/// Σ(x·scale)² of one block.
template <class T>
SPOOL_CLONES double sum_of_squares(const T* x, int64_t n, double scale) {
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int j = 0; j < lanes; ++j) {
      const double value = static_cast<double>(x[i + j]) * scale;
      sums[j] += value * value;
    }
  }
  for (int j = 0; i < n; ++i, ++j) {
    const double value = static_cast<double>(x[i]) * scale;
    sums[j] += value * value;
  }
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}

template <class T>
SPOOL_CLONES void scale_block(T* x, int64_t n, double factor) {
  for (int64_t i = 0; i < n; ++i) x[i] = T(static_cast<accumulate_t<T>>(static_cast<double>(x[i]) * factor));
}

struct Gradient {
  const std::string* name;
  Tensor tensor;
};

/// All gradients that hold elements, each storage position once.
std::vector<Gradient> gradients_of(const char* op, const NamedTensors& parameters) {
  std::vector<Gradient> out;
  for (const auto& [name, parameter] : parameters) {
    const Tensor& g = parameter.grad();
    if (!g.defined() || g.numel() == 0) continue;
    if (!g.is_contiguous())
      fail<ShapeError>(op, ": the gradient ", g.shape(), " of ", name, " with strides ", g.strides(),
                       " is not contiguous; set a contiguous one");
    out.push_back({&name, g});
  }
  return out;
}

double total(const char* op, const std::vector<Gradient>& gradients, double scale) {
  double sum = 0;
  std::vector<double> partial;
  for (const Gradient& g : gradients) {
    partial.assign(size_t((g.tensor.numel() + block - 1) / block), 0.0);
    visit_float(op, g.tensor.dtype(), [&]<class T>() {
      const T* x = static_cast<const T*>(g.tensor.raw());
      parallel_range(g.tensor.numel(), block,
                     [&](int64_t begin, int64_t end) { partial[size_t(begin / block)] = sum_of_squares(x + begin, end - begin, scale); });
    });
    for (const double p : partial) sum += p;
  }
  return sum;
}

/// max |g|; NaN when there is a NaN.
double largest(const char* op, const std::vector<Gradient>& gradients) {
  double most = 0;
  for (const Gradient& g : gradients) {
    visit_float(op, g.tensor.dtype(), [&]<class T>() {
      const T* x = static_cast<const T*>(g.tensor.raw());
      for (int64_t i = 0; i < g.tensor.numel(); ++i) {
        const double value = std::abs(static_cast<double>(x[i]));
        most = value > most || std::isnan(value) ? value : most;
        if (std::isnan(most)) return;
      }
    });
    if (std::isnan(most)) break;
  }
  return most;
}

double norm_of(const char* op, const std::vector<Gradient>& gradients) {
  if (gradients.empty() || gradients[0].tensor.device().meta) return 0;
  // Squares of f32 always fit f64. Those of f64 are trusted while they stay well inside its range.
  const double sum = total(op, gradients, 1);
  if (std::isfinite(sum) && sum > 1e-280) return std::sqrt(sum);
  const double most = largest(op, gradients);
  if (most == 0 || !std::isfinite(most)) return most;
  const int exponent = std::clamp(std::ilogb(most), -1000, 1000);
  return std::ldexp(std::sqrt(total(op, gradients, std::ldexp(1.0, -exponent))), exponent);
}

}  // namespace

double grad_norm(const NamedTensors& parameters) { return norm_of("grad_norm", gradients_of("grad_norm", parameters)); }

double clip_grad_norm(const NamedTensors& parameters, double max_norm) {
  constexpr const char* op = "clip_grad_norm";
  if (!std::isfinite(max_norm) || max_norm <= 0) fail<ConfigError>(op, ": max_norm must be finite and above 0, got ", max_norm);
  const auto gradients = gradients_of(op, parameters);
  const double norm = norm_of(op, gradients);
  if (!std::isfinite(norm) || norm <= max_norm) return norm;
  const With writer(&Ambient::op, op);
  std::set<const void*> done;
  for (const Gradient& g : gradients) {
    if (!done.insert(g.tensor.raw()).second) continue;
    bump_version(g.tensor);
    visit_float(op, g.tensor.dtype(), [&]<class T>() {
      T* x = static_cast<T*>(g.tensor.raw());
      parallel_range(g.tensor.numel(), block, [&](int64_t begin, int64_t end) { scale_block(x + begin, end - begin, max_norm / norm); });
    });
  }
  return norm;
}

}  // namespace spool
