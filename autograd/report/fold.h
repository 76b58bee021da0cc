#pragma once
// Rows that differ in a number of their module path only, "layers.0.mlp", "layers.1.mlp", as one row. For what people read; JSON has them all.
// Private.
#include <spool/autograd/report.h>

#include <string>
#include <vector>

namespace spool::detail {

/// "layers.*.mlp" for "layers.3.mlp".
std::string starred(const std::string& path);

/// Sums over modules alike, "layers.*.mlp × 22", largest at the peak first. `highest` is −1 where there are several: theirs need not meet.
std::vector<MemoryShare> folded(const std::vector<MemoryShare>& shares);

/// Buffers of the same size, category, op and reason in modules alike.
struct FoldedBuffers {
  LiveBuffer each;  ///< `module` is starred where there are several.
  int64_t count = 1;
  int64_t bytes() const { return count * each.bytes; }
};
/// Largest sum first.
std::vector<FoldedBuffers> folded(const std::vector<LiveBuffer>& live);

}  // namespace spool::detail
