// Random draws, from the words that the counters give; and nll_loss.
#include "reference.h"

#include <spool/tensor/random.h>

#include <algorithm>

namespace spool::test {
namespace {

/// The number in [0, 2⁵³) that a position of a stream draws: half a Philox block each.
double bits_at(RandomKey key, int64_t position, uint32_t stream) {
  const auto w = philox4x32({uint32_t(position / 2), uint32_t(uint64_t(position / 2) >> 32), stream, 0}, key.words());
  return position % 2 ? double(w[2]) * 0x1p21 + double(w[3] >> 11) : double(w[0]) * 0x1p21 + double(w[1] >> 11);
}

void bernoulli_of(Comparison& c) {
  const Tensor p = c.rng().uniform({3, 5}, 0, 1);
  const RandomKey key(9);
  Array to(p);
  for (size_t i = 0; i < to.values.size(); ++i) to.values[i] = bits_at(key, int64_t(i), 3) < to.values[i] * 0x1p53;
  c.expect("value", bernoulli(p, key), to, 0);
  c.expect("as numbers", bernoulli(p, key, Dtype::f64), to, 0);
}

void multinomial_of(Comparison& c) {
  const int64_t rows = 4, n = 6, samples = 3;
  const Tensor weights = c.rng().uniform({rows, n}, 0.1, 2);
  const Array w(weights);
  const RandomKey key(10);
  Array with(Shape{rows, samples}), without(Shape{rows, samples});
  for (int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) total += w.at({r, i});
    for (int64_t s = 0; s < samples; ++s) {
      const double target = bits_at(key, r * samples + s, 4) * 0x1p-53 * total;
      int64_t i = 0;
      for (double sum = w.at({r, 0}); sum <= target; sum += w.at({r, ++i})) {}
      with.at({r, s}) = double(i);
    }
    std::vector<std::pair<double, int64_t>> arrivals;
    for (int64_t i = 0; i < n; ++i) arrivals.emplace_back(-std::log((bits_at(key, r * n + i, 5) + 1) * 0x1p-53) / w.at({r, i}), i);
    std::sort(arrivals.begin(), arrivals.end());
    for (int64_t s = 0; s < samples; ++s) without.at({r, s}) = double(arrivals[size_t(s)].second);
  }
  c.expect("with replacement", multinomial(weights, samples, key), with, 0);
  c.expect("without", multinomial(weights, samples, key, false), without, 0);
}

Reference nll_loss_of(bool backward) {
  return [backward](Comparison& c) {
    const Tensor x = c.rng().normal({5, 7});
    const std::vector<int64_t> targets{3, -100, 0, 6, -100};
    const Tensor t = from(std::span<const int64_t>(targets));
    for (const Reduction reduction : {Reduction::none, Reduction::sum, Reduction::mean}) {
      const bool none = reduction == Reduction::none;
      const Tensor u = c.rng().normal(none ? Shape{5} : Shape{});
      const double scored = reduction == Reduction::mean ? 3 : 1;
      Array losses(none ? Shape{5} : Shape{}), dx(x.shape());
      for (int64_t r = 0; r < 5; ++r) {
        if (targets[size_t(r)] < 0) continue;
        const size_t to = none ? size_t(r) : 0;
        losses.values[to] -= Array(x).at({r, targets[size_t(r)]}) / scored;
        dx.at({r, targets[size_t(r)]}) = -Array(u).values[to] / scored;
      }
      const std::string label = concat("reduction ", int(reduction));
      if (!backward) c.expect(label, nll_loss(x, t, {.reduction = reduction}), losses);
      else c.expect(label, gradients_of([&](const Tensors& in) { return Tensors{nll_loss(in[0], t, {.reduction = reduction})}; }, {x}, {u})[0], dx);
    }
  };
}

[[maybe_unused]] const bool added = add_references({
    {"bernoulli", bernoulli_of},
    {"multinomial", multinomial_of},
    {"nll_loss", nll_loss_of(false)},
    {"nll_loss_backward", nll_loss_of(true)},
});

}  // namespace
}  // namespace spool::test
