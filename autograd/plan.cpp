#include <spool/autograd/plan.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <unordered_map>

namespace spool {

Plan record_plan(const std::shared_ptr<Ledger>& ledger, const std::function<void()>& step) {
  const With on(&Ambient::ledger, ledger);
  Plan plan;
  plan.base = ledger->live();
  ledger->reset_peak();
  ledger->recording(true);
  struct Stop {
    Ledger& ledger;
    ~Stop() { ledger.recording(false); }
  } stop{*ledger};
  step();
  plan.events = ledger->take_events();
  plan.peak = ledger->peak();
  plan.at_peak = ledger->at_peak();
  return plan;
}

std::vector<StepBuffer> step_buffers(const Plan& plan) {
  std::vector<StepBuffer> buffers;
  std::unordered_map<uint64_t, size_t> at;
  const auto never = int64_t(plan.events.size());
  for (int64_t i = 0; i < never; ++i) {
    const Event& event = plan.events[size_t(i)];
    if (event.kind == Event::Kind::allocate) {
      at[event.id] = buffers.size();
      buffers.push_back({event.id, i, never, event.bytes, true, event.op, event.path});
    } else if (event.kind == Event::Kind::release) {
      const auto found = at.find(event.id);
      if (found == at.end()) continue;  // made before the step
      buffers[found->second].lasting = false;
      buffers[found->second].end = i;
    }
  }
  return buffers;
}

std::string to_string(const Event& event) {
  constexpr const char* kinds[] = {"allocate", "release", "mark"};
  constexpr const char* moments[] = {"begins", "has run", "begins its second run", "has run again", "is done"};
  if (event.kind == Event::Kind::phase) return concat("phase ", *event.op ? event.op : "forward");
  if (event.kind == Event::Kind::scope)
    return concat("scope ", event.op, event.path ? " in " : "", path_name(event.path), ", instance ", event.id, ", ", moments[size_t(event.moment)]);
  std::string text = concat(kinds[size_t(event.kind)], " ", event.bytes, " bytes, ", category_name(event.category), ", id ", event.id);
  if (*event.op) text += concat(", by ", event.op);
  if (event.path) text += concat(" in ", path_name(event.path));
  return text;
}

std::string first_difference(const std::vector<Event>& planned, const std::vector<Event>& measured) {
  std::unordered_map<uint64_t, uint64_t> buffers[2], scopes[2];
  const auto normal = [&](int side, Event event) {
    auto& names = event.kind == Event::Kind::scope ? scopes[side] : buffers[side];
    event.id = names.try_emplace(event.id, names.size() + 1).first->second;
    return event;
  };
  const size_t common = std::min(planned.size(), measured.size());
  for (size_t i = 0; i < common; ++i) {
    const Event p = normal(0, planned[i]), m = normal(1, measured[i]);
    if (!(p == m)) return concat("event ", i, ": planned ", p, "; ran ", m);
  }
  if (planned.size() == measured.size()) return "";
  const bool more = planned.size() > measured.size();
  return concat("event ", common, ": ", more ? "planned " : "ran ", (more ? planned : measured)[common], more ? ", which did not run" : ", which was not planned");
}

}  // namespace spool
