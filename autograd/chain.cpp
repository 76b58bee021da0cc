#include <spool/autograd/chain.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace spool {
namespace {

/// Some blocks of the chain decided.
struct Partial {
  int64_t kept = 0;
  double work = 0;
  int64_t before = -1;  ///< The partial choice for the blocks before the last one.
  bool recompute = false;
};

/// Those for which no other has as few bytes and as little work.
std::vector<Partial> undominated(std::vector<Partial> all) {
  std::sort(all.begin(), all.end(), [](const Partial& a, const Partial& b) { return std::tie(a.kept, a.work) < std::tie(b.kept, b.work); });
  std::vector<Partial> out;
  for (const Partial& p : all)
    if (out.empty() || p.work < out.back().work) out.push_back(p);
  return out;
}

std::vector<bool> choices(const std::vector<std::vector<Partial>>& levels, int64_t last) {
  std::vector<bool> out(levels.size());
  for (size_t i = levels.size(); i-- > 0;) {
    const Partial& p = levels[i][size_t(last)];
    out[i] = p.recompute;
    last = p.before;
  }
  return out;
}

}  // namespace

int64_t chain_peak(std::span<const ChainBlock> blocks, const std::vector<bool>& recompute, int64_t loss) {
  int64_t kept = 0, peak = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const ChainBlock& b = blocks[i];
    peak = std::max(peak, kept + b.input + b.record + b.working);
    kept += b.input + (recompute[i] ? 0 : b.record);
  }
  return std::max(peak, kept + loss);
}

ChainPlan plan_chain(std::span<const ChainBlock> blocks, int64_t budget, int64_t loss) {
  const auto finished = [&](std::vector<bool> recompute, double work) {
    ChainPlan plan{std::move(recompute), 0, work, false};
    plan.peak = chain_peak(blocks, plan.recompute, loss);
    plan.fits = plan.peak <= budget;
    return plan;
  };
  std::vector<std::vector<Partial>> levels;
  std::vector<Partial> front{Partial{}};
  for (const ChainBlock& b : blocks) {
    std::vector<Partial> next;
    for (size_t i = 0; i < front.size(); ++i) {
      if (front[i].kept + b.input + b.record + b.working > budget) continue;
      next.push_back({front[i].kept + b.input + b.record, front[i].work, int64_t(i), false});
      next.push_back({front[i].kept + b.input, front[i].work + b.work, int64_t(i), true});
    }
    front = undominated(std::move(next));
    levels.push_back(front);
  }
  const Partial* best = nullptr;
  for (const Partial& p : front)
    if (p.kept + loss <= budget && (!best || p.work < best->work)) best = &p;
  if (best) return finished(choices(levels, best - front.data()), best->work);

  // Nothing fits. Recomputing everything has the least peak; what does not lower it need not be.
  std::vector<bool> all(blocks.size(), true);
  double work = 0;
  for (const ChainBlock& b : blocks) work += b.work;
  const int64_t least = chain_peak(blocks, all, loss);
  for (size_t i = blocks.size(); i-- > 0;) {
    all[i] = false;
    if (chain_peak(blocks, all, loss) > least) all[i] = true;
    else work -= blocks[i].work;
  }
  return finished(std::move(all), work);
}

}  // namespace spool
