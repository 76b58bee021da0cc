#include "category_rows.h"
#include "fold.h"
#include "table.h"

#include <spool/autograd/report.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cstdio>

namespace spool {
namespace {

constexpr const char* colours[category_count] = {"#0072b2", "#d55e00", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#8a8a8a"};
constexpr size_t share_rows = 25, live_rows = 200, map_places = 1500;

constexpr const char* style = R"(
:root { color-scheme: light dark; --ink: #1c2024; --soft: #667078; --line: #d8dde1; --card: #fff; --page: #f4f6f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9eb; --soft: #98a2a9; --line: #394147; --card: #1d2226; --page: #14181b; } }
body { margin: 0; background: var(--page); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
main { max-width: 1220px; margin: 0 auto; padding: 20px 24px 40px; }
h1 { font-size: 22px; margin: 0 0 12px; } h2 { font-size: 15px; margin: 0 0 8px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; margin-bottom: 14px; overflow-x: auto; }
.tiles { display: flex; gap: 14px; flex-wrap: wrap; } .tiles section { flex: 1; min-width: 150px; }
.big { font-size: 24px; font-weight: 600; } .soft { color: var(--soft); } .two { display: grid; grid-template-columns: 1fr 1fr; gap: 14px; }
.two.uneven { grid-template-columns: 1.3fr 1fr; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line); padding: 3px 8px; }
td { padding: 3px 8px; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; } tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; white-space: nowrap; } tr.sum td { font-weight: 600; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
.legend span { margin-right: 16px; white-space: nowrap; } svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; } svg line { stroke: var(--line); } svg line.mark { stroke: var(--soft); stroke-dasharray: 3 4; }
svg line.peak { stroke: var(--ink); stroke-dasharray: 6 4; } svg text.peak { fill: var(--ink); font-weight: 600; }
td.k, td.part { white-space: nowrap; } td.part { padding-left: 26px; color: var(--soft); } code { font-size: 13px; } section.bad { border-color: #d55e00; }
svg.map rect[data-t]:hover { stroke: var(--ink); stroke-width: 1.5; } svg text.band { fill: #fff; font-weight: 600; paint-order: stroke; stroke: #0006; stroke-width: 3px; }
#tip { position: fixed; display: none; pointer-events: none; white-space: pre; background: var(--card); border: 1px solid var(--soft); border-radius: 6px; padding: 6px 9px; }
@media (max-width: 900px) { .two, .two.uneven { grid-template-columns: 1fr; } }
)";

/// Words beside the pointer: those of the rectangle under it.
constexpr const char* script = R"(
const tip = document.getElementById('tip');
document.addEventListener('mousemove', e => {
  const words = e.target.dataset && e.target.dataset.t;
  tip.style.display = words ? 'block' : 'none';
  if (!words) return;
  tip.textContent = words;
  tip.style.left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 8) + 'px';
});
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}
std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}
std::string percent(int64_t part, int64_t whole) { return fixed(whole ? 100.0 * double(part) / double(whole) : 0, 1) + " %"; }
std::string number(int64_t bytes) { return concat("<td class=n>", with_separators(bytes), "</td>"); }
std::string cell(std::string_view text) { return concat("<td>", escaped(text), "</td>"); }
/// A module's path, which may be broken behind its dots.
std::string path_cell(std::string_view path) {
  std::string out;
  for (const char c : escaped(path)) out += c == '.' ? ".<wbr>" : std::string(1, c);
  return concat("<td>", out, "</td>");
}
std::string size_cell(int64_t bytes) { return concat("<td class=n>", binary_size(bytes), "</td>"); }
std::string key(int category) { return concat("<i class=key style=\"background:", colours[category], "\"></i>"); }

/// What both pictures have: the events of the step along x, bytes along y.
class Axes {
 public:
  Axes(const MemoryReport& r, int64_t top, double lower) : r_(r), lower_(lower), events_(std::max<int64_t>(r.events, 1)), top_(std::max<int64_t>(top, 1)) {}

 protected:
  static constexpr double left = 76, right = 1170, upper = 34;
  double x(int64_t event) const { return left + (right - left) * double(event + 1) / double(events_); }
  double y(int64_t bytes) const { return lower_ - (lower_ - upper) * double(bytes) / double(top_); }

  std::string grid() const {
    int64_t step = 1;
    while (top_ / step > 6) step *= 2;
    std::string out;
    for (int64_t bytes = 0; bytes <= top_; bytes += step) {
      out += concat("<line x1=", left, " x2=", right, " y1=", fixed(y(bytes), 1), " y2=", fixed(y(bytes), 1), " /><text x=", left - 8, " y=", fixed(y(bytes) + 4, 1),
                    " text-anchor=end>", binary_size(bytes), "</text>");
    }
    return out + concat("<text x=", left, " y=", lower_ + 20, ">first event</text><text x=", right, " y=", lower_ + 20, " text-anchor=end>", with_separators(r_.events),
                        " events</text>");
  }
  std::string phases() const {
    std::string out;
    for (size_t i = 0; i < r_.phases.size() && r_.phases.size() <= 12; ++i) out += phase(r_.phases[i]);
    return out;
  }
  /// A dashed line at `bytes` with words above it, near `event`.
  std::string level(int64_t bytes, int64_t event, const std::string& words) const {
    const double at = y(bytes);
    return concat("<line class=peak x1=", left, " x2=", right, " y1=", fixed(at, 1), " y2=", fixed(at, 1), " /><text class=peak x=",
                  fixed(std::clamp(x(event), left + 60.0, right - 60.0), 1), " y=", fixed(at - 6, 1), " text-anchor=middle>", words, "</text>");
  }

  const MemoryReport& r_;
  double lower_;

 private:
  std::string phase(const PhaseMark& mark) const {
    const std::string at = fixed(x(mark.event), 1);
    std::string out = concat("<line class=mark x1=", at, " x2=", at, " y1=", upper - 14, " y2=", lower_, " />");
    if (!mark.name.empty()) out += concat("<text x=", fixed(std::min(x(mark.event) + 4, right - 100), 1), " y=", upper - 20, ">", escaped(mark.name), "</text>");
    return out;
  }
  int64_t events_, top_;
};

/// The timeline: categories stacked over the events of the step.
class Chart : Axes {
 public:
  explicit Chart(const MemoryReport& r) : Axes(r, r.peak, 350) {
    for (const TimelinePoint& point : r.timeline) at_.push_back(fixed(x(point.event), 1));
    at_.push_back(fixed(right, 1));
  }

  std::string svg() const {
    std::string out = "<svg viewBox=\"0 0 1180 380\" role=img aria-label=\"Bytes alive by category over the events of the step\">" + grid();
    std::vector<int64_t> floor(r_.timeline.size(), 0);
    for (int c = 0; c < category_count; ++c) out += area(c, floor);
    return out + phases() + level(r_.peak, r_.peak_event, "peak " + binary_size(r_.peak)) + "</svg>";
  }

 private:
  std::string area(int category, std::vector<int64_t>& floor) const {
    std::string forth, back;
    bool any = false;
    for (size_t i = floor.size(); i-- > 0;) back += concat("L", at_[i + 1], " ", fixed(y(floor[i]), 1), "H", at_[i]);
    for (size_t i = 0; i < floor.size(); ++i) {
      const int64_t bytes = r_.timeline[i].bytes.bytes[size_t(category)];
      floor[i] += bytes;
      forth += concat(i ? "L" : "M", at_[i], " ", fixed(y(floor[i]), 1), "H", at_[i + 1]);
      any = any || bytes;
    }
    if (!any) return "";
    return concat("<path fill=\"", colours[category], "\" d=\"", forth, back, "Z\"><title>", category_name(Category(category)), "</title></path>");
  }
  std::vector<std::string> at_;  ///< Places along x: of each point, and the end.
};

/// Where the arena puts the step's own buffers: a rectangle each, as long as it lives and as high as its bytes. What is empty is free.
class Map : Axes {
 public:
  Map(const MemoryReport& r, const AddressMap& map) : Axes(r, map.size, 430), map_(map) {}

  std::string section() const {
    const size_t shown = std::min(map_.places.size(), map_places);
    const std::string note = concat(with_separators(int64_t(map_.places.size())), " buffers of the step in ", with_separators(map_.size), " B (", binary_size(map_.size),
                                    map_.size == map_.bound ? "), the least that any layout takes" : concat("); no layout takes less than ", with_separators(map_.bound), " B"),
                                    shown < map_.places.size() ? concat("; drawn: the ", with_separators(int64_t(shown)), " largest") : "");
    return concat("<section><h2>Addresses in the arena</h2><div class=soft>", note, "</div>", svg(shown), "</section>");
  }

 private:
  std::string svg(size_t shown) const {
    std::string out = concat("<svg class=map viewBox=\"0 0 1180 ", 460 + 26 * bands().size(), "\" role=img aria-label=\"Offsets of the step's buffers over its events\">", grid());
    for (size_t k = 0; k < shown; ++k) out += place(map_.places[k]);
    out += phases() + level(map_.bound, r_.peak_event, map_.size == map_.bound ? "highest address = bound " + binary_size(map_.bound) : "bound " + binary_size(map_.bound));
    double at = lower_ + 32;
    for (const auto& [category, bytes] : bands()) {
      out += concat("<rect class=c", category, " x=", left, " y=", at, " width=", right - left, " height=20 /><text class=band x=", left + 8, " y=", at + 14, ">",
                    category_name(Category(category)), ", from before the step, ", binary_size(bytes), " (not to scale)</text>");
      at += 26;
    }
    return out + "</svg>";
  }
  std::vector<std::pair<int, int64_t>> bands() const {
    std::vector<std::pair<int, int64_t>> out;
    for (int c = 0; c < category_count; ++c)
      if (const int64_t bytes = r_.base_by_category.bytes[size_t(c)]) out.emplace_back(c, bytes);
    return out;
  }
  std::string place(const AddressMap::Place& p) const {
    const double from = x(p.begin), to = std::min(x(p.end), right), high = y(p.offset + p.bytes), low = y(p.offset);
    const std::string words = concat(p.op.empty() ? "no op" : p.op, p.module.empty() ? "" : " in ", p.module, "\n", with_separators(p.bytes), " B at ", with_separators(p.offset), ", ",
                                     category_name(p.category), "\nevents ", p.begin, " to ", p.end);
    return concat("<rect class=c", int(p.category), " x=", fixed(from, 1), " y=", fixed(high, 1), " width=", fixed(std::max(to - from, 0.4), 1), " height=",
                  fixed(std::max(low - high, 0.3), 1), " data-t=\"", escaped(words), "\" />");
  }
  const AddressMap& map_;
};

std::string tiles(const MemoryReport& r) {
  const auto tile = [](const std::string& label, int64_t bytes, const std::string& note) {
    return concat("<section><div class=soft>", label, "</div><div class=big>", binary_size(bytes), "</div><div class=soft>", with_separators(bytes), " B", note, "</div></section>");
  };
  std::string out = "<div class=tiles>" + tile(r.limit ? "Beyond the limit" : "Planned peak", r.peak, "");
  const auto off = [&](int64_t bytes) { return bytes == r.peak ? ", as planned" : concat(", ", bytes > r.peak ? "+" : "", with_separators(bytes - r.peak), " from the plan"); };
  if (r.closed_form) out += tile("Closed form", r.closed_form->peak, off(r.closed_form->peak));
  if (r.measured) out += tile("Measured peak", r.measured->peak, off(r.measured->peak));
  if (r.outside) out += tile("Outside the plan", *r.outside, "");
  return out + tile("Before the step", r.base, "") + tile(concat("Allocated in ", with_separators(r.allocations), " buffers"), r.allocated, "") + "</div>";
}

std::string categories(const MemoryReport& r) {
  using Kind = detail::CategoryRow::Kind;
  const bool measured = r.measured || r.outside;
  std::string out = concat("<section><h2>By category, at the peak</h2><table><tr><th>category", r.closed_form ? "<th class=n>closed form" : "", "<th class=n>planned",
                           measured ? "<th class=n>measured" : "", "<th class=n><th class=n>share</tr>");
  const auto figure = [](const std::optional<int64_t>& bytes) { return concat("<td class=n>", bytes ? with_separators(*bytes) : "–", "</td>"); };
  for (const detail::CategoryRow& row : detail::category_rows(r)) {
    out += concat(row.kind == Kind::sum ? "<tr class=sum>" : "<tr>", row.kind == Kind::part ? "<td class=part>" : "<td class=k>", row.colour < 0 ? "" : key(row.colour), row.name, "</td>");
    if (r.closed_form) out += figure(row.closed_form);
    out += figure(row.planned);
    if (measured) out += figure(row.measured);
    out += concat(size_cell(row.planned.value_or(row.measured.value_or(0))), "<td class=n>", row.planned ? percent(*row.planned, r.peak) : "", "</td></tr>");
  }
  return out + "</table></section>";
}

std::string candidates(const MemoryReport& r) {
  std::string out = "<section><h2>Where the peak can be</h2><table><tr><th>part of the step<th class=n>highest<th class=n><th class=n>below the peak</tr>";
  for (const PeakCandidate& c : r.candidates) {
    out += concat(c.bytes == r.peak ? "<tr class=sum>" : "<tr>", "<td class=k>", escaped(c.at), "</td>", number(c.bytes), size_cell(c.bytes), number(r.peak - c.bytes), "</tr>");
  }
  out += "</table>";
  if (r.peak_event >= 0) {
    out += concat("<p class=soft>The peak is reached at event ", with_separators(r.peak_event), ", when ", escaped(r.peak_op.empty() ? "no op" : r.peak_op),
                  r.peak_module.empty() ? "" : " in ", escaped(r.peak_module), " allocates.</p>");
  }
  return out + "</section>";
}

std::string suggestions(const MemoryReport& r) {
  if (r.suggestions.empty()) return "";
  std::string out = "<section><h2>What would lower the peak</h2><table><tr><th>change<th class=n>peak<th class=n><th class=n>saved<th class=n>extra work<th>how</tr>";
  for (const Suggestion& s : r.suggestions) {
    out += concat("<tr>", cell(s.change), number(s.peak), size_cell(s.peak), number((r.limit ? r.limit->needed : r.peak) - s.peak), "<td class=n>", detail::work(s.extra_work),
                  "</td><td><code>", escaped(s.how), "</code></td></tr>");
  }
  return out + "</table></section>";
}

std::string scopes(const MemoryReport& r) {
  if (r.scopes.empty()) return "";
  std::string out = "<section><h2>Scopes that recompute</h2><table><tr><th>scope<th>modules<th class=n>each keeps<th class=n>each drops<th class=n><th class=n>second run takes<th></tr>";
  for (const ScopeShare& s : r.scopes) {
    out += concat("<tr>", cell(s.count == 1 ? s.name : concat(s.name, " × ", with_separators(s.count))), cell(s.module == s.last_module ? s.module : concat(s.module, " … ", s.last_module)),
                  number(s.kept), number(s.dropped), size_cell(s.dropped), number(s.working_set), cell(s.saves_nothing ? "saves nothing" : ""), "</tr>");
  }
  return out + "</table></section>";
}

std::string shares(const char* title, const std::vector<MemoryShare>& each, const MemoryReport& r) {
  const std::vector<MemoryShare> all = detail::folded(each);
  std::string out = concat("<section><h2>", title, "</h2><table><tr><th>name<th class=n>at the peak<th class=n>share<th class=n>over the step</tr>");
  int64_t rest = 0, rest_allocated = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i >= share_rows) {
      rest += all[i].at_peak;
      rest_allocated += all[i].allocated;
      continue;
    }
    out += concat("<tr>", path_cell(all[i].name), number(all[i].at_peak), "<td class=n>", percent(all[i].at_peak, r.peak), "</td>", number(all[i].allocated), "</tr>");
  }
  if (all.size() > share_rows) {
    out += concat("<tr><td>and ", all.size() - share_rows, " more</td>", number(rest), "<td class=n>", percent(rest, r.peak), "</td>", number(rest_allocated), "</tr>");
  }
  return out + concat("<tr class=sum><td>sum</td>", number(r.peak), "<td></td>", number(r.allocated), "</tr></table></section>");
}

std::string live_set(const MemoryReport& r) {
  std::string out = concat("<section><h2>Alive at the peak: ", with_separators(int64_t(r.live.size())),
                           " buffers</h2><table><tr><th class=n>bytes<th class=n><th class=n>sum so far<th>category<th>op<th>module<th>why it is alive</tr>");
  const std::vector<detail::FoldedBuffers> all = detail::folded(r.live);
  int64_t so_far = 0, buffers = 0;
  for (size_t i = 0; i < all.size() && i < live_rows; ++i) {
    const detail::FoldedBuffers& b = all[i];
    so_far += b.bytes();
    buffers += b.count;
    out += concat("<tr>", number(b.bytes()), size_cell(b.bytes()), "<td class=n>", percent(so_far, r.peak), "</td><td>", key(int(b.each.category)), category_name(b.each.category), "</td>",
                  cell(b.each.op), path_cell(b.count > 1 ? concat(b.each.module, " × ", b.count) : b.each.module), cell(b.each.why), "</tr>");
  }
  if (const int64_t more = int64_t(r.live.size()) - buffers) out += concat("<tr>", number(r.peak - so_far), size_cell(r.peak - so_far), "<td></td><td colspan=4>and ", more, " more</td></tr>");
  return out + concat("<tr class=sum>", number(r.peak), size_cell(r.peak), "<td></td><td colspan=4>sum</td></tr></table></section>");
}

}  // namespace

std::string report_html(const MemoryReport& r) {
  std::string legend = "<div class=legend>", fills;
  for (int c = 0; c < category_count; ++c) {
    legend += concat("<span>", key(c), category_name(Category(c)), "</span>");
    fills += concat(".c", c, " { fill: ", colours[c], "; } ");
  }
  std::string out = concat("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>", escaped(r.title), "</title><style>", style, fills,
                           "\n</style><main><h1>", escaped(r.title), "</h1>");
  if (!r.departure.empty()) out += concat("<section class=bad>The run departs from the plan at ", escaped(r.departure), "</section>");
  if (r.limit) {
    out += concat("<section class=bad>Does not fit: the step needs ", with_separators(r.limit->needed), " B (", binary_size(r.limit->needed), "), the limit is ",
                  with_separators(r.limit->bytes), " B (", binary_size(r.limit->bytes), "). The report ends where the limit is exceeded first.</section>");
  }
  out += concat(tiles(r), "<section><h2>Bytes alive over the step</h2>", Chart(r).svg(), legend, "</div></section>");
  out += concat("<div class=\"two uneven\">", categories(r), candidates(r), "</div>", suggestions(r));
  if (r.addresses) out += Map(r, *r.addresses).section();
  out += concat(scopes(r), "<div class=two>", shares("By module", r.by_module, r), shares("By op", r.by_op, r), "</div>");
  return out + live_set(r) + concat("</main><div id=tip></div><script>", script, "</script></html>\n");
}

}  // namespace spool
