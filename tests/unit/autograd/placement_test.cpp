// Placement: no two buffers that are alive together overlap (checked pair by pair), the portfolio never loses to online best fit, training
// steps are placed at the bound, and large problems are quick.
#include <spool/autograd/placement.h>
#include <spool/tensor/error.h>

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace spool::test {
namespace {

using Buffers = std::vector<PlacedBuffer>;
constexpr PlacementMethod methods[] = {PlacementMethod::online_best_fit, PlacementMethod::time_order, PlacementMethod::decreasing_size, PlacementMethod::size_then_time,
                                       PlacementMethod::decreasing_area, PlacementMethod::from_the_peak, PlacementMethod::reordered};

/// Everything that is wrong with a placement, found without any of the placement's own machinery.
std::string fault(const Buffers& buffers, const Placement& placed, int64_t alignment = 64) {
  if (placed.offsets.size() != buffers.size()) return "offsets are missing";
  int64_t top = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t low = placed.offsets[i], high = low + buffers[i].bytes;
    if (low < 0 || low % alignment) return "buffer " + std::to_string(i) + " is not aligned";
    if (buffers[i].bytes) top = std::max(top, high);
    for (size_t j = 0; j < i; ++j) {
      const bool together = buffers[i].begin < buffers[j].end && buffers[j].begin < buffers[i].end;
      if (together && low < placed.offsets[j] + buffers[j].bytes && placed.offsets[j] < high) return std::to_string(i) + " overlaps " + std::to_string(j);
    }
  }
  if (top > placed.size) return "the size does not cover all buffers";
  if (placed.size < placed.bound) return "smaller than the bound";
  return "";
}

/// The largest live set by looking at every instant.
int64_t slow_bound(const Buffers& buffers, int64_t alignment = 64) {
  int64_t bound = 0;
  for (const PlacedBuffer& at : buffers) {
    int64_t live = 0;
    for (const PlacedBuffer& b : buffers)
      if (b.begin <= at.begin && at.begin < b.end) live += (b.bytes + alignment - 1) / alignment * alignment;
    bound = std::max(bound, live);
  }
  return bound;
}

Buffers random_buffers(std::mt19937_64& rng, int count) {
  Buffers buffers;
  std::uniform_int_distribution<int64_t> time(0, 2 * count), small(0, 5000);
  std::exponential_distribution<double> life(1.0 / (1 + double(rng() % uint64_t(count))));
  for (int i = 0; i < count; ++i) {
    const int64_t begin = time(rng);
    buffers.push_back({begin, begin + 1 + int64_t(life(rng)), rng() % 4 ? small(rng) : small(rng) * 40});
  }
  return buffers;
}

/// A training step of `layers` equal layers: saved tensors nest, temporaries come and go, and with `recompute` a layer runs again in backward.
Buffers training_step(int layers, bool recompute) {
  Buffers buffers;
  int64_t now = 0;
  const int64_t sizes[] = {4096, 4096, 4096, 4096, 8192, 8192, 11008, 11008, 11008, 128};
  std::vector<std::vector<size_t>> saved;
  const auto forward = [&](bool keep) {
    std::vector<size_t> mine;
    for (const int64_t size : sizes) {
      buffers.push_back({now, now + 3, size * 1024});  // a temporary
      ++now;
      buffers.push_back({now, now + 4, size * 1000});
      ++now;
      if (keep) mine.push_back(buffers.size() - 1);
    }
    return mine;
  };
  for (int layer = 0; layer < layers; ++layer) {
    buffers.push_back({now++, 0, 4096 * 1024});
    saved.push_back({buffers.size() - 1});
    const auto mine = forward(!recompute);
    saved.back().insert(saved.back().end(), mine.begin(), mine.end());
  }
  for (int layer = layers - 1; layer >= 0; --layer) {
    if (recompute) {
      const auto mine = forward(true);
      saved[size_t(layer)].insert(saved[size_t(layer)].end(), mine.begin(), mine.end());
    }
    while (!saved[size_t(layer)].empty()) {
      buffers.push_back({now, now + 3, buffers[saved[size_t(layer)].back()].bytes});
      now += 2;
      buffers[saved[size_t(layer)].back()].end = now++;
      saved[size_t(layer)].pop_back();
    }
  }
  return buffers;
}

TEST(Placement, NothingAndOne) {
  EXPECT_EQ(place(Buffers{}).size, 0);
  const Placement one = place(Buffers{{0, 5, 100}});
  EXPECT_EQ(one.size, 128);
  EXPECT_EQ(one.bound, 128);
  const Placement empty = place(Buffers{{0, 5, 0}, {3, 3, 100}});
  EXPECT_EQ(empty.size, 0);
}

TEST(Placement, ReusesWhatEnded) {
  const Buffers buffers{{0, 2, 64}, {1, 3, 64}, {2, 4, 64}, {3, 5, 64}};
  const Placement placed = place(buffers);
  EXPECT_EQ(fault(buffers, placed), "");
  EXPECT_EQ(placed.size, 128);
}

TEST(Placement, RejectsNonsense) {
  EXPECT_THROW(place(Buffers{{5, 4, 8}}), PlanError);
  EXPECT_THROW(place(Buffers{{0, 1, -8}}), PlanError);
  EXPECT_THROW(place(Buffers{{0, 1, 8}}, 0), PlanError);
}

TEST(Placement, RandomGraphsAreValidAndNeverAboveOnlineBestFit) {
  std::mt19937_64 rng(7);
  for (int round = 0; round < 1000; ++round) {
    const Buffers buffers = random_buffers(rng, 1 + int(rng() % 150));
    const int64_t alignment = round % 3 == 0 ? 1 : round % 3 == 1 ? 64 : 256;
    const int64_t bound = slow_bound(buffers, alignment);
    const Placement best = place(buffers, alignment);
    ASSERT_EQ(fault(buffers, best, alignment), "") << "round " << round;
    ASSERT_EQ(best.bound, bound);
    ASSERT_EQ(largest_live_set(buffers, alignment), bound);
    ASSERT_LE(best.size, place(buffers, PlacementMethod::online_best_fit, alignment).size);
    for (const PlacementMethod method : methods) {
      const Placement placed = place(buffers, method, alignment);
      ASSERT_EQ(fault(buffers, placed, alignment), "") << placement_method_name(method) << ", round " << round;
      if (method == PlacementMethod::reordered) continue;  // it starts from what the others found
      ASSERT_LE(best.size, placed.size);
    }
  }
}

TEST(Placement, TrainingStepsAreWithinOnePercentOfTheBound) {
  for (const int layers : {1, 2, 12, 32}) {
    for (const bool recompute : {false, true}) {
      const Buffers buffers = training_step(layers, recompute);
      const Placement placed = place(buffers);
      EXPECT_EQ(fault(buffers, placed), "");
      EXPECT_LE(double(placed.size), 1.01 * double(placed.bound)) << layers << (recompute ? " layers, recomputed" : " layers");
    }
  }
}

TEST(Placement, IsQuickNightly) {  // by the clock, so not among the tests that must pass on a busy machine
  std::mt19937_64 rng(11);
  const auto seconds = [&](int count) {
    const Buffers buffers = random_buffers(rng, count);
    const auto start = std::chrono::steady_clock::now();
    const Placement placed = place(buffers);
    EXPECT_GE(placed.size, placed.bound);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double few = seconds(2000), many = seconds(20000);
  RecordProperty("milliseconds_2000", int(1e3 * few));
  RecordProperty("milliseconds_20000", int(1e3 * many));
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(few, 0.25) << "0.05 s on an idle machine";
  EXPECT_LT(many, 4.0) << "1 s on an idle machine";
#endif
}

}  // namespace
}  // namespace spool::test
