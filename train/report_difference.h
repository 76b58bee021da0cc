#pragma once
// How the memory reports of two runs differ.
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace spool::train {

/// A figure that differs. Nothing where a report does not know it; a module or an op that a report lacks has 0 bytes there.
struct ReportChange {
  std::string name;
  std::optional<int64_t> before, after;
  int64_t difference() const { return after.value_or(0) - before.value_or(0); }
};
/// Figures of one kind: "peak", "category", "candidate", "module", "op".
struct ReportPart {
  std::string name;
  std::vector<ReportChange> changes;  ///< Modules and ops: the largest difference first; the others in the report's order.
};
/// Parts without a difference are left out.
struct ReportDifference {
  std::vector<ReportPart> parts;
};

/// A run's report.json. Throws IoError for a file that is none, or one of another version.
nlohmann::ordered_json read_report(const std::filesystem::path& file);
ReportDifference compare_reports(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after);

/// A table, or "the same".
std::string difference_text(const ReportDifference& difference, const std::string& before, const std::string& after);
/// "spool.report.difference/1".
nlohmann::ordered_json difference_json(const ReportDifference& difference, const std::string& before, const std::string& after);

}  // namespace spool::train
