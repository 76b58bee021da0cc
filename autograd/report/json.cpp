#include "json_writer.h"

#include <spool/autograd/report.h>

namespace spool {
namespace {

using detail::Json;

Json& event(Json& j, int64_t index) { return index < 0 ? j.null() : j.number(index); }
Json& name(Json& j, const std::string& text) { return text.empty() ? j.null() : j.text(text); }

void categories(Json& j, const std::optional<CategoryBytes>& bytes) {
  if (!bytes) return void(j.null());
  j.open('{');
  for (int c = 0; c < category_count; ++c) j.key(category_name(Category(c))).number(bytes->bytes[size_t(c)]);
  j.close('}');
}

/// The closed form knows one figure for activations.
void closed_form_categories(Json& j, const std::optional<PeakFigures>& closed) {
  if (!closed || !closed->by_category) return void(j.null());
  const CategoryBytes& b = *closed->by_category;
  j.open('{').key("parameter").number(b[Category::parameter]).key("gradient").number(b[Category::gradient]).key("optimizer").number(b[Category::optimizer]);
  j.key("activation").number(b[Category::saved] + b[Category::temporary]).key("scratch").number(b[Category::scratch]);
  j.key("communication").number(b[Category::communication]).close('}');
}

void limit(Json& j, const std::optional<MemoryLimit>& limit) {
  j.line().key("limit");
  if (!limit) return void(j.null());
  j.open('{').key("bytes").number(limit->bytes).key("needed").number(limit->needed).close('}');
}

void scopes(Json& j, const MemoryReport& r) {
  j.line().key("scopes").open('[');
  for (const ScopeShare& s : r.scopes) {
    j.line().open('{').key("name").text(s.name).key("module");
    name(j, s.module).key("last_module");
    name(j, s.last_module).key("count").number(s.count).key("kept").number(s.kept).key("dropped").number(s.dropped);
    j.key("working_set").number(s.working_set).key("saves_nothing").boolean(s.saves_nothing).close('}');
  }
  j.close(']');
}

void suggestions(Json& j, const MemoryReport& r) {
  j.line().key("suggestions").open('[');
  for (const Suggestion& s : r.suggestions)
    j.line().open('{').key("change").text(s.change).key("how").text(s.how).key("peak").number(s.peak).key("extra_work").real(s.extra_work).close('}');
  j.close(']');
}

void shares(Json& j, const char* key, const std::vector<MemoryShare>& all) {
  j.line().key(key).open('[');
  for (const MemoryShare& s : all) {
    j.line().open('{').key("name").text(s.name).key("at_peak").number(s.at_peak).key("highest").number(s.highest);
    j.key("allocated").number(s.allocated).key("allocations").number(s.allocations).close('}');
  }
  j.close(']');
}

void peak(Json& j, const MemoryReport& r) {
  const auto figure = [&](const char* key, const std::optional<PeakFigures>& f) { f ? j.key(key).number(f->peak) : j.key(key).null(); };
  j.line().key("peak").open('{');
  figure("closed_form", r.closed_form);
  j.key("planned").number(r.peak);
  figure("measured", r.measured);
  j.close('}').line().key("outside");
  r.outside ? j.number(*r.outside) : j.null();
  j.line().key("base").number(r.base);
  j.line().key("at").open('{').key("event");
  event(j, r.peak_event).key("op");
  name(j, r.peak_op).key("module");
  name(j, r.peak_module).key("part");
  name(j, r.peak_phase).close('}');
}

void live(Json& j, const MemoryReport& r) {
  j.line().key("live").open('[');
  int64_t cumulative = 0;
  for (const LiveBuffer& b : r.live) {
    cumulative += b.bytes;
    j.line().open('{').key("id").number(int64_t(b.id)).key("bytes").number(b.bytes).key("cumulative").number(cumulative);
    j.key("category").text(category_name(b.category)).key("op");
    name(j, b.op).key("module");
    name(j, b.module).key("why").text(b.why).key("born");
    event(j, b.born).key("released");
    event(j, b.released).close('}');
  }
  j.close(']');
}

void timeline(Json& j, const MemoryReport& r) {
  j.line().key("timeline").open('{').key("categories").open('[');
  for (int c = 0; c < category_count; ++c) j.text(category_name(Category(c)));
  j.close(']').key("phases").open('[');
  for (const PhaseMark& p : r.phases) j.open('{').key("event").number(p.event).key("name").text(p.name).close('}');
  j.close(']').line().key("points").open('[');  // each: event, then bytes by category
  for (const TimelinePoint& p : r.timeline) {
    j.line().open('[').number(p.event);
    for (const int64_t bytes : p.bytes.bytes) j.number(bytes);
    j.close(']');
  }
  j.close(']').close('}');
}

}  // namespace

std::string report_json(const MemoryReport& r) {
  Json j;
  j.open('{').key("schema").text("spool.report/2").line().key("title").text(r.title);
  peak(j, r);
  j.line().key("categories");
  categories(j, r.at_peak);
  j.line().key("base_categories");
  categories(j, r.base_by_category);
  j.line().key("closed_form_categories");
  closed_form_categories(j, r.closed_form);
  j.line().key("measured_categories");
  categories(j, r.measured ? r.measured->by_category : std::nullopt);
  j.line().key("departure");
  name(j, r.departure);
  limit(j, r.limit);
  j.line().key("events").number(r.events).key("allocations").number(r.allocations).key("allocated").number(r.allocated);
  j.line().key("candidates").open('[');
  for (const PeakCandidate& c : r.candidates) {
    j.line().open('{').key("at").text(c.at).key("bytes").number(c.bytes).key("event");
    event(j, c.event).close('}');
  }
  j.close(']');
  shares(j, "modules", r.by_module);
  shares(j, "ops", r.by_op);
  scopes(j, r);
  suggestions(j, r);
  live(j, r);
  timeline(j, r);
  return j.close('}').take();
}

}  // namespace spool
