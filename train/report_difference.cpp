#include "train/report_difference.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "train/files.h"
#include "train/format.h"

namespace spool::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* schema = "spool.report/2";
constexpr size_t shown = 20;

using Figures = std::vector<std::pair<std::string, std::optional<int64_t>>>;

std::optional<int64_t> figure(const Json& value) { return value.is_null() ? std::nullopt : std::optional(value.get<int64_t>()); }

/// The members of an object, in its order; nothing of null.
Figures members(const Json& object) {
  Figures out;
  for (const auto& [name, value] : object.items()) out.emplace_back(name, figure(value));
  return out;
}
Figures elements(const Json& list, const char* name, const char* bytes) {
  Figures out;
  for (const auto& one : list) out.emplace_back(one.at(name).get<std::string>(), figure(one.at(bytes)));
  return out;
}

/// `absent`: what a report has that lacks a name.
ReportPart compared(std::string name, const Figures& before, const Figures& after, std::optional<int64_t> absent = {}) {
  ReportPart part{std::move(name), {}};
  std::map<std::string, size_t> index;
  for (const auto& [figure, bytes] : before) {
    index[figure] = part.changes.size();
    part.changes.push_back({figure, bytes, absent});
  }
  for (const auto& [figure, bytes] : after) {
    const auto [found, added] = index.try_emplace(figure, part.changes.size());
    if (added) part.changes.push_back({figure, absent, bytes});
    else part.changes[found->second].after = bytes;
  }
  std::erase_if(part.changes, [](const ReportChange& c) { return c.before == c.after; });
  return part;
}
void sort_largest_first(ReportPart& part) {
  std::sort(part.changes.begin(), part.changes.end(), [](const ReportChange& a, const ReportChange& b) {
    const int64_t left = std::abs(a.difference()), right = std::abs(b.difference());
    return left != right ? left > right : a.name < b.name;
  });
}

std::string cell(const std::optional<int64_t>& bytes) { return bytes ? format_count(*bytes) : "–"; }
std::string difference_cell(const ReportChange& c) {
  if (!c.before || !c.after) return "";
  return fmt::format("{}{}", c.difference() > 0 ? "+" : "", format_count(c.difference()));
}

}  // namespace

nlohmann::ordered_json read_report(const std::filesystem::path& file) {
  const Json report = Json::parse(read_file(file), nullptr, false);
  if (!report.is_object() || !report.contains("schema")) fail<IoError>(file.string(), ": is no memory report");
  if (report["schema"] != schema) fail<IoError>(file.string(), ": is of the version ", report["schema"].dump(), ", not ", schema, "; make the run again");
  return report;
}

ReportDifference compare_reports(const Json& a, const Json& b) {
  const auto peaks = [](const Json& report) {  // without what the process takes besides, which no two runs have alike
    Figures out;
    for (const char* name : {"planned", "measured", "closed_form"}) out.emplace_back(name, figure(report.at("peak").at(name)));
    out.emplace_back("before the step", figure(report.at("base")));
    return out;
  };
  const auto at_peak = [](const Json& report, const char* key) { return elements(report.at(key), "name", "at_peak"); };
  ReportDifference difference;
  difference.parts.push_back(compared("peak", peaks(a), peaks(b)));
  difference.parts.push_back(compared("category", members(a.at("categories")), members(b.at("categories"))));
  difference.parts.push_back(compared("candidate", elements(a.at("candidates"), "at", "bytes"), elements(b.at("candidates"), "at", "bytes")));
  difference.parts.push_back(compared("module", at_peak(a, "modules"), at_peak(b, "modules"), 0));
  difference.parts.push_back(compared("op", at_peak(a, "ops"), at_peak(b, "ops"), 0));
  for (size_t i = 3; i < difference.parts.size(); ++i) sort_largest_first(difference.parts[i]);
  std::erase_if(difference.parts, [](const ReportPart& part) { return part.changes.empty(); });
  return difference;
}

std::string difference_text(const ReportDifference& difference, const std::string& before, const std::string& after) {
  std::string text = fmt::format("{} and {}: ", before, after);
  if (difference.parts.empty()) return text + "the same\n";
  text += "bytes at the peak that differ\n";
  for (const ReportPart& part : difference.parts) {
    text += fmt::format("\n  {:<36} {:>17} {:>17} {:>17}\n", "by " + part.name, "before", "after", "difference");
    for (size_t i = 0; i < std::min(part.changes.size(), shown); ++i) {
      const ReportChange& c = part.changes[i];
      text += fmt::format("  {:<36} {:>17} {:>17} {:>17}\n", c.name, cell(c.before), cell(c.after), difference_cell(c));
    }
    if (part.changes.size() > shown) text += fmt::format("  and {} more\n", part.changes.size() - shown);
  }
  size_t end = 0;  // no spaces at the ends of lines
  for (const char c : std::string(text)) {
    if (c == '\n')
      while (end && text[end - 1] == ' ') --end;
    text[end++] = c;
  }
  text.resize(end);
  return text;
}

nlohmann::ordered_json difference_json(const ReportDifference& difference, const std::string& before, const std::string& after) {
  const auto value = [](const std::optional<int64_t>& bytes) { return bytes ? Json(*bytes) : Json(); };
  Json list = Json::array();
  for (const ReportPart& part : difference.parts) {
    for (const ReportChange& c : part.changes) {
      list.push_back({{"part", part.name}, {"name", c.name}, {"before", value(c.before)}, {"after", value(c.after)},
                      {"difference", c.before && c.after ? Json(c.difference()) : Json()}});
    }
  }
  return {{"schema", "spool.report.difference/1"}, {"before", before}, {"after", after}, {"same", list.empty()}, {"differences", list}};
}

}  // namespace spool::train
