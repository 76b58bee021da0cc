#include "fold.h"

#include <spool/tensor/error.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace spool::detail {

std::string starred(const std::string& path) {
  std::string out;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, dot - begin);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    out += concat(begin ? "." : "", number ? "*" : part);
    begin = dot + 1;
  }
  return out;
}

std::vector<MemoryShare> folded(const std::vector<MemoryShare>& shares) {
  std::map<std::string, std::vector<const MemoryShare*>> groups;
  for (const MemoryShare& s : shares) groups[starred(s.name)].push_back(&s);
  std::vector<MemoryShare> out;
  for (const auto& [name, group] : groups) {
    MemoryShare sum = *group[0];
    if (group.size() > 1) {
      sum = {.name = concat(name, " × ", group.size()), .highest = -1};
      for (const MemoryShare* s : group) {
        sum.at_peak += s->at_peak;
        sum.allocated += s->allocated;
        sum.allocations += s->allocations;
      }
    }
    out.push_back(std::move(sum));
  }
  std::stable_sort(out.begin(), out.end(), [](const MemoryShare& a, const MemoryShare& b) { return std::tie(b.at_peak, b.allocated) < std::tie(a.at_peak, a.allocated); });
  return out;
}

std::vector<FoldedBuffers> folded(const std::vector<LiveBuffer>& live) {
  std::map<std::tuple<int64_t, Category, std::string, std::string, std::string>, size_t> index;
  std::vector<FoldedBuffers> out;
  for (const LiveBuffer& b : live) {
    const auto [found, added] = index.try_emplace({b.bytes, b.category, b.op, starred(b.module), starred(b.why)}, out.size());
    if (added) out.push_back({b, 1});
    else ++out[found->second].count;
  }
  for (FoldedBuffers& f : out) {
    if (f.count == 1) continue;
    f.each.module = starred(f.each.module);
    f.each.why = starred(f.each.why);
  }
  std::stable_sort(out.begin(), out.end(), [](const FoldedBuffers& a, const FoldedBuffers& b) { return b.bytes() < a.bytes(); });
  return out;
}

}  // namespace spool::detail
