#pragma once
// Which blocks of a chain to recompute, so that a training step fits a budget for the least work. For models whose blocks differ; the
// `checkpoint` around a block is then a matter of `recompute[i]`.
#include <cstdint>
#include <span>
#include <vector>

namespace spool {

/// One block of a chain, in bytes.
struct ChainBlock {
  int64_t input = 0;    ///< Kept in either case.
  int64_t record = 0;   ///< What backward through the block needs, its input not counted: kept from forward, or there while it is recomputed.
  int64_t working = 0;  ///< On top of that while the block runs backward.
  double work = 0;      ///< Of running it again.
};

struct ChainPlan {
  std::vector<bool> recompute;  ///< By block.
  int64_t peak = 0;             ///< Of the plan, in bytes.
  double work = 0;              ///< Of all that is run again.
  bool fits = false;            ///< Whether peak ≤ budget. Where nothing fits, this is the plan with the least peak.
};

/// The highest of: everything kept, with `loss` bytes beside it; and for each block what is kept of those before it, its own input and
/// record, and its working bytes.
int64_t chain_peak(std::span<const ChainBlock> blocks, const std::vector<bool>& recompute, int64_t loss = 0);

/// The least work whose peak is within the budget (ties: the least bytes), among all 2ⁿ choices: a walk along the chain that carries
/// every pair (bytes kept, work) for which no other has less of both, given that later blocks only see the sum. Blocks that are alike
/// give at most n pairs; 32 blocks of random costs take milliseconds.
ChainPlan plan_chain(std::span<const ChainBlock> blocks, int64_t budget, int64_t loss = 0);

}  // namespace spool
