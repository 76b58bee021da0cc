// The arena: random tapes give the same bits in it as with the system allocator while every released byte is poisoned; its high-water mark
// is the planned one; departures from the plan are errors that name the op and both sizes.
#include <spool/autograd/arena.h>
#include <spool/autograd/checkpoint.h>
#include <spool/autograd/custom_vjp.h>
#include <spool/autograd/sum_gradients.h>
#include <spool/autograd/tape.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace spool::test {
namespace {

/// x·y element by element, with a rule that reads both.
Tensor times(const Tensor& a, const Tensor& b) {
  const auto product = [](const Tensor& x, const Tensor& y) {
    Tensor out = empty(x.shape(), x.dtype(), x.device());
    if (!x.device().meta)
      for (int64_t i = 0; i < x.numel(); ++i) out.data<float>()[i] = x.data<float>()[i] * y.data<float>()[i];
    return out;
  };
  return custom_vjp("times", [=](const Tensors& in) { return Tensors{product(in[0], in[1])}; },
                    [=](Saved& s) {
                      const Tensor g = s.grad();
                      return Tensors{s.needs(0) ? product(g, s.input(1)) : Tensor(), s.needs(1) ? product(g, s.input(0)) : Tensor()};
                    },
                    Saves().input(0).input(1), {a, b})[0];
}

Tensors make_leaves(Device device) {
  Tensors leaves;
  for (int i = 0; i < 3; ++i) {
    leaves.push_back(empty({5, 7}, Dtype::f32, device));
    if (!device.meta)
      for (int64_t j = 0; j < 35; ++j) leaves.back().data<float>()[j] = 0.5f + 0.01f * float((j * 7 + i * 13) % 50);
    leaves.back().requires_grad(true);
  }
  return leaves;
}

Tensor pick(std::mt19937& rng, const Tensors& from) { return from[rng() % from.size()]; }

Tensor random_graph(std::mt19937& rng, const Tensors& leaves, int depth) {
  Tensors pool = leaves;
  for (int i = 0; i < 4 + int(rng() % 20); ++i) {
    const Tensor a = pick(rng, pool), b = pick(rng, pool);
    const auto kind = rng() % 5;
    if (kind < 2) pool.push_back(sum_gradients(a, b));
    else if (kind < 4 || depth == 0) pool.push_back(times(a, b));
    else {
      const auto seed = uint32_t(rng());
      pool.push_back(checkpoint("scope", [seed, depth](const Tensors& in) {
        std::mt19937 inner(seed);
        return Tensors{random_graph(inner, in, depth - 1)};
      }, {a, b})[0]);
    }
    if (pool.size() > 6) pool.erase(pool.begin() + long(rng() % pool.size()));
  }
  Tensor out = sum_gradients(pool.back(), times(leaves[0], leaves[1]));
  return out;
}

std::vector<uint32_t> bits(const Tensor& t) {
  std::vector<uint32_t> out(size_t(t.numel()));
  std::memcpy(out.data(), t.raw(), out.size() * 4);
  return out;
}

enum class Zero { at_end, at_start };

/// Forward, backward and the gradients' bits of one step.
std::vector<uint32_t> step(const Tensors& leaves, uint32_t seed, Zero zero) {
  const auto clear = [&] { for (const Tensor& leaf : leaves) leaf.set_grad({}); };
  if (zero == Zero::at_start) clear();
  std::mt19937 rng(seed);
  {
    Tape tape;
    const Tensor out = random_graph(rng, leaves, 2);
    tape.backward(Tensors{out}, {});
  }
  std::vector<uint32_t> result;
  for (const Tensor& leaf : leaves) {
    if (!leaf.grad().defined() || leaf.device().meta) continue;
    const auto more = bits(leaf.grad());
    result.insert(result.end(), more.begin(), more.end());
  }
  if (zero == Zero::at_end) clear();
  return result;
}

Plan plan_of(uint32_t seed, Zero zero) {
  auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  const Tensors leaves = make_leaves(meta());
  step(leaves, seed, zero);
  return record_plan(ledger, [&] { step(leaves, seed, zero); });
}

TEST(Arena, RandomTapesGiveTheSameBits) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const Zero zero = seed % 2 ? Zero::at_end : Zero::at_start;
    const Plan plan = plan_of(seed, zero);
    auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    const Tensors leaves = make_leaves(cpu);
    const auto expected = step(leaves, seed, zero);
    const auto arena = std::make_shared<Arena>(plan, ArenaOptions{.poison = true});
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<uint32_t> got;
      const Plan measured = record_plan(ledger, [&] {
        const ArenaStep in(arena);
        got = step(leaves, seed, zero);
        in.finish();
      });
      ASSERT_EQ(got, expected) << "seed " << seed << ", step " << repeat;
      ASSERT_EQ(first_difference(plan.events, measured.events), "");
      ASSERT_EQ(measured.peak, plan.peak);
    }
    ASSERT_EQ(arena->high_water(), arena->size());
    ASSERT_EQ(arena->spilled_bytes(), 0);
    ASSERT_GE(arena->size(), arena->bound());
    ASSERT_LE(double(arena->size()), 1.25 * double(arena->bound())) << "seed " << seed;
    if (zero == Zero::at_end) {
      ASSERT_EQ(arena->lasting_bytes(), 0);
      ASSERT_EQ(arena->live_bytes(), 0);
    }
  }
}

/// A plan of allocations only: `made(shapes)` as tensors, all dropped at the end.
template <class F>
Plan record(F&& f) {
  auto ledger = std::make_shared<Ledger>();
  return record_plan(ledger, f);
}

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const PlanError& error) {
    return error.what();
  }
  return "nothing was thrown";
}
void expect_text(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in: " << text;
}

TEST(Arena, DeparturesNameOpAndSizes) {
  const auto two = [](int64_t n, Device device) {
    const Tensor a = empty({n}, Dtype::f32, device);
    return sum_gradients(a, a);
  };
  const Plan plan = record([&] { two(100, meta()); });
  const auto arena = std::make_shared<Arena>(plan);
  {
    const ArenaStep in(arena);
    two(100, cpu);
    expect_text(message([&] { two(100, cpu); }), {"one allocation more than the 2 planned", "400 bytes"});
  }
  {
    const ArenaStep in(arena);
    expect_text(message([&] { in.finish(); }), {"0 of 2 planned allocations", "400 bytes"});
    const Tensor a = empty({100});
    const Tensor big = [] {
      const With<std::shared_ptr<Allocator>> system(&Ambient::allocator, system_allocator());
      return empty({200});
    }();
    expect_text(message([&] { sum_gradients(big, big); }), {"sum_gradients asks for 800 bytes", "planned as 400 bytes by sum_gradients"});
    expect_text(message([&] { empty({100}); }), {"no op asks for 400 bytes", "by sum_gradients"});
  }
  expect_text(message([&] { arena->allocate(400); }), {"outside a step"});
}

TEST(Arena, HoldingOnLongerThanPlannedIsAnErrorBeforeAnythingIsOverwritten) {
  const Plan plan = record([] {
    { const Tensor a = empty({64}, Dtype::f32, meta()); }
    { const Tensor b = empty({64}, Dtype::f32, meta()); }
  });
  const auto arena = std::make_shared<Arena>(plan);
  EXPECT_EQ(arena->size(), 256);
  Tensor held;
  {
    const ArenaStep in(arena);
    held = full({64}, 3);
    expect_text(message([] { empty({64}); }), {"planned to reuse bytes of", "256 bytes are still alive"});
    EXPECT_EQ(held.to_vector<double>(), std::vector<double>(64, 3.0));
  }
  expect_text(message([&] { arena->begin_step(); }), {"from the step before are still alive"});
  held = {};
  arena->begin_step();
}

TEST(Arena, WhatOutlivesTheStepHasAPlaceOfItsOwnAndSpillsWhenHeld) {
  Tensors kept;
  const auto body = [&](Device device) {
    const Tensor a = empty({16}, Dtype::f32, device);
    kept.push_back(empty({16}, Dtype::f32, device));
    const Tensor b = empty({16}, Dtype::f32, device);
  };
  const Plan plan = record([&] { body(meta()); });
  kept.clear();
  auto arena = std::make_shared<Arena>(plan, ArenaOptions{.poison = true});
  EXPECT_EQ(arena->lasting_bytes(), 64);
  EXPECT_EQ(arena->size(), 3 * 64);
  for (int i = 0; i < 3; ++i) {
    const ArenaStep in(arena);
    body(cpu);
    fill(kept.back(), i);
  }
  EXPECT_EQ(arena->spilled_bytes(), 2 * 64);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(kept[size_t(i)].to_vector<double>(), std::vector<double>(16, double(i)));
  std::weak_ptr<Arena> watch = arena;
  arena.reset();
  EXPECT_FALSE(watch.expired()) << "tensors keep the arena alive";
  kept.clear();
  EXPECT_TRUE(watch.expired());
}

TEST(Arena, AStepThatThrewCanBeStartedAgain) {
  const Plan plan = record([] { const Tensor a = empty({8}, Dtype::f32, meta()), b = empty({8}, Dtype::f32, meta()); });
  const auto arena = std::make_shared<Arena>(plan);
  { const ArenaStep in(arena); const Tensor a = empty({8}); }
  { const ArenaStep in(arena); const Tensor a = empty({8}), b = empty({8}); in.finish(); }
  EXPECT_EQ(arena->steps(), 2);
  EXPECT_EQ(arena->live_bytes(), 0);
}

TEST(Arena, AnEmptyPlan) {
  const auto arena = std::make_shared<Arena>(Plan{});
  const ArenaStep in(arena);
  EXPECT_EQ(empty({0}).numel(), 0);
  in.finish();
  EXPECT_EQ(arena->size(), 0);
}

}  // namespace
}  // namespace spool::test
