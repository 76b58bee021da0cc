#include "scopes.h"

#include "replay.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace spool::detail {
namespace {

/// One run of a scope: where in the step its moments are; -1: not in it.
struct Instance {
  const char* name = "";
  uint32_t path = 0;
  std::array<int64_t, 5> at{-1, -1, -1, -1, -1};
  int64_t operator[](Event::Moment moment) const { return at[size_t(moment)]; }
};

std::vector<Instance> instances_of(const Plan& step) {
  std::vector<Instance> all;
  std::map<uint64_t, size_t> index;
  for (size_t i = 0; i < step.events.size(); ++i) {
    const Event& e = step.events[i];
    if (e.kind != Event::Kind::scope) continue;
    const auto [found, added] = index.try_emplace(e.id, all.size());
    if (added) all.push_back({e.op, e.path, {-1, -1, -1, -1, -1}});
    int64_t& at = all[found->second].at[size_t(e.moment)];
    if (at < 0) at = int64_t(i);  // a backward that retains may run a scope once more
  }
  return all;
}

}  // namespace

std::vector<ScopeShare> scope_shares(const Plan& step) {
  using Moment = Event::Moment;
  const std::vector<Instance> instances = instances_of(step);
  if (instances.empty()) return {};
  std::vector<int64_t> total, saved;  // after each event; `saved` counts from the step's beginning
  CategoryBytes changed;
  int64_t now = step.base;
  for (const Event& e : step.events) {
    now += apply(e, changed);
    total.push_back(now);
    saved.push_back(changed[Category::saved]);
  }
  const auto highest = [&](int64_t first, int64_t last) { return *std::max_element(total.begin() + first, total.begin() + last + 1); };

  std::vector<ScopeShare> shares;
  std::map<std::tuple<std::string, int64_t, int64_t, int64_t, bool>, size_t> alike;
  for (const Instance& i : instances) {
    const int64_t begin = i[Moment::begin], end = i[Moment::end], replay = i[Moment::replay], replayed = i[Moment::replayed];
    if (begin < 0 || end < 0 || replay < 0 || replayed < 0) continue;
    ScopeShare share{.name = i.name, .module = path_name(i.path), .last_module = path_name(i.path)};
    share.kept = saved[size_t(end)] - saved[size_t(begin)];
    share.dropped = saved[size_t(replayed)] - saved[size_t(replay)];
    share.working_set = highest(replay, replayed) - total[size_t(replay)];
    share.saves_nothing = highest(end, replay) + share.dropped <= step.peak;
    const auto [found, added] = alike.try_emplace({share.name, share.kept, share.dropped, share.working_set, share.saves_nothing}, shares.size());
    if (added) {
      shares.push_back(share);
    } else {
      ++shares[found->second].count;
      shares[found->second].last_module = share.module;
    }
  }
  return shares;
}

}  // namespace spool::detail
