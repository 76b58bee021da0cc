#pragma once
// The loss that models with softmax attention share. Private to the models.
#include <spool/nn/language_model.h>

#include <functional>
#include <string_view>

namespace spool::nn::detail {

/// Mean cross-entropy of the scored targets, with `head` [vocab, width] on what `hidden_of` makes of tokens[:, :-1]. ConfigError for slices,
/// ShapeError for sequences of less than 2 tokens, both for `model`.
Tensor next_token_loss(std::string_view model, const TokenBatch& batch, const LossOptions& options, const Tensor& head, const std::function<Tensor(const Tensor& tokens)>& hidden_of);

}  // namespace spool::nn::detail
