// Random graphs of the library's ops, with branches, views, dropout and nested scopes, planned on meta and run in a poisoned arena: the bits
// are those of a run outside it, the events those of the plan, and the highest address the planned one.
#include <cmath>
#include <random>

#include "tests/support.h"

namespace spool::test {
namespace {

constexpr int64_t widths[] = {3, 8, 17, 40};

struct Leaves {
  int64_t rows = 0;
  Tensors inputs, maps;  ///< One input of each width [rows, w]; a map from each width to each [to, from].
  Tensors all() const {
    Tensors out = inputs;
    out.insert(out.end(), maps.begin(), maps.end());
    return out;
  }
};

Leaves make_leaves(uint32_t seed, Device device) {
  Leaves out{.rows = 1 + int64_t(seed * 7 % 29), .inputs = {}, .maps = {}};
  const auto leaf = [&](const Shape& shape, uint64_t name) {
    const Tensor t = normal(shape, RandomKey(seed).fold(name), 0, 0.3, Dtype::f32, device);
    t.requires_grad(true);
    return t;
  };
  for (const int64_t from : widths) {
    out.inputs.push_back(leaf({out.rows, from}, uint64_t(from)));
    for (const int64_t to : widths) out.maps.push_back(leaf({to, from}, uint64_t(100 * from + to)));
  }
  return out;
}

int index_of(int64_t width) { return int(std::find(std::begin(widths), std::end(widths), width) - std::begin(widths)); }

/// Grows a pool of tensors [rows, one of the widths] op by op.
Tensor random_graph(std::mt19937& rng, const Leaves& leaves, const Tensors& start, int depth) {
  Tensors pool = start;
  const auto any = [&] { return pool[rng() % pool.size()]; };
  const auto mapped = [&](const Tensor& x, int64_t width) { return x.size(1) == width ? x : linear(x, leaves.maps[size_t(4 * index_of(x.size(1)) + index_of(width))]); };
  for (int i = 0; i < 3 + int(rng() % 12); ++i) {
    const Tensor x = any(), y = mapped(any(), x.size(1));
    const int64_t half = x.size(1) / 2;
    switch (rng() % (depth ? 11 : 10)) {
      case 0: pool.push_back(mapped(x, widths[rng() % 4])); break;
      case 1: pool.push_back(add(x, y)); break;
      case 2: pool.push_back(mul(x, y)); break;
      case 3: pool.push_back(softmax(x)); break;
      case 4: pool.push_back(layer_norm(x)); break;
      case 5: pool.push_back(gelu(x)); break;
      case 6: pool.push_back(matmul(softmax(matmul(x, transpose(y))), y)); break;
      case 7: pool.push_back(concat({slice(x, 1, half), slice(y, 1, 0, half)}, 1)); break;
      case 8: pool.push_back(dropout(x, 0.2, ambient().random.fold(uint64_t(rng())))); break;
      case 9: pool.push_back(swiglu(x, y)); break;
      default: {
        const auto seed = uint32_t(rng());
        pool.push_back(checkpoint("scope", [&leaves, seed, depth](const Tensors& in) {
          std::mt19937 inner(seed);
          return Tensors{random_graph(inner, leaves, in, depth - 1)};
        }, {x, y})[0]);
      }
    }
    if (pool.size() > 6) pool.erase(pool.begin() + long(rng() % pool.size()));
  }
  return mapped(pool.back(), widths[0]);
}

/// Loss and gradients of one step, which are dropped at its end.
std::vector<uint32_t> step(const Leaves& leaves, uint32_t seed) {
  std::mt19937 rng(seed);
  const With key(&Ambient::random, RandomKey(seed));
  const bool real = !leaves.inputs[0].device().meta;
  std::vector<uint32_t> out;
  const auto take = [&](const Tensor& t) {
    if (!real) return;
    const auto* bits = static_cast<const uint32_t*>(t.raw());
    out.insert(out.end(), bits, bits + t.numel());
    for (int64_t i = 0; i < t.numel(); ++i) ASSERT_TRUE(std::isfinite(t.data<float>()[i])) << "seed " << seed << " reads bytes that nobody wrote";
  };
  {
    Tape tape;
    const Tensor loss = mean(square(random_graph(rng, leaves, leaves.inputs, 2)));
    take(loss);
    tape.backward(loss);
  }
  for (const Tensor& leaf : leaves.all()) {
    if (leaf.grad().defined()) take(leaf.grad());
    leaf.set_grad({});
  }
  return out;
}

TEST(ArenaGraphs, RandomGraphsRunAsPlannedWithTheSameBits) {
  int64_t bytes = 0, bound = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    Plan plan;
    {
      const Leaves leaves = make_leaves(seed, meta());
      step(leaves, seed);  // the first step leaves its marks on the leaves
      plan = record_plan(ledger, [&] { step(leaves, seed); });
    }
    const Leaves leaves = make_leaves(seed, cpu);
    const std::vector<uint32_t> expected = step(leaves, seed);
    const auto arena = std::make_shared<Arena>(plan, ArenaOptions{.poison = true});
    const Plan measured = record_plan(ledger, [&] {
      const ArenaStep in(arena);
      ASSERT_EQ(step(leaves, seed), expected) << "seed " << seed;
      in.finish();
    });
    ASSERT_EQ(first_difference(plan.events, measured.events), "") << "seed " << seed;
    ASSERT_EQ(measured.peak, plan.peak) << "seed " << seed;
    ASSERT_EQ(arena->high_water(), arena->size()) << "seed " << seed;
    ASSERT_EQ(arena->spilled_bytes() + arena->live_bytes() + arena->lasting_bytes(), 0) << "seed " << seed;
    bytes += arena->size();
    bound += arena->bound();
  }
  EXPECT_LE(double(bytes), 1.01 * double(bound)) << "over all graphs";
}

}  // namespace
}  // namespace spool::test
