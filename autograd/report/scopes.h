#pragma once
// Scopes that recompute, from the events that they post. Private.
#include <spool/autograd/report.h>

namespace spool::detail {

std::vector<ScopeShare> scope_shares(const Plan& step);

}  // namespace spool::detail
