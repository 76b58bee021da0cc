#pragma once
// Planning: running a step on meta tensors, where the dispatcher allocates but no kernel runs and no bytes exist. The events are those of
// the real step.
#include <spool/tensor/ambient.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace spool {

/// What a step allocates and releases, and how much is live when.
struct Plan {
  std::vector<Event> events;
  int64_t base = 0;       ///< Live bytes on the ledger before the step (parameters, optimizer state).
  int64_t peak = 0;       ///< Highest live bytes during the step, base included.
  CategoryBytes at_peak;  ///< By category at that moment.
};

/// Runs `step` while `ledger` records. Build the model under the same ledger first, so that base counts it.
///   auto ledger = std::make_shared<Ledger>();
///   With on(&Ambient::ledger, ledger);
///   Model model(config, meta());
///   Plan plan = record_plan(ledger, [&] { train_step(model, batch); });
Plan record_plan(const std::shared_ptr<Ledger>& ledger, const std::function<void()>& step);

/// One allocation of a step. It is alive in [begin, end), in events of the step.
struct StepBuffer {
  uint64_t id = 0;
  int64_t begin = 0, end = 0, bytes = 0;
  bool lasting = false;  ///< Outlives the step: `end` is the number of its events.
  const char* op = "";
  uint32_t path = 0;
};
/// All of them, in order of allocation. What was alive before is not among them.
std::vector<StepBuffer> step_buffers(const Plan& plan);

/// The first difference of two event lists as one readable line, or empty when they agree. Ids are compared by order of first appearance,
/// so lists from ledgers with different pasts can agree.
std::string first_difference(const std::vector<Event>& planned, const std::vector<Event>& measured);

/// One line: kind, bytes, category, op, module path.
std::string to_string(const Event& event);

}  // namespace spool
