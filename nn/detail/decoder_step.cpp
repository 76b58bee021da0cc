#include <spool/nn/detail/decoder_step.h>

#include <algorithm>

namespace spool::nn::detail {

DecoderStep::DecoderStep(const StepSizes& sizes, const DecoderWidths& w, int64_t base)
    : z(sizes), widths(w), e(int64_t(dtype_size(sizes.dtype))), S(sizes.dtype == Dtype::f64 ? 8 : 4), T(sizes.batch * sizes.length), h(w.hidden), V(w.vocabulary), X(T * h * e),
      R(w.statistics * T * S), copy(sizes.batch > 1 ? T * (sizes.byte_tokens ? 1 : 4) : 0), s(base) {}

int64_t DecoderStep::linear_scratch(int64_t rows, int64_t in, int64_t out) const {
  return declared_scratch("linear", {meta({rows, in}), meta({out, in}), Meta{.defined = false}});
}

int64_t DecoderStep::attention_scratch(int64_t heads, int64_t key_heads, int64_t dim, int64_t window, bool backward) const {
  const AttentionOptions options{.causal = true, .window = window};
  const Meta q = meta({z.batch, z.length, heads, dim}), k = meta({z.batch, z.length, key_heads, dim});
  if (!backward) return declared_scratch("attention", {q, k, k}, &options);
  return declared_scratch("attention_backward", {q, Meta{.defined = false}, q, k, k}, &options);
}

void DecoderStep::linear_backward(std::string_view name, int64_t in, int64_t out, bool bias) {
  s.op(name, out * in * e, product_scratch(out, T, in, z.dtype));
  if (bias) s.op(name, out * e);
  s.op(name, T * in * e, product_scratch(T, out, in, z.dtype));
}

void DecoderStep::norm_backward(std::string_view name, bool bias) {
  s.op(name, X + 2 * h * e, declared_scratch("norm_backward", {meta({T, h}), meta({T, h})}));
  if (!bias) s.drop(h * e);
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

void DecoderStep::loss(int64_t chunk) {
  if (!chunk) return head(T, copy, true);
  s.op("targets", copy);
  for (int64_t at = 0; at < T; at += chunk) {
    head(std::min(chunk, T - at), 0, false);
    if (at == 0) s.op("sum", 8);
    s.op("sum", 8);
    s.drop(8 + S);
  }
  s.op("sum", S);
  s.drop(8);
}

void DecoderStep::loss_backward(int64_t chunk) {
  if (!chunk) {
    head_backward(T, copy);
    s.drop(S);
    linear_backward("head backward", h, V, widths.head_bias);
    return s.drop(T * V * e + X);
  }
  for (int64_t end = T, rows; end > 0; end -= rows) {
    rows = (end - 1) % chunk + 1;
    const bool first = end == T;
    head(rows, 0, true);
    s.drop(S);
    head_backward(rows, 0);
    const bool apart = !first && e == 2;  // a product adds in place to f32 and f64 only
    s.op("head backward", first || apart ? V * h * e : 0, product_scratch(V, rows, h, z.dtype));
    s.op("head backward", rows * h * e, product_scratch(rows, V, h, z.dtype));
    s.drop(rows * V * e + (apart ? V * h * e : 0));
    if (first) s.op("slice backward", X);
    s.drop(rows * h * e);
  }
  s.drop(S + copy + X);
}

void DecoderStep::run() {
  const int64_t chunk = z.loss.loss_chunk > 0 && z.loss.loss_chunk < T ? z.loss.loss_chunk : 0, before = s.live();
  s.op("tokens", z.batch * (z.length + 1) * (z.byte_tokens ? 1 : 4));
  embed();
  for (int64_t i = 0; i < widths.layers; ++i) {
    s.place("layer", i);
    block();
  }
  s.place("");
  if (widths.final_norm) s.op("norm", X + R);
  loss(chunk);
  s.op("scale", S);
  s.drop(S);
  start = s.now("start of backward");
  saved = s.live() - before - S;

  s.op("loss gradient", S);
  s.op("scale backward", S);
  s.drop(S);
  loss_backward(chunk);
  if (widths.final_norm) {
    norm_backward("norm backward", widths.statistics == 2);
    s.drop(2 * X + R);
  }
  for (int64_t i = widths.layers - 1; i >= 0; --i) {
    s.place("layer", i);
    block_backward(i);
  }
  s.place("");
  embed_backward();
  s.drop(S);  // the loss
}

}  // namespace spool::nn::detail
