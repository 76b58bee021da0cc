// What a run's report says of a model's step.
#include <spool/autograd/report.h>

#include <nlohmann/json.hpp>

#include "support.h"
#include "train/report_difference.h"
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
  config.train.recompute = nn::Recompute::first_blocks(blocks - 1);
  EXPECT_EQ(report_of(config).peak, r.peak) << "without it the peak is the same";
  config.train.recompute = nn::Recompute::first_blocks(blocks - 2);
  EXPECT_GT(report_of(config).peak, r.peak) << "and without another it is not";
  config.train.recompute = nn::Recompute::none;
  EXPECT_TRUE(report_of(config).scopes.empty());
}

nlohmann::ordered_json report_json_of(int64_t saved, const char* module, const char* op) {
  const auto ledger = std::make_shared<Ledger>();
  return nlohmann::ordered_json::parse(report_json(make_report(record_plan(ledger, [&] {
    ledger->allocate(100, Category::parameter, intern_path("head"), "");
    ledger->allocate(saved, Category::saved, intern_path(module), op);
  }))));
}

TEST(RunReport, TheDifferenceListsWhatDiffersAndNothingElse) {
  auto a = report_json_of(5000, "layers.0", "linear"), b = report_json_of(6500, "layers.1", "linear");
  b["peak"]["measured"] = 6600;
  const ReportDifference d = compare_reports(a, b);
  EXPECT_EQ(difference_text(d, "a", "b"),
            "a and b: bytes at the peak that differ\n"
            "\n"
            "  by peak                                         before             after        difference\n"
            "  planned                                          5,100             6,600            +1,500\n"
            "  measured                                             –             6,600\n"
            "\n"
            "  by category                                     before             after        difference\n"
            "  saved                                            5,000             6,500            +1,500\n"
            "\n"
            "  by candidate                                    before             after        difference\n"
            "  step                                             5,100             6,600            +1,500\n"
            "\n"
            "  by module                                       before             after        difference\n"
            "  layers.1                                             0             6,500            +6,500\n"
            "  layers.0                                         5,000                 0            -5,000\n"
            "\n"
            "  by op                                           before             after        difference\n"
            "  linear                                           5,000             6,500            +1,500\n");
  const auto json = difference_json(d, "a", "b");
  EXPECT_EQ(json["same"], false);
  ASSERT_EQ(json["differences"].size(), 7u);
  EXPECT_EQ(json["differences"][1].dump(), R"({"part":"peak","name":"measured","before":null,"after":6600,"difference":null})");
  EXPECT_EQ(difference_text(compare_reports(a, a), "a", "a"), "a and a: the same\n");
  EXPECT_EQ(difference_json(compare_reports(b, b), "b", "b")["same"], true);
}

}  // namespace
}  // namespace spool::train::testing
