#include <spool/autograd/recompute_ops.h>
#include <spool/nn/detail/next_token_loss.h>
#include <spool/ops/linear_cross_entropy.h>
#include <spool/ops/scalar.h>
#include <spool/ops/slice.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::nn::detail {

Tensor next_token_loss(std::string_view model, const TokenBatch& batch, const LossOptions& options, const Tensor& head, const std::function<Tensor(const Tensor& tokens)>& hidden_of) {
  if (options.chunk) fail<ConfigError>("chunk: softmax attention has no state of fixed size to cut at; use feed_forward_chunk, loss_chunk and recompute");
  const int64_t length = batch.tokens.size(1);
  if (length < 2) fail<ShapeError>(model, ": a sequence needs at least 2 tokens, got tokens ", batch.tokens.shape());
  const RecomputeOps again(options.recompute_ops);
  const Tensor hidden = hidden_of(slice(batch.tokens, 1, 0, length - 1));
  const CrossEntropyOptions summed{.reduction = Reduction::sum, .ignore_index = ignored_target};
  const Tensor sum = linear_cross_entropy(hidden, head, targets_of(batch, 0, length - 1), summed, options.loss_chunk);
  again.require_matches();
  return sum * (1.0 / double(std::max<int64_t>(batch.scored, 1)));
}

}  // namespace spool::nn::detail
