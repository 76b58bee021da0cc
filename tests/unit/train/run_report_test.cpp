// What a run's report says of a model's step.
#include <spool/autograd/report.h>

#include "support.h"
#include "train/step.h"

namespace spool::train::testing {
namespace {

MemoryReport report_of(const RunConfig& config) {
  const StepPlan plan = plan_step(config, false);
  return make_report(plan.step, {plan.history.begin(), plan.history.end() - std::ptrdiff_t(plan.step.events.size())});
}

/// The record of the last block is wanted again before the peak has moved; those of the others are not.
TEST(RunReport, RecomputingTheLastBlockSavesNothing) {
  RunConfig config = resolve({.preset = "llama-tiny", .file = {}, .hf = {}, .settings = {}});
  config.train.recompute = nn::Recompute::block;
  const int64_t blocks = config.model.llama.num_hidden_layers;
  const MemoryReport r = report_of(config);
  int64_t count = 0, useful = 0;
  for (const ScopeShare& s : r.scopes) {
    EXPECT_EQ(s.name, "block");
    EXPECT_EQ(s.kept, config.data.batch * (config.data.seq - 1) * config.model.llama.hidden_size * 4) << "its input";
    EXPECT_GT(s.dropped, 10 * s.kept);
    EXPECT_GE(s.working_set, s.dropped);
    count += s.count;
    useful += s.saves_nothing ? 0 : s.count;
    if (s.saves_nothing) {
      EXPECT_EQ(s.module, "model.layers." + std::to_string(blocks - 1));
    }
  }
  EXPECT_EQ(count, blocks);
  EXPECT_EQ(useful, blocks - 1);
  config.train.recompute = nn::Recompute::none;
  EXPECT_TRUE(report_of(config).scopes.empty());
}

}  // namespace
}  // namespace spool::train::testing
