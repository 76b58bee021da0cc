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
  j.open('{').key("schema").text("spool.report/1").line().key("title").text(r.title);
  peak(j, r);
  j.line().key("categories");
  categories(j, r.at_peak);
  j.line().key("base_categories");
  categories(j, r.base_by_category);
  j.line().key("closed_form_categories");
  categories(j, r.closed_form ? r.closed_form->by_category : std::nullopt);
  j.line().key("measured_categories");
  categories(j, r.measured ? r.measured->by_category : std::nullopt);
  j.line().key("departure");
  name(j, r.departure);
  j.line().key("events").number(r.events).key("allocations").number(r.allocations).key("allocated").number(r.allocated);
  j.line().key("candidates").open('[');
  for (const PeakCandidate& c : r.candidates) {
    j.line().open('{').key("at").text(c.at).key("bytes").number(c.bytes).key("event");
    event(j, c.event).close('}');
  }
  j.close(']');
  shares(j, "modules", r.by_module);
  shares(j, "ops", r.by_op);
  live(j, r);
  timeline(j, r);
  return j.close('}').take();
}

}  // namespace spool
