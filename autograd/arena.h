#pragma once
// The arena: one block of memory in which the k-th allocation of a step goes to the k-th planned offset. A step that runs in it never asks
// the system for tensor bytes, touches the same pages each time, and cannot fragment.
//
//   Plan plan = record_plan(ledger, [&] { train_step(meta_model, meta_batch); });
//   auto arena = std::make_shared<Arena>(plan);
//   for (…) {
//     ArenaStep step(arena);      // tensors made until the end of this C++ scope live in the arena
//     train_step(model, batch);
//     step.finish();              // throws PlanError when the step stopped short of its plan
//   }
//
// Plan a steady-state step. State that the first step makes once (moments of an optimizer that makes them lazily) belongs before the plan:
// run or plan one step first. Three kinds of buffer:
//   released in the step    Shares addresses with others that are not alive at the same time. When the run holds one longer than planned, the
//                           next allocation at its address throws PlanError, naming both ops; nothing is ever overwritten.
//   outlives the step       Has a place of its own, shared with nothing: gradients that are dropped early in the next step, for example. It is
//                           free again for the next step once it has been released. When it is still in use then (a loss kept in a list), the
//                           bytes come from the system instead, counted in `spilled_bytes`. Steps that drop gradients at their end need less.
//   made outside the steps  Not the arena's business: ArenaStep puts the allocator back that was there before.
//
// Tensors keep the arena alive. Allocation belongs to one thread at a time; releases may come from any.
#include <spool/autograd/plan.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace spool {

struct ArenaOptions {
  bool poison = false;      ///< Fill with 0xFF bytes (NaN in every float type) at the start and on release.
  bool touch = true;        ///< Make all pages resident now rather than in the first step.
  bool huge_pages = true;   ///< Ask for transparent huge pages, where the system has them.
};

/// Where an arena puts the allocations of a step, in their order: first those that outlive it, each at a place of its own.
struct ArenaLayout {
  std::vector<int64_t> offsets;
  int64_t lasting = 0;  ///< Bytes of the first part.
  int64_t size = 0, bound = 0;  ///< See Arena::size, Arena::bound.
};
ArenaLayout arena_layout(const std::vector<StepBuffer>& buffers);

class Arena final : public Allocator {
 public:
  /// Places the plan's allocations and takes the block from the system. Throws OutOfMemory.
  explicit Arena(const Plan& plan, ArenaOptions options = {});
  ~Arena() override;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Goes back to the first planned allocation. Throws PlanError when a buffer that was planned to end in the step before is still alive.
  void begin_step();
  /// Allocations from here on throw until the next begin_step(). Complete or not: an abandoned step is not an error here.
  void end_step() noexcept;
  /// Throws PlanError, naming the first allocation that is missing, when the step made fewer allocations than planned.
  void require_complete() const;

  /// The next planned place. Throws PlanError when there is none, when the size or the op is not the planned one, or when the bytes are in use.
  void* allocate(int64_t bytes) override;
  void deallocate(void* block, int64_t bytes) noexcept override;

  int64_t size() const;            ///< Bytes of the block: the planned high-water mark, sizes rounded up to 64.
  int64_t lasting_bytes() const;   ///< The part of it for buffers that outlive the step.
  int64_t bound() const;           ///< The least that any placement of this plan could take: largest live set + lasting_bytes().
  int64_t high_water() const;      ///< Highest address handed out so far, from the start of the block.
  int64_t live_bytes() const;      ///< Bytes handed out now.
  int64_t spilled_bytes() const;   ///< Bytes taken from the system so far because a lasting buffer was still in use.
  int64_t steps() const;           ///< begin_step() calls so far.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One step in an arena: begin_step() and the ambient allocator, until the end of the C++ scope.
class [[nodiscard]] ArenaStep {
 public:
  explicit ArenaStep(const std::shared_ptr<Arena>& arena);
  ~ArenaStep();
  ArenaStep(const ArenaStep&) = delete;
  ArenaStep& operator=(const ArenaStep&) = delete;
  void finish() const { arena_->require_complete(); }  ///< See Arena::require_complete. Optional.

 private:
  std::shared_ptr<Arena> arena_;
  With<std::shared_ptr<Allocator>> allocator_;
};

}  // namespace spool
