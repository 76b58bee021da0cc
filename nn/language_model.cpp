#include <spool/nn/language_model.h>
#include <spool/ops/cast.h>
#include <spool/ops/expand.h>
#include <spool/ops/slice.h>
#include <spool/ops/where.h>
#include <spool/tensor/copy.h>

#include <algorithm>

namespace spool::nn {

TokenBatch token_batch(Tensor tokens) {
  const int64_t scored = tokens.size(0) * std::max<int64_t>(tokens.size(1) - 1, 0);
  return {std::move(tokens), {}, scored};
}

Tensor targets_of(const TokenBatch& batch, int64_t begin, int64_t end) {
  const Tensor targets = slice(batch.tokens, 1, begin + 1, end + 1);
  if (!batch.mask.defined()) return targets;
  const Tensor ignored = expand(full({}, ignored_target, Dtype::i32, targets.device()), targets.shape());
  return where(slice(batch.mask, 1, begin + 1, end + 1), cast(targets, Dtype::i32), ignored);
}

}  // namespace spool::nn
