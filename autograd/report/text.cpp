#include "category_rows.h"
#include "fold.h"
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
  std::string text = concat(r.title, "\n\n");
  if (r.limit) {
    text += concat("  does not fit     the step needs ", both(r.limit->needed), ", the limit is ", both(r.limit->bytes), "\n  first beyond it  ", both(r.peak), "\n");
  } else {
    text += concat("  peak             ", both(r.peak), "\n");
  }
  if (r.peak_event >= 0) text += concat("                   at event ", with_separators(r.peak_event), " of ", with_separators(r.events), ", ", place(r.peak_op, r.peak_module), ", ", r.peak_phase, "\n");
  else text += concat("                   before the first event: ", r.limit ? "what the step begins with is too much" : "the step never exceeds what was there", "\n");
  if (r.closed_form) {
    const int64_t off = r.closed_form->peak - r.peak;
    text += concat("  closed form      ", both(r.closed_form->peak), off == 0 ? ", the same" : concat(", ", off > 0 ? "+" : "", with_separators(off), " B from the plan"), "\n");
  }
  text += concat("  before the step  ", both(r.base), "\n");
  return text + concat("  allocated        ", both(r.allocated), " in ", with_separators(r.allocations), " allocations over the step\n");
}

std::string by_category(const MemoryReport& r) {
  using Kind = detail::CategoryRow::Kind;
  std::vector<TextTable::Column> columns{{"By category, at the peak", false}};
  if (r.closed_form) columns.push_back({"closed form"});
  columns.push_back({"planned"});
  if (r.measured) columns.insert(columns.end(), {{"measured"}, {"difference"}});
  else if (r.outside) columns.push_back({"measured"});
  columns.insert(columns.end(), {{""}, {"share"}});
  TextTable table(columns);
  const auto figure = [](const std::optional<int64_t>& bytes) { return bytes ? with_separators(*bytes) : std::string("–"); };
  for (const detail::CategoryRow& row : detail::category_rows(r)) {
    if (row.kind == Kind::sum) table.line();
    std::vector<std::string> cells{row.kind == Kind::part ? "  " + row.name : row.name};
    if (r.closed_form) cells.push_back(figure(row.closed_form));
    cells.push_back(figure(row.planned));
    if (r.measured || r.outside) cells.push_back(figure(row.measured));
    if (r.measured) {
      const int64_t off = row.measured.value_or(0) - row.planned.value_or(0);
      cells.push_back(!row.measured || !row.planned ? "" : concat(off > 0 ? "+" : "", with_separators(off)));
    }
    cells.push_back(binary_size(row.planned.value_or(row.measured.value_or(0))));
    cells.push_back(row.planned ? percent(*row.planned, r.peak) : "");
    table.row(cells);
  }
  std::string text = table.text(1000);
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

std::string shares(const char* title, const std::vector<MemoryShare>& each, const MemoryReport& r, const ReportTextOptions& options) {
  const std::vector<MemoryShare> all = detail::folded(each);
  TextTable table({{title, false, true}, {"at the peak"}, {""}, {"share"}, {"highest"}, {"over the step"}, {"allocations"}});
  const auto add = [&](const MemoryShare& s, bool total) {
    table.row({s.name, with_separators(s.at_peak), binary_size(s.at_peak), percent(s.at_peak, r.peak), total || s.highest < 0 ? "" : with_separators(s.highest), with_separators(s.allocated),
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

std::string scopes(const MemoryReport& r, int width) {
  if (r.scopes.empty()) return "";
  TextTable table({{"Scopes that recompute", false}, {"each keeps"}, {"each drops"}, {""}, {"second run takes"}, {"", false}});
  bool useless = false;
  for (const ScopeShare& s : r.scopes) {
    std::string name = s.count == 1 ? s.name : concat(s.name, " × ", with_separators(s.count));
    if (!s.module.empty()) name += concat(", ", s.module);
    if (s.module != s.last_module) name += concat(" … ", s.last_module);
    table.row({name, with_separators(s.kept), with_separators(s.dropped), binary_size(s.dropped), with_separators(s.working_set), s.saves_nothing ? "saves nothing" : ""});
    useless = useless || s.saves_nothing;
  }
  return concat(table.text(width), useless ? "  A scope that saves nothing only costs time: without it the peak is the same.\n" : "", "\n");
}

/// Two lines each: what is typed must not be shortened.
std::string suggestions(const MemoryReport& r, int width) {
  if (r.suggestions.empty()) return "";
  TextTable table({{"The peak would be"}, {"saved"}, {"extra work"}, {"after this change", false}});
  for (const Suggestion& s : r.suggestions) {
    const int64_t saved = (r.limit ? r.limit->needed : r.peak) - s.peak;
    table.row({with_separators(s.peak), binary_size(saved), detail::work(s.extra_work), s.change});
  }
  std::string text;
  const std::string lines = table.text(width);
  size_t next = 0;
  for (size_t at = 0, end; at < lines.size(); at = end) {
    end = lines.find('\n', at) + 1;
    text += lines.substr(at, end - at);
    if (at && next < r.suggestions.size()) text += concat("      ", r.suggestions[next++].how, "\n");
  }
  return text + "\n";
}

std::string live_set(const MemoryReport& r, const ReportTextOptions& options) {
  TextTable table({{"bytes"}, {""}, {"sum so far"}, {"category", false}, {"op", false}, {"module", false, true}, {"why it is alive", false}});
  const std::vector<detail::FoldedBuffers> all = detail::folded(r.live);
  int64_t so_far = 0, buffers = 0;
  for (size_t i = 0; i < all.size() && i < size_t(options.top); ++i) {
    const detail::FoldedBuffers& b = all[i];
    so_far += b.bytes();
    buffers += b.count;
    table.row({with_separators(b.bytes()), binary_size(b.bytes()), percent(so_far, r.peak), std::string(category_name(b.each.category)), b.each.op,
               b.count > 1 ? concat(b.each.module, " × ", b.count) : b.each.module, b.each.why});
  }
  std::string text = concat("Alive at the peak: ", with_separators(int64_t(r.live.size())), " buffers\n", table.text(options.columns));
  if (buffers < int64_t(r.live.size())) text += concat("  and ", with_separators(int64_t(r.live.size()) - buffers), " more, ", both(r.peak - so_far), "\n");
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
  text += concat(suggestions(report, options.columns), scopes(report, options.columns));
  text += concat(shares("By module", report.by_module, report, options), "\n", shares("By op", report.by_op, report, options), "\n");
  return text + live_set(report, options);
}

}  // namespace spool
