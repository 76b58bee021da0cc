#include <spool/autograd/op.h>
#include <spool/autograd/recompute_ops.h>
#include <spool/tensor/error.h>

#include <utility>

namespace spool {

std::shared_ptr<RecomputeOps::Policy>& recompute_policy() {
  thread_local std::shared_ptr<RecomputeOps::Policy> policy;
  return policy;
}

RecomputeOps::RecomputeOps(std::vector<std::string> names) : before_(recompute_policy()) {
  if (names.empty()) return;
  policy_ = std::make_shared<Policy>();
  policy_->matches.resize(names.size());
  policy_->names = std::move(names);
  recompute_policy() = policy_;
}
RecomputeOps::~RecomputeOps() { recompute_policy() = std::move(before_); }

bool RecomputeOps::Policy::takes(std::string_view op, std::string_view path) {
  const std::string parts = concat(".", path, ".");
  bool taken = false;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != op && parts.find(concat(".", names[i], ".")) == parts.npos) continue;
    ++matches[i];
    taken = true;
  }
  return taken;
}

void RecomputeOps::require_matches() const {
  if (!policy_) return;
  for (size_t i = 0; i < policy_->names.size(); ++i) {
    if (policy_->matches[i]) continue;
    std::string able;
    for (const OpInfo* op : registered_ops())
      if (op->remake) able += concat(able.empty() ? "" : ", ", op->name);
    fail<ConfigError>("recompute_ops: nothing that ran is named \"", policy_->names[i], "\"; use ops that can make their results again (", able, ") or modules that hold some");
  }
}

}  // namespace spool
