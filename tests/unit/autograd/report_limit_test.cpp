// The report of a step that does not fit ends with the first event that the limit forbids.
#include <spool/autograd/report.h>
#include <spool/tensor/error.h>

namespace spool::test {
namespace {

struct Recorded {
  std::vector<Event> before;
  Plan plan;
};
Recorded random_step(uint64_t seed) {
  Generator random(seed);
  const auto ledger = std::make_shared<Ledger>();
  ledger->recording(true);
  const With on(&Ambient::ledger, ledger);
  Tensors pool;
  const auto acts = [&](int64_t count) {
    constexpr const char* ops[] = {"", "matmul", "softmax"};
    for (int64_t i = 0; i < count; ++i) {
      const With op(&Ambient::op, ops[random.integer(0, 3)]);
      const With category(&Ambient::category, Category(random.integer(0, category_count)));
      if (pool.empty() || random.integer(0, 5) < 3) pool.push_back(empty({random.integer(0, 5000)}, Dtype::u8, meta()));
      else if (random.integer(0, 3) == 0) pool[size_t(random.integer(0, int64_t(pool.size())))].storage()->mark(Category(random.integer(0, category_count)));
      else pool.erase(pool.begin() + random.integer(0, int64_t(pool.size())));
    }
  };
  acts(random.integer(0, 40));
  Recorded r;
  r.before = ledger->take_events();
  r.plan = record_plan(ledger, [&] { acts(random.integer(1, 300)); });
  return r;
}

TEST(ReportLimit, EndsWithTheFirstEventBeyondTheLimit) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Recorded step = random_step(seed);
    Generator random(seed);
    const int64_t limit = random.integer(0, step.plan.peak + 100);
    const MemoryReport r = limited_report(step.plan, limit, step.before);
    if (limit >= step.plan.peak) {
      EXPECT_FALSE(r.limit);
      EXPECT_EQ(r.peak, step.plan.peak);
      continue;
    }
    ASSERT_TRUE(r.limit);
    EXPECT_EQ(r.limit->bytes, limit);
    EXPECT_EQ(r.limit->needed, step.plan.peak);
    EXPECT_EQ(r.peak_event, r.events - 1) << "the last event is the one that does not fit";
    int64_t live = step.plan.base;
    for (int64_t i = 0; i < r.peak_event; ++i) {
      const Event& e = step.plan.events[size_t(i)];
      if (e.kind == Event::Kind::allocate) live += e.bytes;
      if (e.kind == Event::Kind::release) live -= e.bytes;
      ASSERT_LE(live, limit) << "seed " << seed << ", event " << i;
    }
    if (r.peak_event >= 0) live += step.plan.events[size_t(r.peak_event)].bytes;
    EXPECT_GT(live, limit);
    EXPECT_EQ(r.peak, live);
    int64_t listed = 0;
    for (const LiveBuffer& b : r.live) {
      listed += b.bytes;
      bool released = false;
      for (const Event& e : step.plan.events) released = released || (e.kind == Event::Kind::release && e.id == b.id);
      EXPECT_EQ(released, b.released >= 0) << "when a buffer goes is known beyond the cut";
    }
    EXPECT_EQ(listed, live);
    EXPECT_EQ(r.at_peak.total(), live);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(ReportLimit, SaysWhatDoesNotFitAndWhatWould) {
  const auto ledger = std::make_shared<Ledger>();
  const Plan plan = record_plan(ledger, [&] {
    ledger->allocate(1000, Category::saved, intern_path("layers.0"), "linear");
    ledger->allocate(500, Category::temporary, intern_path("layers.1.up"), "gelu");
    ledger->allocate(700, Category::temporary, intern_path("layers.2"), "linear");
    ledger->phase("backward");
  });
  MemoryReport r = limited_report(plan, 1200);
  r.suggestions.push_back({"recompute the first 4 blocks", "--set train.recompute=block:4", 1100, 0.125});
  const std::string text = report_text(r), page = report_html(r), json = report_json(r);
  for (const char* part : {"the step needs 2,200 B", "the limit is 1,200 B", "first beyond it  1,500 B", "gelu in layers.1.up, forward", "at event 1 of 2", "recompute the first 4 blocks",
                           "--set train.recompute=block:4", "+12.5 %", "1,100"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("layers.2"), std::string::npos) << text;
  EXPECT_NE(page.find("the limit is 1,200 B"), std::string::npos);
  EXPECT_NE(page.find("<code>--set train.recompute=block:4</code>"), std::string::npos);
  EXPECT_NE(json.find("\"limit\": {\"bytes\": 1200, \"needed\": 2200}"), std::string::npos);
  EXPECT_NE(json.find("\"extra_work\": 0.125"), std::string::npos);
  EXPECT_EQ(limited_report(plan, 1500).peak_event, 2) << "what just fits is no reason";
  EXPECT_EQ(limited_report(plan, 1499).peak_event, 1);
  EXPECT_NE(report_text(limited_report(plan, -1)).find("what the step begins with is too much"), std::string::npos);
}

}  // namespace
}  // namespace spool::test
