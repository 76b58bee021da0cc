#include "train/run_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spool/autograd/arena.h>
#include <spool/autograd/report_export.h>

#include "train/budget.h"
#include "train/files.h"

namespace spool::train {
namespace {

constexpr ReportTextOptions wide{.columns = 120};

std::vector<Event> before(const StepPlan& plan) { return {plan.history.begin(), plan.history.end() - std::ptrdiff_t(plan.step.events.size())}; }

/// Adds what is known of the configuration.
MemoryReport described(MemoryReport report, const RunConfig& config, const StepPlan& plan) {
  report.title = fmt::format("Memory of a training step of {}: batch {}, {} tokens a sequence, {}", config.name, config.data.batch, config.data.seq,
                             config.train.chunk ? fmt::format("slices of {}", *config.train.chunk) : std::string("full gradient"));
  if (const auto known = closed_form(config, plan.chunked); known && !report.limit) report.closed_form = PeakFigures{.peak = known->peak.bytes, .by_category = known->at_peak()};
  report.suggestions = suggestions(config);
  return report;
}
MemoryReport report_of(const RunConfig& config, const StepPlan& plan) { return described(make_report(plan.step, before(plan)), config, plan); }
ArenaLayout layout_of(const StepPlan& plan) { return arena_layout(step_buffers(plan.step)); }

std::string modules_text(const RunConfig& config) {
  std::string out = fmt::format("  {:<44}{:>6}{:>18}{:>20}\n", "Modules", "", "parameters", "kept for backward");
  nn::ModuleEstimate sum;
  const auto row = [&](std::string_view name, const nn::ModuleEstimate& m) {
    out += fmt::format("  {:<44}{:>6}{:>18}{:>20}\n", name, m.count > 1 ? fmt::format("× {}", m.count) : "", with_separators(m.parameters), with_separators(m.saved_bytes));
  };
  for (const nn::ModuleEstimate& m : closed_form_modules(config)) {
    if (!m.parameters && !m.saved_bytes) continue;
    row(m.path.empty() ? "(batch, logits and loss)" : m.path, m);
    sum.parameters += m.parameters;
    sum.saved_bytes += m.saved_bytes;
  }
  row("sum, with nothing recomputed or in pieces", sum);
  return out + "\n";
}

}  // namespace

std::string plan_text(const RunConfig& config, int64_t parameters, const StepPlan& plan) {
  return fmt::format("{}: {} parameters\n\n{}{}", config.name, with_separators(parameters), modules_text(config), report_text(report_of(config, plan), wide));
}

nlohmann::ordered_json plan_json(const RunConfig& config, int64_t parameters, const StepPlan& plan) {
  const MemoryReport report = report_of(config, plan);
  nlohmann::ordered_json categories, candidates = nlohmann::ordered_json::array(), modules = nlohmann::ordered_json::array(), changes = nlohmann::ordered_json::array();
  for (int c = 0; c < category_count; ++c) categories[std::string(category_name(Category(c)))] = report.at_peak[Category(c)];
  for (const PeakCandidate& candidate : report.candidates) candidates.push_back({{"at", candidate.at}, {"bytes", candidate.bytes}});
  for (const nn::ModuleEstimate& m : closed_form_modules(config)) modules.push_back({{"module", m.path}, {"count", m.count}, {"parameters", m.parameters}, {"saved", m.saved_bytes}});
  for (const Suggestion& s : report.suggestions) changes.push_back({{"change", s.change}, {"how", s.how}, {"peak", s.peak}, {"extra_work", s.extra_work}});
  return {{"schema", "spool.plan/1"}, {"model", config.name}, {"parameters", parameters},
          {"peak", {{"closed_form", report.closed_form ? nlohmann::ordered_json(report.closed_form->peak) : nlohmann::ordered_json()}, {"planned", report.peak}, {"measured", nullptr}}}, {"categories", categories}, {"candidates", candidates},
          {"modules", modules}, {"suggestions", changes}};
}

std::string plan_trace(const StepPlan& plan) { return trace_json(plan.step, before(plan)); }
std::string plan_csv(const StepPlan& plan) { return buffers_csv(plan.step, layout_of(plan).offsets); }
std::string plan_snapshot(const StepPlan& plan) { return memory_snapshot(plan.step, layout_of(plan).offsets, before(plan)); }
std::string plan_stacks(const RunConfig& config, const StepPlan& plan) { return folded_stacks(report_of(config, plan)); }

std::string limited_text(const RunConfig& config, const StepPlan& plan, int64_t limit) {
  return report_text(described(limited_report(plan.step, limit, before(plan)), config, plan), {.top = 10, .columns = wide.columns});
}

void write_reports(const std::filesystem::path& run, const RunConfig& config, const StepPlan& plan, const Plan& measured, std::optional<int64_t> process_growth) {
  MemoryReport report = report_of(config, plan);
  if (process_growth) report.outside = *process_growth - plan.step.peak;
  if (!measured.events.empty()) report.compare(plan.step, measured);
  report.addresses = address_map(plan.step, layout_of(plan));
  write_file_atomic(run / "report.txt", report_text(report, wide));
  write_file_atomic(run / "report.json", report_json(report));
  write_file_atomic(run / "report.html", report_html(report));
}

}  // namespace spool::train
