#include "json_writer.h"
#include "replay.h"

#include <spool/autograd/report_export.h>

#include <algorithm>

namespace spool {
namespace {

using detail::Json;

/// Writes the events. Every object has a phase letter, a time and a process.
class Trace {
 public:
  Trace() {
    json_.open('{').key("displayTimeUnit").text("ns").key("traceEvents").open('[');
    begin("M", "process_name", 0).key("args").open('{').key("name").text("memory of a step").close('}').close('}');
  }
  /// A buffer's life is told by id: lives overlap as they like.
  void born(const std::string& id, const char* op, uint32_t path, int64_t bytes, Category category, int64_t time) {
    const std::string name = name_of(op, path);
    begin("b", name, time).key("cat").text("buffer").key("id").text(id);
    json_.key("args").open('{').key("bytes").number(bytes).key("category").text(category_name(category)).close('}').close('}');
    names_[id] = name;
  }
  void died(const std::string& id, int64_t time) {
    begin("e", names_.at(id), time).key("cat").text("buffer").key("id").text(id).close('}');
    names_.erase(id);
  }
  void all_die(int64_t time) {
    std::vector<std::string> ids;
    for (const auto& [id, name] : names_) ids.push_back(id);
    std::sort(ids.begin(), ids.end());
    for (const std::string& id : ids) died(id, time);
  }
  void counter(std::string_view name, int64_t bytes, int64_t time) {
    begin("C", name, time).key("args").open('{').key("bytes").number(bytes).close('}').close('}');
  }
  void phase(std::string_view name, int64_t time) { begin("i", name, time).key("s").text("g").close('}'); }
  std::string take() { return json_.close(']').close('}').take(); }

 private:
  static std::string name_of(const char* op, uint32_t path) {
    std::string name = path_name(path);
    if (*op) name += (name.empty() ? "" : ", ") + std::string(op);
    return name.empty() ? "buffer" : name;
  }
  Json& begin(const char* letter, std::string_view name, int64_t time) {
    return json_.line().open('{').key("ph").text(letter).key("name").text(name).key("ts").number(time).key("pid").number(1).key("tid").number(1);
  }
  Json json_;
  std::unordered_map<std::string, std::string> names_;  ///< Of those alive: both ends carry it.
};

}  // namespace

std::string trace_json(const Plan& step, const std::vector<Event>& before) {
  CategoryBytes now = make_report(step, before).base_by_category;
  Trace trace;
  const auto counted = [&](Category c, int64_t time) { trace.counter(category_name(c), now[c], time); };

  CategoryBytes unknown = now;  // of what was alive before, the part that no event names
  const detail::TrackedSet alive = detail::alive_before(step, before);
  std::vector<uint64_t> ids;
  for (const auto& [id, buffer] : alive) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (const uint64_t id : ids) {
    const detail::Tracked& b = alive.at(id);
    trace.born(std::to_string(id), b.op, b.path, b.bytes, b.category, 0);
    unknown[b.category] -= b.bytes;
  }
  for (int c = 0; c < category_count; ++c) {
    const auto category = Category(c);
    if (unknown[category]) trace.born(std::string(category_name(category)), "not recorded", 0, unknown[category], category, 0);
    counted(category, 0);
  }
  trace.counter("total", now.total(), 0);

  for (size_t i = 0; i < step.events.size(); ++i) {
    const Event& e = step.events[i];
    const auto time = int64_t(i);
    switch (e.kind) {
      case Event::Kind::allocate:
        trace.born(std::to_string(e.id), e.op, e.path, e.bytes, e.category, time);
        now[e.category] += e.bytes;
        break;
      case Event::Kind::release:
        trace.died(std::to_string(e.id), time);
        now[e.category] -= e.bytes;
        break;
      case Event::Kind::mark:
        now[e.from] -= e.bytes;
        now[e.category] += e.bytes;
        counted(e.from, time);
        break;
      case Event::Kind::scope: continue;
      case Event::Kind::phase:
        trace.phase(*e.op ? e.op : "forward", time);
        continue;
    }
    counted(e.category, time);
    if (e.kind != Event::Kind::mark) trace.counter("total", now.total(), time);
  }
  trace.all_die(int64_t(step.events.size()));
  return trace.take();
}

}  // namespace spool
