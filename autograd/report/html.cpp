#include <spool/autograd/report.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cstdio>

namespace spool {
namespace {

constexpr const char* colours[category_count] = {"#0072b2", "#d55e00", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#8a8a8a"};
constexpr size_t share_rows = 25, live_rows = 200;

constexpr const char* style = R"(
:root { color-scheme: light dark; --ink: #1c2024; --soft: #667078; --line: #d8dde1; --card: #fff; --page: #f4f6f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9eb; --soft: #98a2a9; --line: #394147; --card: #1d2226; --page: #14181b; } }
body { margin: 0; background: var(--page); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
main { max-width: 1220px; margin: 0 auto; padding: 20px 24px 40px; }
h1 { font-size: 22px; margin: 0 0 12px; } h2 { font-size: 15px; margin: 0 0 8px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; margin-bottom: 14px; overflow-x: auto; }
.tiles { display: flex; gap: 14px; flex-wrap: wrap; } .tiles section { flex: 1; min-width: 200px; }
.big { font-size: 24px; font-weight: 600; } .soft { color: var(--soft); } .two { display: grid; grid-template-columns: 1fr 1fr; gap: 14px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line); padding: 3px 8px; }
td { padding: 3px 8px; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; } tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; white-space: nowrap; } tr.sum td { font-weight: 600; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
.legend span { margin-right: 16px; white-space: nowrap; } svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; } svg line { stroke: var(--line); } svg line.mark { stroke: var(--soft); stroke-dasharray: 3 4; }
svg line.peak { stroke: var(--ink); stroke-dasharray: 6 4; } svg text.peak { fill: var(--ink); font-weight: 600; }
@media (max-width: 900px) { .two { grid-template-columns: 1fr; } }
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
std::string size_cell(int64_t bytes) { return concat("<td class=n>", binary_size(bytes), "</td>"); }
std::string key(int category) { return concat("<i class=key style=\"background:", colours[category], "\"></i>"); }

/// The timeline: categories stacked over the events of the step.
class Chart {
 public:
  explicit Chart(const MemoryReport& r) : r_(r), events_(std::max<int64_t>(r.events, 1)), top_(std::max<int64_t>(r.peak, 1)) {}

  std::string svg() const {
    std::string out = "<svg viewBox=\"0 0 1180 380\" role=img aria-label=\"Bytes alive by category over the events of the step\">" + grid();
    std::vector<int64_t> floor(r_.timeline.size(), 0);
    for (int c = 0; c < category_count; ++c) out += area(c, floor);
    for (size_t i = 0; i < r_.phases.size() && r_.phases.size() <= 12; ++i) out += phase(r_.phases[i]);
    const double level = y(r_.peak), at = x(r_.peak_event);
    out += concat("<line class=peak x1=", left, " x2=", right, " y1=", fixed(level, 1), " y2=", fixed(level, 1), " /><text class=peak x=",
                  fixed(std::clamp(at, left + 60.0, right - 60.0), 1), " y=", fixed(level - 6, 1), " text-anchor=middle>peak ", binary_size(r_.peak), "</text>");
    return out + "</svg>";
  }

 private:
  static constexpr double left = 76, right = 1170, upper = 34, lower = 350;
  double x(int64_t event) const { return left + (right - left) * double(event + 1) / double(events_); }
  double y(int64_t bytes) const { return lower - (lower - upper) * double(bytes) / double(top_); }

  std::string grid() const {
    int64_t step = 1;
    while (top_ / step > 6) step *= 2;
    std::string out;
    for (int64_t bytes = 0; bytes <= top_; bytes += step) {
      out += concat("<line x1=", left, " x2=", right, " y1=", fixed(y(bytes), 1), " y2=", fixed(y(bytes), 1), " /><text x=", left - 8, " y=", fixed(y(bytes) + 4, 1),
                    " text-anchor=end>", binary_size(bytes), "</text>");
    }
    return out + concat("<text x=", left, " y=", lower + 20, ">first event</text><text x=", right, " y=", lower + 20, " text-anchor=end>", with_separators(r_.events),
                        " events</text>");
  }
  std::string area(int category, std::vector<int64_t>& floor) const {
    std::string forth, back;
    bool any = false;
    for (size_t i = 0; i < floor.size(); ++i) {
      const int64_t bytes = r_.timeline[i].bytes.bytes[size_t(category)], ceiling = floor[i] + bytes;
      const std::string from = fixed(x(r_.timeline[i].event), 1), to = i + 1 < floor.size() ? fixed(x(r_.timeline[i + 1].event), 1) : fixed(right, 1);
      forth += concat(i ? "L" : "M", from, " ", fixed(y(ceiling), 1), "H", to);
      back = concat("L", to, " ", fixed(y(floor[i]), 1), "H", from) + back;
      any = any || bytes;
      floor[i] = ceiling;
    }
    if (!any) return "";
    return concat("<path fill=\"", colours[category], "\" d=\"", forth, back, "Z\"><title>", category_name(Category(category)), "</title></path>");
  }
  std::string phase(const PhaseMark& mark) const {
    const std::string at = fixed(x(mark.event), 1);
    std::string out = concat("<line class=mark x1=", at, " x2=", at, " y1=", upper - 14, " y2=", lower, " />");
    if (!mark.name.empty()) out += concat("<text x=", fixed(std::min(x(mark.event) + 4, right - 100), 1), " y=", upper - 20, ">", escaped(mark.name), "</text>");
    return out;
  }

  const MemoryReport& r_;
  int64_t events_, top_;
};

std::string tiles(const MemoryReport& r) {
  const auto tile = [](const std::string& label, int64_t bytes, const std::string& note) {
    return concat("<section><div class=soft>", label, "</div><div class=big>", binary_size(bytes), "</div><div class=soft>", with_separators(bytes), " B", note, "</div></section>");
  };
  std::string out = "<div class=tiles>" + tile("Planned peak", r.peak, "");
  if (r.closed_form) out += tile("Closed form", r.closed_form->peak, concat(", ", with_separators(r.closed_form->peak - r.peak), " from the plan"));
  if (r.measured) out += tile("Measured peak", r.measured->peak, concat(", ", with_separators(r.measured->peak - r.peak), " from the plan"));
  if (r.outside) out += tile("Outside the plan", *r.outside, "");
  return out + tile("Before the step", r.base, "") + tile("Allocated over the step", r.allocated, concat(" in ", with_separators(r.allocations))) + "</div>";
}

std::string categories(const MemoryReport& r) {
  std::string out = "<section><h2>By category, at the peak</h2><table><tr><th>category<th class=n>bytes<th class=n><th class=n>share</tr>";
  for (int c = 0; c < category_count; ++c) {
    const int64_t bytes = r.at_peak.bytes[size_t(c)];
    if (bytes) out += concat("<tr><td>", key(c), category_name(Category(c)), "</td>", number(bytes), size_cell(bytes), "<td class=n>", percent(bytes, r.peak), "</td></tr>");
  }
  return out + concat("<tr class=sum><td>sum</td>", number(r.peak), size_cell(r.peak), "<td></td></tr></table></section>");
}

std::string candidates(const MemoryReport& r) {
  std::string out = "<section><h2>Where the peak can be</h2><table><tr><th>part of the step<th class=n>highest<th class=n><th class=n>below the peak</tr>";
  for (const PeakCandidate& c : r.candidates) {
    out += concat(c.bytes == r.peak ? "<tr class=sum>" : "<tr>", cell(c.at), number(c.bytes), size_cell(c.bytes), number(r.peak - c.bytes), "</tr>");
  }
  out += "</table>";
  if (r.peak_event >= 0) {
    out += concat("<p class=soft>The peak is reached at event ", with_separators(r.peak_event), ", when ", escaped(r.peak_op.empty() ? "no op" : r.peak_op),
                  r.peak_module.empty() ? "" : " in ", escaped(r.peak_module), " allocates.</p>");
  }
  return out + "</section>";
}

std::string shares(const char* title, const std::vector<MemoryShare>& all, const MemoryReport& r) {
  std::string out = concat("<section><h2>", title, "</h2><table><tr><th>name<th class=n>at the peak<th class=n>share<th class=n>over the step</tr>");
  int64_t rest = 0, rest_allocated = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i >= share_rows) {
      rest += all[i].at_peak;
      rest_allocated += all[i].allocated;
      continue;
    }
    out += concat("<tr>", cell(all[i].name), number(all[i].at_peak), "<td class=n>", percent(all[i].at_peak, r.peak), "</td>", number(all[i].allocated), "</tr>");
  }
  if (all.size() > share_rows) {
    out += concat("<tr><td>and ", all.size() - share_rows, " more</td>", number(rest), "<td class=n>", percent(rest, r.peak), "</td>", number(rest_allocated), "</tr>");
  }
  return out + concat("<tr class=sum><td>sum</td>", number(r.peak), "<td></td>", number(r.allocated), "</tr></table></section>");
}

std::string live_set(const MemoryReport& r) {
  std::string out = concat("<section><h2>Alive at the peak: ", with_separators(int64_t(r.live.size())),
                           " buffers</h2><table><tr><th class=n>bytes<th class=n><th class=n>sum so far<th>category<th>op<th>module<th>why it is alive</tr>");
  int64_t so_far = 0;
  for (size_t i = 0; i < r.live.size() && i < live_rows; ++i) {
    const LiveBuffer& b = r.live[i];
    so_far += b.bytes;
    out += concat("<tr>", number(b.bytes), size_cell(b.bytes), "<td class=n>", percent(so_far, r.peak), "</td><td>", key(int(b.category)), category_name(b.category), "</td>",
                  cell(b.op), cell(b.module), cell(b.why), "</tr>");
  }
  if (r.live.size() > live_rows) out += concat("<tr>", number(r.peak - so_far), size_cell(r.peak - so_far), "<td></td><td colspan=4>and ", r.live.size() - live_rows, " more</td></tr>");
  return out + concat("<tr class=sum>", number(r.peak), size_cell(r.peak), "<td></td><td colspan=4>sum</td></tr></table></section>");
}

}  // namespace

std::string report_html(const MemoryReport& r) {
  std::string legend = "<div class=legend>";
  for (int c = 0; c < category_count; ++c) legend += concat("<span>", key(c), category_name(Category(c)), "</span>");
  std::string out = concat("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>", escaped(r.title), "</title><style>", style,
                           "</style><main><h1>", escaped(r.title), "</h1>");
  if (!r.departure.empty()) out += concat("<section>The run departs from the plan at ", escaped(r.departure), "</section>");
  out += concat(tiles(r), "<section><h2>Bytes alive over the step</h2>", Chart(r).svg(), legend, "</div></section>");
  out += concat("<div class=two>", categories(r), candidates(r), "</div><div class=two>", shares("By module", r.by_module, r), shares("By op", r.by_op, r), "</div>");
  return out + live_set(r) + "</main></html>\n";
}

}  // namespace spool
