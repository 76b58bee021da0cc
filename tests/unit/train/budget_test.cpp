// Choosing how a step is computed: within its budget, for the least work, as the plan has it; and what suggestions promise.
#include <spool/tensor/error.h>

#include "tests/support.h"
#include "train/budget.h"
#include "train/models.h"

namespace spool::test {
namespace {

using namespace spool::train;

constexpr int64_t gib = int64_t(1) << 30;

/// TinyLlama-1.1B in bf16 with f32 master weights and AdamW, 2,048 positions.
RunConfig tinyllama(int64_t batch, int64_t loss_chunk) {
  RunConfig config = plan_config(*find_known_model("tinyllama"));
  config.data.batch = batch;
  config.data.seq = 2049;
  config.train.loss_chunk = loss_chunk;
  return config;
}

TEST(Budget, TinyLlamaIn24GiBRecomputesAsFewBlocksAsItCan) {
  for (const auto& [batch, loss_chunk, blocks] : {std::tuple(4, 0, 4), std::tuple(4, 1024, 2), std::tuple(8, 0, 15), std::tuple(8, 1024, 13)}) {
    RunConfig config = tinyllama(batch, loss_chunk);
    const auto peak = [&](int64_t count) {
      config.train.recompute = nn::Recompute::first_blocks(count);
      return closed_form(config, false)->peak.bytes;
    };
    EXPECT_LE(peak(blocks), 24 * gib) << batch << " " << loss_chunk;
    EXPECT_GT(peak(blocks - 1), 24 * gib) << batch << " " << loss_chunk;
    EXPECT_EQ(plan_step(config, false).step.peak, peak(blocks - 1));
  }
}

TEST(Budget, TheChoiceIsNoDearerThanAnyOtherThatFits) {
  for (const int64_t batch : {4, 8}) {
    const RunConfig given = tinyllama(batch, 0);
    const std::set<std::string> fixed{"train.loss_chunk", "train.recompute_ops", "train.feed_forward_chunk"};
    const Budget ways(given, fixed);
    const std::optional<Way> chosen = ways.choose(24 * gib);
    ASSERT_TRUE(chosen);
    EXPECT_LE(chosen->peak, 24 * gib);
    EXPECT_EQ(plan_run(chosen->config).step.peak, chosen->peak);
    for (const nn::Recompute::Scope scope : {nn::Recompute::Scope::attention, nn::Recompute::Scope::block})
      for (int64_t count = 1; count <= 22; ++count) {
        RunConfig other = given;
        other.train.recompute = {scope, count, 1, false};
        const nn::Estimate e = *closed_form(other, false);
        if (e.peak.bytes > 24 * gib) continue;
        EXPECT_GE(e.work / ways.plain_work() - 1, chosen->extra_work - 1e-12) << to_string(other.train.recompute);
      }
    // What is free besides makes it cheaper still: gated products can be made again for next to nothing.
    EXPECT_LT(Budget(given).choose(24 * gib)->extra_work, chosen->extra_work);
  }
}

TEST(Budget, LessMemoryIsNeverLessWork) {
  RunConfig llama = tinyllama(2, 0);
  RunConfig performer;
  performer.data.seq = 4097;
  for (const RunConfig& config : {llama, performer}) {
    const Budget ways(config);
    const int64_t most = ways.plain().peak, least = ways.least().peak;
    double before = -1;
    for (int64_t k = 0; k <= 100; ++k) {
      const int64_t budget = most - (most - least) * k / 100;
      const std::optional<Way> way = ways.choose(budget);
      ASSERT_TRUE(way) << budget;
      EXPECT_LE(way->peak, budget);
      EXPECT_GE(way->extra_work, before);
      before = way->extra_work;
    }
    EXPECT_FALSE(ways.choose(least - 1));
  }
}

TEST(Budget, AnImpossibleOneNamesTheLeastThatIsFeasible) {
  const RunConfig config = tinyllama(4, 0);
  const int64_t least = Budget(config).least().peak;
  try {
    choose_within(config, {}, least - 1);
    FAIL() << "a budget below the least was met";
  } catch (const PlanError& error) {
    EXPECT_NE(std::string(error.what()).find(with_separators(least)), std::string::npos) << error.what();
  }
  EXPECT_EQ(choose_within(config, {}, least).way.peak, least);
  // Everything recomputed and the loss in pieces: at least the state of 14 bytes a parameter, and far less than 3 GiB on top of it.
  EXPECT_GT(least, 14 * int64_t(1'100'048'384));
  EXPECT_LT(least, 14 * int64_t(1'100'048'384) + 3 * gib);
}

TEST(Budget, WhatIsSetStays) {
  const RunConfig config = tinyllama(8, 0);
  const Way way = *Budget(config, {"train.loss_chunk"}).choose(24 * gib);
  EXPECT_EQ(way.config.train.loss_chunk, 0);
  EXPECT_NE(Budget(config).least().config.train.loss_chunk, 0);
}

TEST(Budget, SuggestionsKeepTheirPromise) {
  RunConfig gpt, performer;
  gpt.model.type = ModelType::gpt;
  gpt.data.batch = 3;
  performer.data.seq = 2049;
  for (const RunConfig& config : {tinyllama(4, 0), gpt, performer}) {
    const std::vector<Suggestion> all = suggestions(config);
    const int64_t peak = plan_run(config).step.peak;
    ASSERT_FALSE(all.empty());
    for (const Suggestion& s : all) {
      RunConfig changed = config;
      Fields fields = fields_of(changed);
      for (size_t at = s.how.find("--set "); at != std::string::npos; at = s.how.find("--set ", at + 1)) {
        std::string setting = s.how.substr(at + 6, s.how.find(" --set", at) - at - 6);
        std::erase(setting, '\'');
        apply(fields, parse_override(setting));
      }
      EXPECT_EQ(plan_run(changed).step.peak, s.peak) << s.change << ": " << s.how;
      EXPECT_LT(s.peak, peak) << s.change;
    }
  }
}

}  // namespace
}  // namespace spool::test
