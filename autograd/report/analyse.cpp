#include "replay.h"
#include "scopes.h"
#include "tallies.h"

#include <spool/autograd/arena.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <unordered_map>

namespace spool {
namespace {

using detail::Candidates, detail::Shares, detail::Tracked, detail::TrackedSet;

std::string reason(const Tracked& b, int64_t released) {
  const std::string op = *b.op ? b.op : "a step";
  switch (b.category) {
    case Category::parameter: return "parameter";
    case Category::gradient: return "gradient";
    case Category::optimizer: return "optimizer state";
    case Category::scratch: return "working space of " + op;
    case Category::communication: return "message of " + op;
    case Category::saved: {
      if (!b.marked_by) return b.recorded ? "residual of " + op + " for backward" : "saved for backward";
      std::string text = concat("saved by ", *b.marked_by ? b.marked_by : "the tape", " for backward");
      if (b.marked_in && b.marked_in != b.path) text += concat(" (", path_name(b.marked_in), ")");
      return text;
    }
    case Category::temporary: break;
  }
  if (b.born < 0) return "held since before the step";
  return released < 0 ? "held beyond the step" : "in use";
}

/// The highest instant of each stretch of events.
void thin_out(std::vector<TimelinePoint>& points) {
  const size_t count = points.size(), most = size_t(timeline_points);
  if (count <= most) return;
  std::vector<TimelinePoint> kept;
  for (size_t i = 0; i < most; ++i) {
    const auto first = points.begin() + long(i * count / most), last = points.begin() + long((i + 1) * count / most);
    kept.push_back(*std::max_element(first, last, [](const auto& a, const auto& b) { return a.bytes.total() < b.bytes.total(); }));
  }
  points = std::move(kept);
}

/// The first instant of the highest sum, given what is alive before the step.
struct Top {
  int64_t event = -1;
  CategoryBytes bytes;
};
Top find_top(const std::vector<Event>& events, CategoryBytes level) {
  Top top{-1, level};
  int64_t total = level.total(), highest = total;
  for (size_t i = 0; i < events.size(); ++i) {
    total += detail::apply(events[i], level);
    if (total <= highest) continue;
    highest = total;
    top = {int64_t(i), level};
  }
  return top;
}

/// Walks through the step once, stopping at its peak to look around. `whole` tells what comes later, phases and releases: the step, unless
/// that is cut.
class Walk {
 public:
  Walk(const Plan& step, const Plan& whole, TrackedSet live, MemoryReport& report)
      : step_(step), whole_(whole), live_(std::move(live)), report_(report),
        candidates_(std::any_of(whole.events.begin(), whole.events.end(), [](const Event& e) { return e.kind == Event::Kind::phase; })) {}

  void run() {
    for (auto& [id, buffer] : live_) {
      enlist(buffer);
      now_[buffer.category] += buffer.bytes;
    }
    add_unrecorded();
    for (size_t i = 0; i < whole_.events.size(); ++i)
      if (whole_.events[i].kind == Event::Kind::release) released_[whole_.events[i].id] = int64_t(i);
    report_.base_by_category = now_;
    report_.timeline.push_back({-1, now_});
    if (report_.peak_event < 0) {
      candidates_.see(now_, -1);
      look_around();
    }
    for (size_t i = 0; i < step_.events.size(); ++i) {
      apply(step_.events[i], int64_t(i));
      report_.timeline.push_back({int64_t(i), now_});
      if (int64_t(i) == report_.peak_event) look_around();
    }
    if (candidates_.all.empty()) candidates_.see(now_, -1);
    thin_out(report_.timeline);
    report_.candidates = std::move(candidates_.all);
    report_.by_op = ops_.take();
    report_.by_module = modules_.take();
  }

 private:
  void enlist(Tracked& b) {
    b.op_share = ops_.index(!b.recorded ? "(not recorded)" : *b.op ? b.op : "(no op)");
    b.module_share = modules_.index(!b.recorded ? "(not recorded)" : b.path ? path_name(b.path) : "(no module)");
    change(b, b.bytes);
  }
  void change(const Tracked& b, int64_t bytes) {
    ops_.change(b.op_share, bytes);
    modules_.change(b.module_share, bytes);
  }

  /// Finds the peak, and with it the bytes from before the step of which nothing but the sum is known: what the peak has beyond the events.
  void add_unrecorded() {
    const Top top = find_top(step_.events, now_);
    for (int c = 0; c < category_count; ++c) {
      const int64_t rest = step_.at_peak.bytes[size_t(c)] - top.bytes.bytes[size_t(c)];
      if (rest < 0) detail::fail_unrelated(concat("the events have ", -rest, " more bytes of ", category_name(Category(c)), " at the peak than the step"));
      if (rest == 0) continue;
      Tracked buffer{.bytes = rest, .category = Category(c), .recorded = false};
      enlist(buffer);
      now_.bytes[size_t(c)] += rest;
      unrecorded_.push_back(buffer);
    }
    if (now_.total() != step_.base) detail::fail_unrelated(concat("before the step ", step_.base, " bytes were alive, but the events give ", now_.total()));
    report_.peak = step_.peak;
    report_.at_peak = step_.at_peak;
    report_.peak_event = top.event;
  }

  void apply(const Event& e, int64_t index) {
    switch (e.kind) {
      case Event::Kind::allocate: {
        Tracked& b = live_[e.id] = {.bytes = e.bytes, .category = e.category, .op = e.op, .path = e.path, .born = index};
        enlist(b);
        ops_.count(b.op_share, e.bytes);
        modules_.count(b.module_share, e.bytes);
        now_[e.category] += e.bytes;
        ++report_.allocations;
        report_.allocated += e.bytes;
        candidates_.see(now_, index);
        break;
      }
      case Event::Kind::release:
        change(live_.at(e.id), -e.bytes);
        now_[e.category] -= e.bytes;
        live_.erase(e.id);
        break;
      case Event::Kind::mark:
        now_[e.from] -= e.bytes;
        now_[e.category] += e.bytes;
        live_.at(e.id).mark(e);
        break;
      case Event::Kind::scope: break;
      case Event::Kind::phase:
        report_.phases.push_back({index, e.op});
        candidates_.enter(e.op, index, now_);
        break;
    }
  }

  void look_around() {
    ops_.keep_as_peak();
    modules_.keep_as_peak();
    report_.peak_phase = candidates_.part();
    if (report_.peak_event >= 0) {
      const Event& e = step_.events[size_t(report_.peak_event)];
      report_.peak_op = e.op;
      report_.peak_module = path_name(e.path);
    }
    for (const auto& [id, buffer] : live_) list(id, buffer);
    for (const Tracked& buffer : unrecorded_) list(0, buffer);
    std::sort(report_.live.begin(), report_.live.end(), [](const LiveBuffer& a, const LiveBuffer& b) { return std::tie(b.bytes, a.id) < std::tie(a.bytes, b.id); });
  }
  void list(uint64_t id, const Tracked& b) {
    const auto end = released_.find(id);
    const int64_t released = end == released_.end() ? -1 : end->second;
    report_.live.push_back({id, b.bytes, b.category, b.op, path_name(b.path), reason(b, released), b.born, released});
  }

  const Plan &step_, &whole_;
  TrackedSet live_;
  MemoryReport& report_;
  Candidates candidates_;
  CategoryBytes now_;
  Shares ops_, modules_;
  std::vector<Tracked> unrecorded_;
  std::unordered_map<uint64_t, int64_t> released_;
};

MemoryReport analyse(const Plan& step, const Plan& whole, const std::vector<Event>& before) {
  MemoryReport report;
  report.base = step.base;
  report.events = int64_t(step.events.size());
  TrackedSet live = detail::alive_before(step, before);
  Walk(step, whole, std::move(live), report).run();
  return report;
}

}  // namespace

MemoryReport make_report(const Plan& step, const std::vector<Event>& before) {
  MemoryReport report = analyse(step, step, before);
  report.scopes = detail::scope_shares(step);
  return report;
}

MemoryReport limited_report(const Plan& step, int64_t limit, const std::vector<Event>& before) {
  MemoryReport whole = make_report(step, before);
  if (step.peak <= limit) return whole;
  CategoryBytes level = whole.base_by_category;
  size_t count = 0;
  while (level.total() <= limit) detail::apply(step.events[count++], level);
  const Plan cut{.events = {step.events.begin(), step.events.begin() + long(count)}, .base = step.base, .peak = level.total(), .at_peak = level};
  MemoryReport report = analyse(cut, step, before);
  report.scopes = std::move(whole.scopes);
  report.limit = MemoryLimit{limit, step.peak};
  return report;
}

AddressMap address_map(const Plan& step, const ArenaLayout& layout) {
  const std::vector<StepBuffer> buffers = step_buffers(step);
  if (layout.offsets.size() != buffers.size()) fail<PlanError>("address_map: a layout of ", layout.offsets.size(), " buffers for a step with ", buffers.size());
  const auto categories = detail::last_categories(step);
  AddressMap map{.places = {}, .size = layout.size, .bound = layout.bound};
  for (size_t k = 0; k < buffers.size(); ++k) {
    const StepBuffer& b = buffers[k];
    if (b.bytes) map.places.push_back({b.begin, b.end, layout.offsets[k], b.bytes, categories.at(b.id), b.op, path_name(b.path)});
  }
  std::stable_sort(map.places.begin(), map.places.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return map;
}

void MemoryReport::compare(const Plan& planned, const Plan& run) {
  measured = PeakFigures{run.peak, run.at_peak};
  departure = first_difference(planned.events, run.events);
}

}  // namespace spool
