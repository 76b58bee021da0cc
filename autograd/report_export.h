#pragma once
// A planned or measured step for other tools: trace viewers, PyTorch's memory viewer, placement solvers, flame graphs. Bytes are integers;
// time is the index of an event of the step. `before` as for make_report.
#include <spool/autograd/report.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spool {

/// Trace Event Format, for Perfetto and chrome://tracing: each buffer's life as an asynchronous pair "b", "e" with its id, one counter for
/// each category and one named "total", whose highest value is the peak, and an instant for each phase. What is alive before the step
/// begins at time 0; what outlives it ends with its last event.
std::string trace_json(const Plan& step, const std::vector<Event>& before = {});

/// The step's own buffers as a problem of placement: "id,lower,upper,size" and "offset" when there are offsets (in order of allocation, as
/// arena_layout gives them), alive in [lower, upper): MiniMalloc's input and output. Buffers of no bytes need no place and are left out.
std::string buffers_csv(const Plan& step, std::span<const int64_t> offsets = {});

/// Python's pickle of what torch.cuda.memory._snapshot() gives, for PyTorch's viewer (pytorch.org/memory_viz): a trace of the step's buffers,
/// with those at `offsets` (as for buffers_csv) in one segment and what was alive before the step in another. Frames are the op and the
/// modules around it. Buffers of no bytes are left out.
std::string memory_snapshot(const Plan& step, std::span<const int64_t> offsets, const std::vector<Event>& before = {});

/// What is alive at the peak as folded stacks, "layers;0;up;linear 4096", one line for each module and op (its category, in parentheses,
/// where there is no op), in the order of their names. The figures add up to the peak.
std::string folded_stacks(const MemoryReport& report);

}  // namespace spool
