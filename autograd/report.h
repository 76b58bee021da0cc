#pragma once
// The memory report: where the bytes of a planned or measured step are at its peak, and why.
//
//   auto ledger = std::make_shared<Ledger>();
//   ledger->recording(true);                       // from the start, so that the report knows every parameter and every moment by name
//   With on(&Ambient::ledger, ledger);
//   Model model(config, meta());  Adam adam(…);
//   const auto before = ledger->take_events();
//   const Plan plan = record_plan(ledger, [&] { train_step(model, adam, batch); });
//   MemoryReport report = make_report(plan, before);
//   report.compare(measured_plan);                 // optional: the same step as it ran
//   std::puts(report_text(report).c_str());
//
// Categories, ops, modules and the live set each add up to the peak exactly. All figures are bytes.
#include <spool/autograd/plan.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spool {

/// One buffer that is alive at the peak.
struct LiveBuffer {
  uint64_t id = 0;       ///< Allocation id; 0 for bytes from before the step whose allocation was not recorded (one entry a category).
  int64_t bytes = 0;
  Category category = Category::temporary;
  std::string op, module;  ///< Who allocated it, in which module. Empty when none.
  std::string why;         ///< Why it is alive: "parameter", "saved by softmax for backward", "in use", …
  int64_t born = -1;       ///< Event of the step that made it; -1: made before.
  int64_t released = -1;   ///< Event of the step that released it; -1: outlives the step.
};

/// The part of one op or one module.
struct MemoryShare {
  std::string name;         ///< "(no op)", "(no module)", "(not recorded)" for what has none.
  int64_t at_peak = 0;      ///< Alive at the peak.
  int64_t highest = 0;      ///< Most that was alive at any instant of the step.
  int64_t allocated = 0;    ///< Sum of allocations over the step.
  int64_t allocations = 0;  ///< Their number.
};

/// The highest instant of one part of the step. Parts come from Phase marks: "forward" (what is in no phase), "start of backward" (while at
/// least half of what was saved when backward began is alive), "end of backward" (the rest of it), "optimizer step", and phases of the
/// user's. A step without marks has one part, "step".
struct PeakCandidate {
  std::string at;
  int64_t bytes = 0;
  int64_t event = -1;  ///< -1: before the first.
};

struct TimelinePoint {
  int64_t event = -1;
  CategoryBytes bytes;  ///< Alive after this event.
};
struct PhaseMark {
  int64_t event = 0;
  std::string name;  ///< Empty: back to no phase.
};

/// A peak from another source, to hold against the plan. A closed form knows activations as one figure: its `by_category` has all of them,
/// temporaries included, in Category::saved.
struct PeakFigures {
  int64_t peak = 0;
  std::optional<CategoryBytes> by_category;
};

/// Scopes that recompute, see checkpoint.h. Those that are alike in name and in every figure are one entry.
struct ScopeShare {
  std::string name;
  std::string module, last_module;  ///< Where the first and the last of them are.
  int64_t count = 1;
  int64_t kept = 0;         ///< Of each: what its forward leaves saved that was not saved before.
  int64_t dropped = 0;      ///< Of each: what its second run saves again, and forward therefore did not keep.
  int64_t working_set = 0;  ///< Of each: the most that its second run has alive beyond what was alive when it began.
  /// With `dropped` kept from its forward to its second run the peak would be the same. Each is judged by itself.
  bool saves_nothing = false;
};

/// A change of the step, with its exact effect.
struct Suggestion {
  std::string change;     ///< "recompute the first 4 blocks"
  std::string how;        ///< What to type: "--set train.recompute=block:4"
  int64_t peak = 0;       ///< Of the changed step.
  double extra_work = 0;  ///< Share of the step's arithmetic that is added; below 0 when some is saved.
};

/// Where an arena puts the buffers of a step, and when they are there.
struct AddressMap {
  struct Place {
    int64_t begin = 0, end = 0;  ///< Events, as in StepBuffer.
    int64_t offset = 0, bytes = 0;
    Category category = Category::temporary;  ///< At the end of its life.
    std::string op, module;
  };
  std::vector<Place> places;  ///< Largest first; buffers of no bytes have none.
  int64_t size = 0, bound = 0;  ///< See Arena::size, Arena::bound.
};
struct ArenaLayout;
/// `layout` is that of step_buffers(step).
AddressMap address_map(const Plan& step, const ArenaLayout& layout);

/// A bound that the step does not keep to.
struct MemoryLimit {
  int64_t bytes = 0;
  int64_t needed = 0;  ///< The peak of the whole step.
};

struct MemoryReport {
  std::string title = "Memory of a step";
  int64_t base = 0, peak = 0;       ///< Alive before the step; highest during it, base included.
  CategoryBytes base_by_category;
  CategoryBytes at_peak;
  int64_t peak_event = -1;          ///< First event after which the peak is alive; -1: nothing exceeds the base.
  std::string peak_op, peak_module, peak_phase;
  int64_t events = 0, allocations = 0, allocated = 0;  ///< In the step.
  std::vector<PeakCandidate> candidates;  ///< In order of appearance.
  std::vector<MemoryShare> by_op, by_module;  ///< Largest at the peak first.
  std::vector<LiveBuffer> live;     ///< At the peak, largest first: 100 % of its bytes.
  std::vector<ScopeShare> scopes;   ///< Those whose second run is in the step, in order of their forward.
  std::vector<TimelinePoint> timeline;  ///< At most `timeline_points`; each is the highest instant of its stretch, so the peak is among them.
  std::vector<PhaseMark> phases;

  std::optional<PeakFigures> closed_form, measured;
  std::optional<int64_t> outside;   ///< Bytes of the process that no plan covers (libraries, contexts), when someone measured them.
  std::vector<Suggestion> suggestions;  ///< As whoever filled them in ordered them.
  std::optional<AddressMap> addresses;  ///< For the HTML page.
  std::optional<MemoryLimit> limit;     ///< Of a report that limited_report cut short.
  std::string departure;            ///< First event in which the measured step differs from this one; empty when none does.

  /// Sets `measured` and `departure` from the step as it ran. `events` are those of the plan that this report was made from.
  void compare(const Plan& planned, const Plan& run);
};

inline constexpr int timeline_points = 600;

/// `before`: what the ledger recorded from its construction to the step. Without it, what was alive before the step is one entry a category.
/// Throws PlanError when `before` and the step do not belong together.
MemoryReport make_report(const Plan& step, const std::vector<Event>& before = {});

/// The report of a step that does not fit: cut at the first event after which more than `limit` bytes are alive, which is its peak. The whole
/// report, without `limit`, when the step fits.
MemoryReport limited_report(const Plan& step, int64_t limit, const std::vector<Event>& before = {});

struct ReportTextOptions {
  int top = 20;       ///< Lines of each table; the rest is one line "and K more" with its sum.
  int columns = 100;  ///< Width to stay within; long names are shortened in the middle.
};
std::string report_text(const MemoryReport& report, const ReportTextOptions& options = {});

/// One JSON document, "schema": "spool.report/2", described by report/report.schema.json. Bytes are integers; what is unknown is null.
std::string report_json(const MemoryReport& report);

/// One self-contained HTML page: the timeline by category and the address map as SVG, and the tables. No network.
std::string report_html(const MemoryReport& report);

std::string with_separators(int64_t value);  ///< "18,151,915,524".
std::string binary_size(int64_t bytes);      ///< "512 B", "1.50 KiB", "16.9 GiB": three digits, binary units.

}  // namespace spool
