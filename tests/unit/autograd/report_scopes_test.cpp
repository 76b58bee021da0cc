// Scopes in the memory report: what they keep and drop is counted right, and "saves nothing" is what leaving the scope out shows.
#include <spool/autograd/arena.h>
#include <spool/autograd/checkpoint.h>
#include <spool/autograd/custom_vjp.h>
#include <spool/autograd/report.h>
#include <spool/autograd/tape.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <functional>
#include <set>

namespace spool::test {
namespace {

constexpr int64_t unit = 64 * 32 * 4;  ///< Bytes of every tensor here.

/// Keeps its result, needs one tensor to be made.
Tensor layer(const Tensor& x) {
  const auto rule = [](Saved& s) { return Tensors{contiguous_copy(s.grad())}; };
  return custom_vjp("layer", [](const Tensors& in) { return Tensors{contiguous_copy(in[0])}; }, rule, Saves().output(0), {x})[0];
}

/// `past`: allocations on the ledger before.
Plan record(const std::function<Tensor(const Tensor&)>& model, Device device = meta(), int past = 0) {
  const auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  for (int i = 0; i < past; ++i) empty({1}, Dtype::u8, device);
  Tensor weight;
  {
    const With category(&Ambient::category, Category::parameter);
    weight = empty({64, 32}, Dtype::f32, device).requires_grad(true);
  }
  return record_plan(ledger, [&] {
    Tape tape;
    const Tensor out = model(weight);
    tape.gradient({out}, {weight}, {ones({64, 32}, Dtype::f32, device)});
  });
}

/// `blocks` blocks of three layers, each in a scope of its own except those in `bare`.
std::function<Tensor(const Tensor&)> chain(int blocks, std::set<int> bare = {}) {
  return [=](Tensor x) {
    for (int i = 0; i < blocks; ++i) {
      const PathScope path("layers." + std::to_string(i));
      const auto block = [](const Tensor& in) { return layer(layer(layer(in))); };
      x = bare.count(i) ? block(x) : checkpoint("block", block, x);
    }
    return x;
  };
}

TEST(ReportScopes, CountsWhatAScopeKeepsDropsAndNeeds) {
  const MemoryReport r = make_report(record(chain(6)));
  // The first block keeps a weight, which is there anyway. Each other block keeps its input. A second run keeps three results.
  ASSERT_EQ(r.scopes.size(), 3u);
  EXPECT_EQ(r.scopes[0].module, "layers.0");
  EXPECT_EQ(r.scopes[0].kept, 0);
  EXPECT_EQ(r.scopes[1].module, "layers.1");
  EXPECT_EQ(r.scopes[1].last_module, "layers.4");
  EXPECT_EQ(r.scopes[1].count, 4);
  EXPECT_EQ(r.scopes[1].kept, unit);
  EXPECT_EQ(r.scopes[2].module, "layers.5");
  for (const ScopeShare& s : r.scopes) {
    EXPECT_EQ(s.name, "block");
    EXPECT_EQ(s.dropped, 3 * unit);
    EXPECT_EQ(s.working_set, 3 * unit);
    EXPECT_EQ(s.saves_nothing, s.module == "layers.5") << s.module;
  }
}

/// The claim, tested by leaving out each scope in turn.
TEST(ReportScopes, AScopeSavesNothingWhenThePeakIsTheSameWithoutIt) {
  const Plan all = record(chain(5));
  const MemoryReport r = make_report(all);
  int useless = 0;
  for (int i = 0; i < 5; ++i) {
    const std::string module = "layers." + std::to_string(i);
    const auto share = std::find_if(r.scopes.begin(), r.scopes.end(), [&](const ScopeShare& s) { return s.module <= module && module <= s.last_module; });
    ASSERT_NE(share, r.scopes.end());
    EXPECT_EQ(share->saves_nothing, record(chain(5, {i})).peak == all.peak) << module;
    useless += share->saves_nothing;
  }
  EXPECT_EQ(useless, 1) << "the last";
  const std::string text = report_text(r), page = report_html(r);
  EXPECT_NE(text.find("block × 3, layers.1 … layers.3"), std::string::npos) << text;
  EXPECT_NE(text.find("saves nothing"), std::string::npos) << text;
  EXPECT_NE(page.find("saves nothing"), std::string::npos);
  EXPECT_EQ(report_text(make_report(record(chain(5, {0, 1, 2, 3, 4})))).find("recompute"), std::string::npos);
}

/// Between a scope's forward and its second run `spike` bytes come and go; later the peak is at 1,000.
bool useless(int64_t spike, int64_t dropped) {
  using Moment = Event::Moment;
  const auto ledger = std::make_shared<Ledger>();
  const auto report = make_report(record_plan(ledger, [&] {
    const auto pass = [&](int64_t bytes, Category category) { ledger->release(ledger->allocate(bytes, category, 0, "op"), bytes, category); };
    const uint64_t scope = ledger->begin_scope("scope", 0);
    ledger->scope(scope, Moment::end, "scope", 0);
    pass(spike, Category::temporary);
    ledger->scope(scope, Moment::replay, "scope", 0);
    const uint64_t record = ledger->allocate(dropped, Category::saved, 0, "op");
    ledger->scope(scope, Moment::replayed, "scope", 0);
    ledger->release(record, dropped, Category::saved);
    ledger->scope(scope, Moment::done, "scope", 0);
    pass(1000, Category::temporary);
  }));
  EXPECT_EQ(report.scopes.at(0).dropped, dropped);
  return report.scopes.at(0).saves_nothing;
}

TEST(ReportScopes, ToTheByte) {
  EXPECT_TRUE(useless(700, 300));
  EXPECT_FALSE(useless(700, 301));
  EXPECT_FALSE(useless(701, 300));
  EXPECT_TRUE(useless(0, 1000));
}

TEST(ReportScopes, ScopesInsideScopesAreInstancesOfTheirOwn) {
  const Plan plan = record([](const Tensor& x) {
    const auto inner = [](const Tensor& in) { return layer(layer(in)); };
    const auto pair = [&](const Tensor& in) { return checkpoint("inner", inner, checkpoint("inner", inner, in)); };
    return checkpoint("outer", pair, checkpoint("outer", pair, x));
  });
  std::map<std::string, std::set<uint64_t>> instances;
  std::map<Event::Moment, int> moments;
  for (const Event& e : plan.events) {
    if (e.kind != Event::Kind::scope) continue;
    instances[e.op].insert(e.id);
    ++moments[e.moment];
  }
  EXPECT_EQ(instances["outer"].size(), 2u);
  EXPECT_EQ(instances["inner"].size(), 4u) << "two in each second run; the first run of an outer scope only tracks";
  for (const auto& [moment, count] : moments) EXPECT_EQ(count, 6) << int(moment);
  EXPECT_EQ(moments.size(), 5u);
  std::map<std::string, int64_t> counts;
  for (const ScopeShare& s : make_report(plan).scopes) {
    counts[s.name] += s.count;
    EXPECT_EQ(s.dropped, (s.name == "inner" ? 2 : 1) * unit) << "an outer scope drops the input of its second inner scope";
  }
  EXPECT_EQ(counts, (std::map<std::string, int64_t>{{"inner", 4}, {"outer", 2}}));
}

TEST(ReportScopes, PlanAndRunPostTheSameMomentsAndADifferenceIsNamed) {
  const Plan planned = record(chain(3));
  for (const int past : {0, 1, 5}) EXPECT_EQ(first_difference(planned.events, record(chain(3), cpu, past).events), "") << past;
  Plan other = planned;
  const auto scope = std::find_if(other.events.begin(), other.events.end(), [](const Event& e) { return e.moment == Event::Moment::replay; });
  scope->moment = Event::Moment::done;
  EXPECT_NE(first_difference(planned.events, other.events).find("planned scope block in layers.2, instance 3, begins its second run; ran scope block"), std::string::npos)
      << first_difference(planned.events, other.events);
}

TEST(ReportScopes, EventsOfScopesAreNoBuffers) {
  const Plan plan = record(chain(4));
  Plan bare = plan;
  std::erase_if(bare.events, [](const Event& e) { return e.kind == Event::Kind::scope; });
  ASSERT_LT(bare.events.size(), plan.events.size());
  const std::vector<StepBuffer> with = step_buffers(plan), without = step_buffers(bare);
  ASSERT_EQ(with.size(), without.size());
  for (size_t i = 0; i < with.size(); ++i) EXPECT_EQ(with[i].id, without[i].id);
  EXPECT_EQ(arena_layout(with).size, arena_layout(without).size);
  const MemoryReport r = make_report(plan), b = make_report(bare);
  EXPECT_EQ(r.peak, b.peak);
  EXPECT_EQ(r.at_peak.bytes, b.at_peak.bytes);
  EXPECT_EQ(r.live.size(), b.live.size());
  EXPECT_TRUE(b.scopes.empty());
}

}  // namespace
}  // namespace spool::test
