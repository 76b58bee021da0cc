#pragma once
// Recomputation by op: what some ops give can be made again from what their own backward keeps anyway (a norm's result from its input and
// weight, a gated product from its two factors). Where that is asked for, those that use such a result do not keep it; backward makes it
// when it is needed first and drops it before it goes through the op itself. The values have the same bits.
//
//   const RecomputeOps again({"swiglu", "rms_norm"});
//   loss = model(batch);       // within: what these ops give is not kept
//   again.require_matches();
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace spool {

/// Names of ops ("swiglu"), or of modules ("mlp", "layers.3": as whole parts of the module path) all of whose ops are meant. Inside scopes
/// the names hold for the second run, too. The innermost object on this thread counts; one without names changes nothing.
class [[nodiscard]] RecomputeOps {
 public:
  explicit RecomputeOps(std::vector<std::string> names);
  ~RecomputeOps();
  RecomputeOps(const RecomputeOps&) = delete;
  RecomputeOps& operator=(const RecomputeOps&) = delete;

  /// Throws ConfigError for a name that no recorded op that can make its result again has answered to so far, listing those that can.
  void require_matches() const;

  struct Policy;

 private:
  std::shared_ptr<Policy> policy_, before_;
};

/// What is in force on this thread; null when nothing is.
struct RecomputeOps::Policy {
  std::vector<std::string> names;
  std::vector<int64_t> matches;  ///< By name: recorded ops so far.
  /// Whether an op in a module is meant. Counts it.
  bool takes(std::string_view op, std::string_view path);
};
std::shared_ptr<RecomputeOps::Policy>& recompute_policy();

}  // namespace spool
