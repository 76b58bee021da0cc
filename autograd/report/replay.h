#pragma once
// What is alive when a step begins, from the events before it. Private.
#include <spool/autograd/plan.h>

#include <unordered_map>

namespace spool::detail {

/// A live buffer during the replay.
struct Tracked {
  int64_t bytes = 0;
  Category category = Category::temporary;
  const char* op = "";
  uint32_t path = 0;
  const char* marked_by = nullptr;  ///< Op of the last mark.
  uint32_t marked_in = 0;
  int64_t born = -1;
  size_t op_share = 0, module_share = 0;
  bool recorded = true;
  void mark(const Event& e) {
    category = e.category;
    marked_by = e.op;
    marked_in = e.path;
  }
};
using TrackedSet = std::unordered_map<uint64_t, Tracked>;

/// Buffers by id: those that `before` leaves, and those that the step mentions though nothing recorded their allocation.
TrackedSet alive_before(const Plan& step, const std::vector<Event>& before);

/// What an event does to the bytes alive by category. Returns the change of their sum.
int64_t apply(const Event& event, CategoryBytes& live);

/// The category that each buffer has at the end, by id: that of its last mark.
std::unordered_map<uint64_t, Category> last_categories(const Plan& step);

/// Throws PlanError: `before` and the step do not belong together.
[[noreturn]] void fail_unrelated(const std::string& what);

}  // namespace spool::detail
