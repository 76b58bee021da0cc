// The memory report: its sums are exact, its live set is complete, its peak is the ledger's, and its text and JSON say the same.
#include <spool/autograd/custom_vjp.h>
#include <spool/autograd/report.h>
#include <spool/autograd/sum_gradients.h>
#include <spool/autograd/tape.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace spool::test {
namespace {

Tensor layer(const Tensor& x, const Tensor& w) {
  const auto body = [](const Tensors& in) { return Tensors{contiguous_copy(in[0])}; };
  const auto rule = [](Saved& s) { return Tensors{s.grad(), contiguous_copy(s.grad())}; };
  return custom_vjp("layer", body, rule, Saves().input(0).output(0), {x, w})[0];
}

/// A model of `layers` weights with two moments each, its whole history, and one recorded step.
struct Recorded {
  std::vector<Event> before;
  Plan plan;
};
Recorded record_step(int layers, bool history = true, bool hold = false) {
  auto ledger = std::make_shared<Ledger>();
  ledger->recording(history);
  const With on(&Ambient::ledger, ledger);
  Tensors weights, moments;
  for (int i = 0; i < layers; ++i) {
    const PathScope path("layers." + std::to_string(i));
    {
      const With category(&Ambient::category, Category::parameter);
      weights.push_back(empty({64, 32}, Dtype::f32, meta()).requires_grad(true));
    }
    const With category(&Ambient::category, Category::optimizer);
    for (int k = 0; k < 2; ++k) moments.push_back(empty({64, 32}, Dtype::f32, meta()));
  }
  Tensors held;
  const auto step = [&] {
    {
      Tape tape;
      Tensor x = empty({64, 32}, Dtype::f32, meta());
      for (int i = 0; i < layers; ++i) {
        const PathScope path("layers." + std::to_string(i));
        x = layer(x, weights[size_t(i)]);
      }
      if (hold) held.push_back(x);
      tape.backward(Tensors{x}, {});
    }
    const Phase phase("optimizer step");
    const With op(&Ambient::op, "adam");
    for (const Tensor& w : weights) w.set_grad({});
  };
  step();
  Recorded r;
  if (history) r.before = ledger->take_events();
  r.plan = record_plan(ledger, step);
  return r;
}

template <class T, class F>
int64_t sum_of(const std::vector<T>& all, F member) {
  int64_t sum = 0;
  for (const T& one : all) sum += one.*member;
  return sum;
}

void expect_exact(const MemoryReport& r, const Plan& plan) {
  EXPECT_EQ(r.peak, plan.peak);
  EXPECT_EQ(r.base, plan.base);
  EXPECT_EQ(r.at_peak.bytes, plan.at_peak.bytes);
  EXPECT_EQ(r.at_peak.total(), plan.peak);
  EXPECT_EQ(r.base_by_category.total(), plan.base);
  EXPECT_EQ(sum_of(r.by_op, &MemoryShare::at_peak), plan.peak);
  EXPECT_EQ(sum_of(r.by_module, &MemoryShare::at_peak), plan.peak);
  EXPECT_EQ(sum_of(r.by_op, &MemoryShare::allocated), r.allocated);
  EXPECT_EQ(sum_of(r.by_module, &MemoryShare::allocations), r.allocations);
  EXPECT_EQ(sum_of(r.live, &LiveBuffer::bytes), plan.peak);
  CategoryBytes live;
  for (const LiveBuffer& b : r.live) {
    live[b.category] += b.bytes;
    EXPECT_FALSE(b.why.empty());
    EXPECT_LE(b.born, r.peak_event);
    EXPECT_TRUE(b.released < 0 || b.released > r.peak_event);
  }
  EXPECT_EQ(live.bytes, plan.at_peak.bytes);
  int64_t winner = 0, highest = 0;
  for (const PeakCandidate& c : r.candidates) winner = std::max(winner, c.bytes);
  for (const TimelinePoint& p : r.timeline) highest = std::max(highest, p.bytes.total());
  EXPECT_EQ(winner, plan.peak);
  EXPECT_EQ(highest, plan.peak);
  EXPECT_LE(r.timeline.size(), size_t(timeline_points));
}

TEST(Report, NamesEverythingWhenTheHistoryIsGiven) {
  const Recorded step = record_step(6);
  const MemoryReport r = make_report(step.plan, step.before);
  expect_exact(r, step.plan);
  for (const LiveBuffer& b : r.live) EXPECT_NE(b.id, 0u);
  EXPECT_EQ(r.at_peak[Category::parameter], 6 * 8192);
  EXPECT_EQ(r.at_peak[Category::optimizer], 12 * 8192);
  ASSERT_EQ(r.by_module[0].name.rfind("layers.", 0), 0u);
  std::vector<std::string> parts;
  for (const PeakCandidate& c : r.candidates) parts.push_back(c.at);
  EXPECT_EQ(parts, (std::vector<std::string>{"forward", "start of backward", "end of backward", "optimizer step"}));
  EXPECT_NE(r.peak_phase.find("backward"), std::string::npos);
  const auto saved = std::find_if(r.live.begin(), r.live.end(), [](const LiveBuffer& b) { return b.category == Category::saved; });
  ASSERT_NE(saved, r.live.end());
  EXPECT_EQ(saved->why.rfind("saved by layer for backward", 0), 0u);
}

TEST(Report, TheEndOfBackwardCountsEvenWhenNothingIsAllocatedTowardsIt) {
  auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  const MemoryReport r = make_report(record_plan(ledger, [] {
    const With category(&Ambient::category, Category::saved);
    Tensor kept = empty({100}, Dtype::u8, meta());
    Tensor gradient;
    const Phase phase("backward");
    gradient = empty({10}, Dtype::u8, meta());
    kept = {};
  }));
  ASSERT_EQ(r.candidates.size(), 3u);
  EXPECT_EQ(r.candidates[1].at, "start of backward");
  EXPECT_EQ(r.candidates[1].bytes, 110);
  EXPECT_EQ(r.candidates[2].at, "end of backward");
  EXPECT_EQ(r.candidates[2].bytes, 10);
}

TEST(Report, AddsUpWithoutHistory) {
  for (const bool hold : {false, true}) {
    const Recorded step = record_step(5, false, hold);
    const MemoryReport r = make_report(step.plan);
    expect_exact(r, step.plan);
    EXPECT_EQ(r.base_by_category[Category::parameter], 5 * 8192);
    EXPECT_NE(report_text(r).find("(not recorded)"), std::string::npos);
  }
}

/// Random allocations, marks and releases, before the step and in it.
TEST(Report, RandomHistoriesAreExact) {
  std::mt19937 rng(3);
  for (int round = 0; round < 300; ++round) {
    auto ledger = std::make_shared<Ledger>();
    const bool history = round % 2;
    ledger->recording(history);
    const With on(&Ambient::ledger, ledger);
    Tensors pool;
    const auto act = [&](int count) {
      constexpr const char* ops[] = {"", "matmul", "softmax"};
      for (int i = 0; i < count; ++i) {
        const With op(&Ambient::op, ops[rng() % 3]);
        const With category(&Ambient::category, Category(rng() % category_count));
        const PathScope path(concat("m", rng() % 4));
        if (rng() % 50 == 0) { const Phase phase(rng() % 2 ? "backward" : "optimizer step"); pool.push_back(empty({int64_t(rng() % 99)}, Dtype::u8, meta())); }
        else if (rng() % 5 < 2 || pool.empty()) pool.push_back(empty({int64_t(rng() % 5000)}, Dtype::u8, meta()));
        else if (rng() % 3 == 0) pool[rng() % pool.size()].storage()->mark(Category(rng() % category_count));
        else pool.erase(pool.begin() + long(rng() % pool.size()));
      }
    };
    act(int(rng() % 100));
    std::vector<Event> before;
    if (history) before = ledger->take_events();
    const Plan plan = record_plan(ledger, [&] { act(int(rng() % 2000)); });
    const MemoryReport r = make_report(plan, before);
    expect_exact(r, plan);
    if (HasFailure()) FAIL() << "round " << round;
    report_text(r);
    report_json(r);
    report_html(r);
  }
}

TEST(Report, ThePeakIsWhereTheLedgerSawItsHighest) {
  std::mt19937 rng(5);
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) names.push_back(concat("op", i));
  for (int round = 0; round < 60; ++round) {
    const auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    const Tensor held = empty({int64_t(rng() % 5000)}, Dtype::u8, meta());
    int64_t seen = -1, event = -1;
    std::string op, module;
    const Plan plan = record_plan(ledger, [&] {
      Tensors pool;
      seen = ledger->peak();
      for (const std::string& name : names) {
        const std::string place = concat("m", rng() % 5);
        const With by(&Ambient::op, name.c_str());
        const PathScope path(place);
        if (rng() % 5 < 3 || pool.empty()) pool.push_back(empty({int64_t(rng() % 5000)}, Dtype::u8, meta()));
        else pool.erase(pool.begin() + long(rng() % pool.size()));
        if (ledger->peak() <= seen) continue;
        seen = ledger->peak();
        event = int64_t(ledger->events().size()) - 1;
        op = name;
        module = place;
      }
    });
    const MemoryReport r = make_report(plan);
    EXPECT_EQ(r.peak, seen);
    EXPECT_EQ(r.peak_event, event);
    EXPECT_EQ(r.peak_op, op);
    EXPECT_EQ(r.peak_module, module);
  }
}

TEST(Report, RefusesAHistoryOfAnotherStep) {
  const Recorded step = record_step(3), other = record_step(4);
  EXPECT_THROW(make_report(step.plan, other.before), PlanError);
}

TEST(Report, ComparesWithTheRun) {
  const Recorded step = record_step(3);
  MemoryReport r = make_report(step.plan, step.before);
  r.compare(step.plan, step.plan);
  EXPECT_NE(report_text(r).find("one for one"), std::string::npos);
  const Recorded other = record_step(4);
  r.compare(step.plan, other.plan);
  r.closed_form = PeakFigures{r.peak, {}};
  r.outside = 1 << 20;
  EXPECT_NE(r.departure, "");
  const std::string text = report_text(r);
  for (const char* part : {"closed form", "planned", "measured", "difference", "+8,192", "departs from the plan at event", "outside the plan", "1,048,576"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Report, TheClosedFormKnowsActivationsAsOneFigure) {
  const auto ledger = std::make_shared<Ledger>();
  MemoryReport r = make_report(record_plan(ledger, [&] {
    ledger->allocate(1000, Category::parameter, 0, "");
    ledger->allocate(300, Category::saved, 0, "linear");
    ledger->allocate(40, Category::temporary, 0, "linear");
  }));
  CategoryBytes known;
  known[Category::parameter] = 1000;
  known[Category::saved] = 340;
  r.closed_form = PeakFigures{1340, known};
  const std::string text = report_text(r), page = report_html(r), json = report_json(r);
  std::string words;  // the text with single spaces
  for (const char c : text)
    if (c != ' ' || words.back() != ' ') words += c;
  for (const char* row : {"parameters 1,000 1,000", "activations 340 340", "saved – 300", "temporary – 40", "sum 1,340 1,340"})
    EXPECT_NE(words.find(row), std::string::npos) << row << "\n" << text;
  EXPECT_NE(page.find("activations</td><td class=n>340</td><td class=n>340</td>"), std::string::npos) << page;
  EXPECT_NE(json.find("\"activation\": 340"), std::string::npos) << json;
  EXPECT_EQ(text.find("gradients"), std::string::npos) << "rows of nothing are left out";
}

TEST(Report, TextStaysWithinItsColumnsAndNeverSaysGB) {
  const Recorded step = record_step(40);
  MemoryReport r = make_report(step.plan, step.before);
  r.by_module[0].name = "a.very.long.module.path.that.goes.on.and.on.through.many.levels.of.blocks.until.it.does.not.fit";
  const std::string text = report_text(r, {.top = 5});
  int width = 0;
  for (const char c : text) {
    width = c == '\n' ? 0 : width + ((uint8_t(c) & 0xc0) != 0x80);
    ASSERT_LE(width, 100) << text;
  }
  EXPECT_EQ(text.find("GB"), std::string::npos);
  EXPECT_NE(text.find("layers.* × 39"), std::string::npos) << "modules alike are one row\n" << text;
  EXPECT_NE(report_text(r, {.top = 1}).find("  and 2 more "), std::string::npos) << report_text(r, {.top = 1});
  EXPECT_NE(text.find("it.does.not.fit"), std::string::npos) << "a path keeps its end\n" << text;
}

TEST(Report, Json) {
  const Recorded step = record_step(2);
  const std::string json = report_json(make_report(step.plan, step.before));
  EXPECT_NE(json.find("\"schema\": \"spool.report/2\""), std::string::npos);
  EXPECT_NE(json.find("\"measured\": null"), std::string::npos);
  EXPECT_EQ(std::count(json.begin(), json.end(), '{'), std::count(json.begin(), json.end(), '}'));
  EXPECT_EQ(std::count(json.begin(), json.end(), '['), std::count(json.begin(), json.end(), ']'));
}

TEST(Report, HtmlIsSelfContained) {
  const Recorded step = record_step(12);
  MemoryReport r = make_report(step.plan, step.before);
  r.title = "<script>alert(1)</script>";
  const std::string html = report_html(r);
  EXPECT_EQ(html.find("http"), std::string::npos);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_LT(html.size(), size_t(2) << 20);
}

TEST(Report, Numbers) {
  EXPECT_EQ(with_separators(0), "0");
  EXPECT_EQ(with_separators(-1234567), "-1,234,567");
  EXPECT_EQ(with_separators(-123), "-123");
  EXPECT_EQ(with_separators(18151915524), "18,151,915,524");
  EXPECT_EQ(binary_size(1023), "1023 B");
  EXPECT_EQ(binary_size(1024), "1.00 KiB");
  EXPECT_EQ(binary_size(1536), "1.50 KiB");
  EXPECT_EQ(binary_size(int64_t(1023.7 * 1024)), "1.00 MiB");
  EXPECT_EQ(binary_size(18151915524), "16.9 GiB");
  EXPECT_EQ(binary_size(-2097152), "-2.00 MiB");
}

TEST(Report, AnEmptyStep) {
  const MemoryReport r = make_report(Plan{});
  expect_exact(r, Plan{});
  report_text(r);
  report_html(r);
  report_json(r);
}

}  // namespace
}  // namespace spool::test
