#include <spool/nn/detail/decoder_step.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::nn::detail {

void require_whole(const StepSizes& sizes, int64_t layers) {
  const Recompute& r = sizes.loss.recompute;
  if (std::max(r.first, r.group) > layers) fail<ConfigError>("estimate: recompute: ", to_string(r), ": the model has ", layers, " blocks");
  if (sizes.loss.chunk) fail<ConfigError>("estimate: chunk: softmax attention has no state of fixed size to cut at, got ", *sizes.loss.chunk);
}

DecoderStep::DecoderStep(const StepSizes& sizes, const DecoderWidths& w, Schedule& schedule)
    : DecoderPart(sizes, w, schedule, sizes.length), chunk_(sizes.loss.loss_chunk > 0 && sizes.loss.loss_chunk < T ? sizes.loss.loss_chunk : 0) {}

int64_t DecoderStep::attention_scratch(int64_t heads, int64_t key_heads, int64_t dim, int64_t window, bool backward) const {
  const AttentionOptions options{.causal = true, .window = window};
  const Meta q = meta({z.batch, length, heads, dim}), k = meta({z.batch, length, key_heads, dim});
  if (!backward) return declared_scratch("attention", {q, k, k}, &options);
  return declared_scratch("attention_backward", {q, Meta{.defined = false}, q, k, k}, &options);
}

/// Logits of `rows` rows and their loss; the logits and each row's log-sum are kept or not.
void DecoderStep::head(int64_t rows, int64_t targets_copy, bool kept) {
  s.op("logits", rows * V * e, linear_scratch(rows, h, V));
  s.op("cross_entropy", S + (kept ? rows * S : 0), declared_scratch("cross_entropy", {meta({rows, V}), Meta{{rows}, Dtype::i32}}), targets_copy);
  if (!kept) s.drop(rows * V * e);
}
void DecoderStep::head_backward(int64_t rows, int64_t targets_copy) {
  s.op("cross_entropy backward", rows * V * e, 0, targets_copy);
  s.drop(rows * V * e + rows * S);
}

void DecoderStep::loss() {
  if (!chunk_) return head(T, copy, true);
  s.op("targets", copy);
  for (int64_t at = 0; at < T; at += chunk_) {
    head(std::min(chunk_, T - at), 0, false);
    if (at == 0) s.op("sum", 8);
    s.op("sum", 8);
    s.drop(8 + S);
  }
  s.op("sum", S);
  s.drop(8);
}

void DecoderStep::loss_backward() {
  if (!chunk_) {
    head_backward(T, copy);
    s.drop(S);
    linear_backward("head backward", h, V, widths.head_bias);
    return s.drop(T * V * e + X);
  }
  for (int64_t end = T, rows; end > 0; end -= rows) {
    rows = (end - 1) % chunk_ + 1;
    const bool first = end == T;
    head(rows, 0, true);
    s.drop(S);
    head_backward(rows, 0);
    linear_backward("head backward", rows, h, V, widths.head_bias, !first);
    s.drop(rows * V * e);
    if (first) s.op("slice backward", X);
    s.drop(rows * h * e);
  }
  s.drop(S + copy + X);
}

void DecoderStep::forward() {
  const Recompute& again = z.loss.recompute;
  embed();
  for (int64_t i = 0; i < widths.layers; ++i) {
    s.place("layer", i);
    const bool kept = !again.block_at(i);
    block(kept && !again.attention_at(i), kept);
    if (!kept && again.scope_begin(i) != i) s.drop(X);  // within a scope nothing stays
  }
  s.place("");
  if (widths.final_norm) s.op("norm", X + R);
  loss();
}

/// Blocks begin … end − 1 run again from the first one's input, which the scope kept, and then back. The output of the last is not used.
void DecoderStep::scope_backward(int64_t begin, int64_t end) {
  const bool nested = z.loss.recompute.nested;
  for (int64_t i = begin; i < end; ++i) {
    s.place("layer", i);
    block(!nested, !nested);
  }
  s.drop(X);
  for (int64_t i = end - 1; i >= begin; --i) {
    s.place("layer", i);
    if (nested) {
      block(true, true);
      s.drop(X);
    }
    block_backward(i, false);
  }
}

void DecoderStep::backward() {
  const Recompute& again = z.loss.recompute;
  loss_backward();
  if (widths.final_norm) {
    norm_backward("norm backward", widths.statistics == 2);
    s.drop(2 * X + R);
  }
  for (int64_t end = widths.layers, begin; end > 0; end = begin) {
    const bool in_scope = again.block_at(end - 1);
    begin = in_scope ? again.scope_begin(end - 1) : end - 1;
    s.place("layer", begin);
    if (in_scope) scope_backward(begin, end);
    else block_backward(begin, again.attention_at(begin));
  }
  s.place("");
  embed_backward();
}

}  // namespace spool::nn::detail
