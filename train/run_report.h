#pragma once
// The memory report of a training step: from its plan, and beside it what the run measured.
#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <optional>
#include <string>

#include "train/step.h"

namespace spool::train {

std::string plan_text(const RunConfig& config, int64_t parameters, const StepPlan& plan);
nlohmann::ordered_json plan_json(const RunConfig& config, int64_t parameters, const StepPlan& plan);

/// The planned step for other tools, see report_export.h: buffers as a trace, as CSV and as a PyTorch snapshot with the arena's offsets, and
/// the peak as stacks.
std::string plan_trace(const StepPlan& plan);
std::string plan_csv(const StepPlan& plan);
std::string plan_snapshot(const StepPlan& plan);
std::string plan_stacks(const RunConfig& config, const StepPlan& plan);

/// The report up to the first event that `limit` forbids; the whole when none is.
std::string limited_text(const RunConfig& config, const StepPlan& plan, int64_t limit);

/// report.txt, report.json and report.html in a run's directory. `measured` has no events when the run ended before its last step. What
/// `process_growth` exceeds the plan by is shown as outside it.
void write_reports(const std::filesystem::path& run, const RunConfig& config, const StepPlan& plan, const Plan& measured, std::optional<int64_t> process_growth = {});

}  // namespace spool::train
