#include "table.h"

#include <spool/autograd/report.h>
#include <spool/tensor/error.h>

#include <cstdio>

namespace spool {
namespace {

using detail::TextTable;

std::string percent(int64_t part, int64_t whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", whole ? 100.0 * double(part) / double(whole) : 0.0);
  return text;
}
std::string both(int64_t bytes) { return concat(with_separators(bytes), " B (", binary_size(bytes), ")"); }
std::string place(const std::string& op, const std::string& module) { return concat(op.empty() ? "no op" : op, module.empty() ? "" : " in ", module); }

std::string header(const MemoryReport& r) {
  std::string text = concat(r.title, "\n\n  peak             ", both(r.peak), "\n");
  if (r.peak_event < 0) text += "                   before the first event: the step never exceeds what was there\n";
  else text += concat("                   at event ", with_separators(r.peak_event), " of ", with_separators(r.events), ", ", place(r.peak_op, r.peak_module), ", ", r.peak_phase, "\n");
  if (r.closed_form) {
    const int64_t off = r.closed_form->peak - r.peak;
    text += concat("  closed form      ", both(r.closed_form->peak), off == 0 ? ", the same" : concat(", ", off > 0 ? "+" : "", with_separators(off), " B from the plan"), "\n");
  }
  text += concat("  before the step  ", both(r.base), "\n");
  return text + concat("  allocated        ", both(r.allocated), " in ", with_separators(r.allocations), " allocations over the step\n");
}

/// Closed form, planned and measured side by side, as far as they are known.
std::string by_category(const MemoryReport& r) {
  std::vector<TextTable::Column> columns{{"By category, at the peak", false}};
  const bool known = r.closed_form && r.closed_form->by_category;
  if (known) columns.push_back({"closed form"});
  columns.push_back({"planned"});
  if (r.measured) columns.insert(columns.end(), {{"measured"}, {"difference"}});
  columns.insert(columns.end(), {{""}, {"share"}});
  TextTable table(columns);
  const auto cell = [](const std::optional<PeakFigures>& figures, int c) -> std::string {
    if (c == category_count) return with_separators(figures->peak);
    return figures->by_category ? with_separators(figures->by_category->bytes[size_t(c)]) : "–";
  };
  const std::optional<PeakFigures> planned = PeakFigures{r.peak, r.at_peak};
  for (int c = 0; c <= category_count; ++c) {
    const bool sum = c == category_count;
    const int64_t bytes = sum ? r.peak : r.at_peak.bytes[size_t(c)];
    const int64_t ran = !r.measured ? 0 : sum ? r.measured->peak : r.measured->by_category ? r.measured->by_category->bytes[size_t(c)] : bytes;
    if (!sum && bytes == 0 && ran == 0 && !(known && r.closed_form->by_category->bytes[size_t(c)])) continue;
    if (sum) table.line();
    std::vector<std::string> cells{sum ? "sum" : std::string(category_name(Category(c)))};
    if (known) cells.push_back(cell(r.closed_form, c));
    cells.push_back(cell(planned, c));
    if (r.measured) cells.insert(cells.end(), {cell(r.measured, c), ran == bytes ? "0" : concat(ran > bytes ? "+" : "", with_separators(ran - bytes))});
    cells.insert(cells.end(), {binary_size(bytes), percent(bytes, r.peak)});
    table.row(cells);
  }
  std::string text = table.text(1000);
  if (r.outside) text += concat("  outside the plan: ", both(*r.outside), "\n");
  if (!r.departure.empty()) text += concat("  The run departs from the plan at ", r.departure, "\n");
  else if (r.measured) text += "  The run posted the planned events, one for one.\n";
  return text;
}

std::string candidates(const MemoryReport& r, int width) {
  TextTable table({{"Where the peak can be", false}, {"bytes"}, {""}, {"at event"}, {"", false}});
  const PeakCandidate *first = nullptr, *second = nullptr;
  for (const PeakCandidate& c : r.candidates)
    if (!first || c.bytes > first->bytes) first = &c;
  for (const PeakCandidate& c : r.candidates)
    if (&c != first && (!second || c.bytes > second->bytes)) second = &c;
  for (const PeakCandidate& c : r.candidates) {
    table.row({c.at, with_separators(c.bytes), binary_size(c.bytes), c.event < 0 ? "before" : with_separators(c.event), &c == first ? "← the peak" : ""});
  }
  std::string text = table.text(width);
  if (second && second->bytes == first->bytes) text += concat("  To lower the peak, lower both ", first->at, " and ", second->at, ": they are equally high.\n");
  else if (second) text += concat("  Savings at ", first->at, " lower the peak by up to ", both(first->bytes - second->bytes), "; then ", second->at, " decides.\n");
  return text;
}

std::string shares(const char* title, const std::vector<MemoryShare>& all, const MemoryReport& r, const ReportTextOptions& options) {
  TextTable table({{title, false}, {"at the peak"}, {""}, {"share"}, {"highest"}, {"over the step"}, {"allocations"}});
  const auto add = [&](const MemoryShare& s, bool total) {
    table.row({s.name, with_separators(s.at_peak), binary_size(s.at_peak), percent(s.at_peak, r.peak), total ? "" : with_separators(s.highest), with_separators(s.allocated),
               with_separators(s.allocations)});
  };
  MemoryShare rest, sum{.name = "sum"};
  for (size_t i = 0; i < all.size(); ++i) {
    if (i < size_t(options.top)) add(all[i], false);
    for (MemoryShare* s : {&sum, i < size_t(options.top) ? nullptr : &rest}) {
      if (!s) continue;
      s->at_peak += all[i].at_peak;
      s->allocated += all[i].allocated;
      s->allocations += all[i].allocations;
    }
  }
  if (all.size() > size_t(options.top)) {
    rest.name = concat("and ", all.size() - size_t(options.top), " more");
    add(rest, true);
  }
  table.line();
  add(sum, true);
  return table.text(options.columns);
}

std::string live_set(const MemoryReport& r, const ReportTextOptions& options) {
  TextTable table({{"bytes"}, {""}, {"sum so far"}, {"category", false}, {"op", false}, {"module", false}, {"why it is alive", false}});
  int64_t so_far = 0;
  size_t shown = 0;
  for (; shown < r.live.size() && shown < size_t(options.top); ++shown) {
    const LiveBuffer& b = r.live[shown];
    so_far += b.bytes;
    table.row({with_separators(b.bytes), binary_size(b.bytes), percent(so_far, r.peak), std::string(category_name(b.category)), b.op, b.module, b.why});
  }
  std::string text = concat("Alive at the peak: ", with_separators(int64_t(r.live.size())), " buffers\n", table.text(options.columns));
  if (shown < r.live.size()) text += concat("  and ", with_separators(int64_t(r.live.size() - shown)), " more, ", both(r.peak - so_far), "\n");
  return text + concat("  sum: ", both(r.peak), "\n");
}

}  // namespace

std::string with_separators(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = std::ptrdiff_t(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) digits.insert(size_t(at), 1, ',');
  return digits;
}

std::string binary_size(int64_t bytes) {
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = double(bytes);
  if (std::abs(bytes) < 1024) return std::to_string(bytes) + " B";
  int unit = -1;
  do {
    value /= 1024;
    ++unit;
  } while (std::abs(value) >= 1023.5 && unit < 4);
  char text[32];
  const double size = std::abs(value);
  std::snprintf(text, sizeof text, "%.*f %s", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, value, units[unit]);
  return text;
}

std::string report_text(const MemoryReport& report, const ReportTextOptions& options) {
  std::string text = concat(header(report), "\n", by_category(report), "\n", candidates(report, options.columns), "\n");
  text += concat(shares("By module", report.by_module, report, options), "\n", shares("By op", report.by_op, report, options), "\n");
  return text + live_set(report, options);
}

}  // namespace spool
