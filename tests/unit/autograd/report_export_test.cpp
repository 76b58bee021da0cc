// Exports of a step: traces are balanced and their counters are the ledger's, placements do not overlap, stacks add up to the peak.
#include <spool/autograd/arena.h>
#include <spool/autograd/report_export.h>

#include <nlohmann/json.hpp>

#include <map>
#include <sstream>

namespace spool::test {
namespace {

struct Recorded {
  std::vector<Event> before;
  Plan plan;
};

/// Buffers that come, go and change category at random; some from before the step, some that outlive it, some of no bytes.
Recorded random_step(uint64_t seed, bool history) {
  Generator random(seed);
  struct Held {
    uint64_t id;
    int64_t bytes;
    Category category;
  };
  const auto ledger = std::make_shared<Ledger>();
  std::vector<Held> held;
  const uint32_t paths[] = {0, intern_path("layers.0.up"), intern_path("layers.1"), intern_path("odd;name \"x\"")};
  const char* ops[] = {"", "linear", "add"};
  const auto acts = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const int64_t what = random.integer(0, 10);
      if (what == 0) ledger->phase(random.integer(0, 2) ? "backward" : "");
      if (what < 5 || held.empty()) {
        const auto category = Category(random.integer(0, category_count));
        const int64_t bytes = random.integer(0, 8) ? random.integer(1, 5000) : 0;
        held.push_back({ledger->allocate(bytes, category, paths[random.integer(0, 4)], ops[random.integer(0, 3)]), bytes, category});
        continue;
      }
      Held& one = held[size_t(random.integer(0, int64_t(held.size())))];
      if (what < 9) {
        ledger->release(one.id, one.bytes, one.category);
        one = held.back();
        held.pop_back();
      } else {
        const auto to = Category(random.integer(0, category_count));
        ledger->mark(one.id, one.bytes, one.category, to, paths[1], "linear");
        one.category = to;
      }
    }
  };
  Recorded out;
  ledger->recording(history);
  acts(int(random.integer(0, 60)));
  if (history) out.before = ledger->take_events();
  out.plan = record_plan(ledger, [&] { acts(int(random.integer(0, 300))); });
  return out;
}

Recorded performer_step() {
  const auto ledger = std::make_shared<Ledger>();
  ledger->recording(true);
  const With on(&Ambient::ledger, ledger);
  const nn::Performer model(nn::root({.device = meta()}), {.vocab = 64, .d_model = 32, .layers = 2, .heads = 2, .d_ff = 48});
  Recorded out;
  out.before = ledger->take_events();
  out.plan = record_plan(ledger, [&] {
    Tape tape;
    const Tensor loss = model.chunked_loss(nn::token_batch(empty({2, 41}, Dtype::u8, meta())), 16);
    tape.backward(loss);
  });
  return out;
}

/// Reads a trace as a viewer would. Returns the highest value of the counter "total".
int64_t highest_total(const Recorded& r) {
  const auto document = nlohmann::json::parse(trace_json(r.plan, r.before));
  std::map<std::string, nlohmann::json> alive;
  std::map<std::string, int64_t> counters;
  int64_t time = 0, highest = -1;
  for (const auto& e : document.at("traceEvents")) {
    const std::string letter = e.at("ph"), name = e.at("name");
    EXPECT_GE(e.at("ts").get<int64_t>(), time) << e;
    time = e.at("ts");
    if (letter == "b") {
      EXPECT_TRUE(alive.emplace(e.at("id"), e).second) << "begun twice: " << e;
    } else if (letter == "e") {
      const auto begun = alive.find(e.at("id"));
      if (begun == alive.end()) {
        ADD_FAILURE() << "ended and not begun: " << e;
        continue;
      }
      EXPECT_EQ(begun->second.at("name"), name);
      EXPECT_EQ(begun->second.at("cat"), e.at("cat"));
      alive.erase(begun);
    } else if (letter == "C") {
      counters[name] = e.at("args").at("bytes");
      if (name != "total") continue;
      int64_t lives = 0, categories = 0;
      for (const auto& [id, b] : alive) lives += b.at("args").at("bytes").get<int64_t>();
      for (const auto& [counter, bytes] : counters) categories += counter == "total" ? 0 : bytes;
      EXPECT_EQ(counters[name], lives) << "at " << time;
      EXPECT_EQ(counters[name], categories) << "at " << time;
      highest = std::max(highest, counters[name]);
    }
  }
  EXPECT_TRUE(alive.empty()) << alive.size() << " begun and not ended";
  EXPECT_EQ(time, int64_t(r.plan.events.size()));
  return highest;
}

TEST(ReportExport, TracesAreBalancedAndTheirHighestTotalIsThePeak) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Recorded r = random_step(seed, seed % 2);
    EXPECT_EQ(highest_total(r), r.plan.peak) << "seed " << seed;
    if (HasFailure()) break;
  }
  const Recorded model = performer_step();
  EXPECT_EQ(highest_total(model), model.plan.peak);
}

struct Row {
  int64_t id, lower, upper, size, offset;
};
std::vector<Row> rows_of(const std::string& csv, const std::string& header) {
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, header);
  std::vector<Row> rows;
  while (std::getline(lines, line)) {
    Row row{};
    std::istringstream fields(line);
    char comma = ',';
    fields >> row.id >> comma >> row.lower >> comma >> row.upper >> comma >> row.size;
    if (header.ends_with("offset")) fields >> comma >> row.offset;
    EXPECT_TRUE(fields && fields.peek() == std::istringstream::traits_type::eof()) << line;
    rows.push_back(row);
  }
  return rows;
}

/// Two rows that are alive together and share an address, or nothing.
std::string overlap(const std::vector<Row>& rows) {
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = i + 1; j < rows.size(); ++j) {
      const Row &a = rows[i], &b = rows[j];
      if (a.lower < b.upper && b.lower < a.upper && a.offset < b.offset + b.size && b.offset < a.offset + a.size) return concat("buffers ", a.id, " and ", b.id);
    }
  return "";
}

TEST(ReportExport, BuffersLiveAsLongAsInTheStepAndPlacesDoNotOverlap) {
  std::vector<Recorded> steps;
  for (uint64_t seed = 0; seed < 20; ++seed) steps.push_back(random_step(seed, true));
  steps.push_back(performer_step());
  for (const Recorded& r : steps) {
    const ArenaLayout layout = arena_layout(step_buffers(r.plan));
    const std::vector<Row> rows = rows_of(buffers_csv(r.plan, layout.offsets), "id,lower,upper,size,offset");
    EXPECT_EQ(overlap(rows), "");
    std::map<int64_t, int64_t> own;  // bytes of the step's own buffers that are alive, by id
    size_t made = 0;
    for (int64_t i = 0; i < int64_t(r.plan.events.size()); ++i) {
      const Event& e = r.plan.events[size_t(i)];
      if (e.kind == Event::Kind::allocate && e.bytes) ++made, own[int64_t(e.id)] = e.bytes;
      if (e.kind == Event::Kind::release) own.erase(int64_t(e.id));
      std::map<int64_t, int64_t> listed;
      for (const Row& row : rows)
        if (row.lower <= i && i < row.upper) listed[row.id] = row.size;
      ASSERT_EQ(listed, own) << "at event " << i;
    }
    EXPECT_EQ(rows.size(), made);
    for (const Row& row : rows) EXPECT_LE(row.offset + row.size, layout.size);
    EXPECT_EQ(rows_of(buffers_csv(r.plan), "id,lower,upper,size").size(), rows.size());
  }
  EXPECT_THROW(buffers_csv(steps.back().plan, std::vector<int64_t>{0}), PlanError);
}

TEST(ReportExport, TheCheckerOfPlacesSeesAnOverlap) {
  const std::vector<Row> beside{{1, 0, 5, 64, 0}, {2, 3, 9, 64, 64}, {3, 5, 9, 64, 0}};
  EXPECT_EQ(overlap(beside), "");
  std::vector<Row> moved = beside;
  moved[1].offset = 63;
  EXPECT_EQ(overlap(moved), "buffers 1 and 2");
}

TEST(ReportExport, TheMapHasEveryBufferWhereTheLayoutPutsIt) {
  for (const Recorded& r : {random_step(3, true), performer_step()}) {
    const std::vector<StepBuffer> buffers = step_buffers(r.plan);
    const ArenaLayout layout = arena_layout(buffers);
    const AddressMap map = address_map(r.plan, layout);
    std::multimap<int64_t, const AddressMap::Place*> at;
    for (size_t i = 0; i < map.places.size(); ++i) {
      at.emplace(map.places[i].offset, &map.places[i]);
      EXPECT_LE(map.places[i].bytes, map.places[i ? i - 1 : 0].bytes);
    }
    size_t places = 0;
    for (size_t k = 0; k < buffers.size(); ++k) {
      if (!buffers[k].bytes) continue;
      ++places;
      const auto [first, last] = at.equal_range(layout.offsets[k]);
      EXPECT_TRUE(std::any_of(first, last, [&](const auto& p) { return p.second->begin == buffers[k].begin && p.second->end == buffers[k].end && p.second->bytes == buffers[k].bytes; }));
    }
    EXPECT_EQ(places, map.places.size());
    EXPECT_EQ(map.size, layout.size);
    EXPECT_EQ(map.bound, layout.bound);
    MemoryReport report = make_report(r.plan, r.before);
    report.addresses = map;
    const std::string page = report_html(report);
    size_t drawn = 0;
    for (size_t from = page.find("data-t=\""); from != page.npos; from = page.find("data-t=\"", from + 1)) ++drawn;
    EXPECT_EQ(drawn, std::min<size_t>(places, 1500));
  }
  EXPECT_THROW(address_map(performer_step().plan, ArenaLayout{}), PlanError);
}

TEST(ReportExport, ThePageOfALongStepIsSmall) {
  const auto ledger = std::make_shared<Ledger>();
  MemoryReport r;
  const Plan plan = record_plan(ledger, [&] {
    const uint32_t path = intern_path("a.module.with.a.rather.long.path.layers.17.self_attn.q_proj");
    std::vector<uint64_t> ids;
    for (int64_t i = 0; i < 4000; ++i) ids.push_back(ledger->allocate(1000 + i, Category::saved, path, "linear"));
    for (int64_t i = 3999; i >= 0; --i) ledger->release(ids[size_t(i)], 1000 + i, Category::saved);
  });
  r = make_report(plan);
  r.addresses = address_map(plan, arena_layout(step_buffers(plan)));
  const std::string page = report_html(r);
  EXPECT_LT(page.size(), size_t(2) << 20);
  EXPECT_EQ(page.find("http"), std::string::npos);
  EXPECT_NE(page.find("drawn: the 1,500 largest"), std::string::npos);
}

/// What Python makes of it is tests/cli/report_test.sh's.
TEST(ReportExport, SnapshotsArePicklesOfTheStep) {
  const Recorded r = performer_step();
  const std::vector<StepBuffer> buffers = step_buffers(r.plan);
  const std::string pickle = memory_snapshot(r.plan, arena_layout(buffers).offsets, r.before);
  EXPECT_EQ(pickle.substr(0, 2), "\x80\x02");
  EXPECT_EQ(pickle.back(), '.');
  EXPECT_LT(pickle.size(), 2000 + 700 * r.plan.events.size()) << "texts are written once";
  EXPECT_THROW(memory_snapshot(r.plan, {}, r.before), PlanError);
}

TEST(ReportExport, StacksAddUpToThePeak) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Recorded r = random_step(seed, seed % 2);
    std::istringstream lines(folded_stacks(make_report(r.plan, r.before)));
    int64_t sum = 0;
    std::string before;
    for (std::string line; std::getline(lines, line);) {
      const size_t space = line.rfind(' ');
      ASSERT_NE(space, std::string::npos) << line;
      const std::string stack = line.substr(0, space);
      EXPECT_LT(before, stack) << "each stack once, in order";
      EXPECT_GE(std::count(stack.begin(), stack.end(), ';'), 1) << line;
      before = stack;
      sum += std::stoll(line.substr(space + 1));
    }
    EXPECT_EQ(sum, r.plan.peak) << "seed " << seed;
  }
}

TEST(ReportExport, StacksNameModulesAndOps) {
  const auto ledger = std::make_shared<Ledger>();
  ledger->recording(true);
  ledger->allocate(400, Category::parameter, intern_path("layers.3.up"), "");
  Recorded r;
  r.before = ledger->take_events();
  r.plan = record_plan(ledger, [&] {
    ledger->allocate(8, Category::temporary, intern_path("layers.3.up"), "linear");
    ledger->allocate(24, Category::temporary, intern_path("layers.3.up"), "linear");
    ledger->allocate(5, Category::scratch, 0, "odd;op");
  });
  EXPECT_EQ(folded_stacks(make_report(r.plan, r.before)), "(no module);odd_op 5\nlayers;3;up;(parameter) 400\nlayers;3;up;linear 32\n");
}

}  // namespace
}  // namespace spool::test
