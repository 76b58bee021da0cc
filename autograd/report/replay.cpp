#include "replay.h"

#include <spool/tensor/error.h>

namespace spool::detail {

void fail_unrelated(const std::string& what) {
  fail<PlanError>("make_report: ", what, "; pass everything the ledger recorded from its construction to the step, or nothing");
}

int64_t apply(const Event& e, CategoryBytes& live) {
  if (!e.of_buffer()) return 0;
  if (e.kind == Event::Kind::mark) live[e.from] -= e.bytes;
  const int64_t change = e.kind == Event::Kind::release ? -e.bytes : e.bytes;
  live[e.category] += change;
  return e.kind == Event::Kind::mark ? 0 : change;
}

std::unordered_map<uint64_t, Category> last_categories(const Plan& step) {
  std::unordered_map<uint64_t, Category> categories;
  for (const Event& e : step.events)
    if (e.of_buffer()) categories[e.id] = e.category;
  return categories;
}

TrackedSet alive_before(const Plan& step, const std::vector<Event>& before) {
  TrackedSet live;
  for (const Event& e : before) {
    if (e.kind == Event::Kind::allocate) live[e.id] = {.bytes = e.bytes, .category = e.category, .op = e.op, .path = e.path};
    if (e.kind == Event::Kind::release) live.erase(e.id);
    if (const auto found = live.find(e.id); e.kind == Event::Kind::mark && found != live.end()) found->second.mark(e);
  }
  std::unordered_map<uint64_t, bool> known;
  for (const auto& [id, buffer] : live) known[id] = true;
  for (const Event& e : step.events) {
    if (!e.of_buffer() || !known.try_emplace(e.id, true).second || e.kind == Event::Kind::allocate) continue;
    live[e.id] = {.bytes = e.bytes, .category = e.kind == Event::Kind::mark ? e.from : e.category, .recorded = false};
  }
  return live;
}

}  // namespace spool::detail
