// Scopes for a budget: as good as trying all of them, never dearer when there is more memory.
#include <spool/autograd/chain.h>

#include "tests/support.h"

namespace spool::test {
namespace {

std::vector<ChainBlock> random_chain(Generator& random, int64_t count) {
  std::vector<ChainBlock> blocks;
  for (int64_t i = 0; i < count; ++i) blocks.push_back({random.integer(1, 40), random.integer(0, 400), random.integer(0, 60), double(random.integer(1, 1000))});
  return blocks;
}

/// All 2ⁿ choices.
ChainPlan by_trying(const std::vector<ChainBlock>& blocks, int64_t budget, int64_t loss) {
  ChainPlan best;
  for (uint32_t mask = 0; mask < uint32_t(1) << blocks.size(); ++mask) {
    ChainPlan plan;
    for (size_t i = 0; i < blocks.size(); ++i) {
      plan.recompute.push_back(mask >> i & 1);
      if (plan.recompute[i]) plan.work += blocks[i].work;
    }
    plan.peak = chain_peak(blocks, plan.recompute, loss);
    plan.fits = plan.peak <= budget;
    const bool first = mask == 0;
    const bool better = plan.fits ? !best.fits || plan.work < best.work : !best.fits && (plan.peak < best.peak || (plan.peak == best.peak && plan.work < best.work));
    if (first || better) best = plan;
  }
  return best;
}

TEST(Chain, IsAsGoodAsTryingAllScopes) {
  Generator random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const std::vector<ChainBlock> blocks = random_chain(random, 1 + trial % 12);
    const int64_t loss = random.integer(0, 300);
    const int64_t most = chain_peak(blocks, std::vector<bool>(blocks.size(), false), loss), least = chain_peak(blocks, std::vector<bool>(blocks.size(), true), loss);
    for (int64_t k = 0; k < 10; ++k) {
      const int64_t budget = least - 20 + (most - least + 40) * k / 9;
      const ChainPlan plan = plan_chain(blocks, budget, loss), best = by_trying(blocks, budget, loss);
      ASSERT_EQ(plan.fits, best.fits) << trial << " " << budget;
      EXPECT_EQ(plan.peak, chain_peak(blocks, plan.recompute, loss));
      EXPECT_EQ(plan.fits ? plan.work : double(plan.peak), best.fits ? best.work : double(best.peak)) << trial << " " << budget;
    }
  }
}

TEST(Chain, LessMemoryIsNeverLessWork) {
  Generator random(4);
  const std::vector<ChainBlock> blocks = random_chain(random, 32);
  const int64_t most = chain_peak(blocks, std::vector<bool>(32, false)), least = chain_peak(blocks, std::vector<bool>(32, true));
  double before = -1;
  for (int64_t k = 0; k <= 100; ++k) {
    const int64_t budget = most - (most - least) * k / 100;
    const ChainPlan plan = plan_chain(blocks, budget);
    ASSERT_TRUE(plan.fits);
    EXPECT_LE(plan.peak, budget);
    EXPECT_GE(plan.work, before);
    before = plan.work;
  }
  EXPECT_FALSE(plan_chain(blocks, least - 1).fits);
}

TEST(Chain, OfEqualBlocksTheFirstOnesAreRecomputedAndNeverTheLast) {
  const std::vector<ChainBlock> blocks(6, ChainBlock{10, 100, 5, 1});
  for (int64_t budget = 165; budget < 700; budget += 7) {
    const ChainPlan plan = plan_chain(blocks, budget);
    EXPECT_TRUE(plan.fits);
    EXPECT_FALSE(plan.recompute[5]);  // its record is needed at once
  }
  EXPECT_EQ(plan_chain(blocks, 665).work, 0);
  EXPECT_EQ(plan_chain(blocks, 664).work, 1);
}

}  // namespace
}  // namespace spool::test
