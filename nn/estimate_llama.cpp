#include <spool/nn/detail/schedule.h>
#include <spool/nn/estimate.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::nn {

int64_t optimizer_bytes(OptimizerState kind, int64_t elements, Dtype dtype) {
  const bool half = dtype == Dtype::bf16 || dtype == Dtype::f16;
  const int64_t each = half ? 4 : int64_t(dtype_size(dtype)), moments = kind == OptimizerState::adam ? 2 : kind == OptimizerState::momentum ? 1 : 0;
  return elements * (each * moments + (half ? 4 : 0));
}

namespace {

using detail::declared_scratch;
using detail::product_scratch;
using detail::Schedule;

/// A LLaMA's sizes in bytes, and its step told op by op.
struct LlamaStep {
  const LlamaConfig& c;
  const StepSizes& z;
  int64_t e, S, T;                    // element, statistic, tokens
  int64_t h, ad, kd, f, V;            // widths
  int64_t X, Q, K, F, R, LSE, copy;   // activations [T, h], [T, a·d], [T, k·d], [T, f]; rows' statistics; the tokens made contiguous
  Schedule s;

  LlamaStep(const LlamaConfig& config, const StepSizes& sizes, int64_t base)
      : c(config), z(sizes), e(int64_t(dtype_size(sizes.dtype))), S(sizes.dtype == Dtype::f64 ? 8 : 4), T(sizes.batch * sizes.length), h(config.hidden_size),
        ad(config.num_attention_heads * config.head_size()), kd(config.key_value_heads() * config.head_size()), f(config.feed_forward_size()), V(config.vocab_size), X(T * h * e),
        Q(T * ad * e), K(T * kd * e), F(T * f * e), R(T * S), LSE(T * config.num_attention_heads * S),
        copy(sizes.batch > 1 ? T * (sizes.byte_tokens ? 1 : 4) : 0), s(base) {}

  Meta meta(const Shape& shape) const { return {shape, z.dtype}; }
  int64_t linear_scratch(int64_t rows, int64_t in, int64_t out) const { return declared_scratch("linear", {meta({rows, in}), meta({out, in}), Meta{.defined = false}}); }
  int64_t attention_scratch(bool backward) const {
    const int64_t d = c.head_size();
    const AttentionOptions options{.causal = true, .window = c.sliding_window};
    const Meta q = meta({z.batch, z.length, c.num_attention_heads, d}), k = meta({z.batch, z.length, c.key_value_heads(), d});
    if (!backward) return declared_scratch("attention", {q, k, k}, &options);
    return declared_scratch("attention_backward", {q, Meta{.defined = false}, q, k, k}, &options);
  }
  int64_t norm_scratch() const { return declared_scratch("norm_backward", {meta({T, h}), meta({T, h})}); }

  void linear(std::string_view name, int64_t in, int64_t out) { s.op(name, T * out * e, linear_scratch(T, in, out)); }
  /// Gradient of a weight [out, in], then of its input [T, in].
  void linear_backward(std::string_view name, int64_t in, int64_t out) {
    s.op(name, out * in * e, product_scratch(out, T, in, z.dtype));
    s.op(name, T * in * e, product_scratch(T, out, in, z.dtype));
  }
  /// dx [T, h] and the weight's gradient; the bias' that comes with it goes.
  void norm_backward(std::string_view name) {
    s.op(name, X + 2 * h * e, norm_scratch());
    s.drop(h * e);
  }

  /// From x to what is added to it. What is kept: norm, q, k, v, out, lse.
  void attention(bool kept) {
    s.op("input_layernorm", X + (kept ? R : 0));
    linear("q_proj", h, ad);
    s.op("rotary", Q);
    s.drop(Q);
    linear("k_proj", h, kd);
    s.op("rotary", K);
    s.drop(K);
    linear("v_proj", h, kd);
    s.op("attention", Q + LSE, attention_scratch(false));
    if (!kept) s.drop(LSE + 2 * K + Q);
    linear("o_proj", ad, h);
    if (!kept) s.drop(Q + X);
  }
  /// From x and what attention gave to the block's output. What is kept: sum, norm, gate, up, product.
  void feed_forward(bool kept) {
    s.op("post_attention_layernorm", 2 * X + (kept ? R : 0));
    s.drop(X);
    linear("gate_proj", h, f);
    linear("up_proj", h, f);
    s.op("swiglu", F);
    if (!kept) s.drop(2 * F);
    linear("down_proj", f, h);
    if (!kept) s.drop(F);
    s.op("add", X);
    s.drop(X);
    if (!kept) s.drop(2 * X);
  }
  /// Backward of the two, from the cotangent of the block's output to that of the sum, and on to that of x.
  void feed_forward_backward() {
    linear_backward("down_proj backward", f, h);
    s.drop(F);
    s.op("swiglu backward", 2 * F);
    s.drop(3 * F);
    linear_backward("up_proj backward", h, f);
    s.drop(F);
    linear_backward("gate_proj backward", h, f);
    s.drop(F + 2 * X);
    norm_backward("post_attention_layernorm backward");
    s.drop(3 * X + R);
  }
  void attention_backward() {
    linear_backward("o_proj backward", ad, h);
    s.op("attention backward", Q + 2 * K, attention_scratch(true));
    s.drop(3 * Q + 2 * K + LSE);
    linear_backward("v_proj backward", h, kd);
    s.drop(K);
    s.op("rotary backward", K);
    s.drop(K);
    linear_backward("k_proj backward", h, kd);
    s.drop(K + X);
    s.op("rotary backward", Q);
    s.drop(Q);
    linear_backward("q_proj backward", h, ad);
    s.drop(Q + 2 * X);
    norm_backward("input_layernorm backward");
    s.drop(X + R);  // its input stays: where attention is recomputed, the scope holds it
    s.drop(X);
  }

  void block(bool last) {
    const Recompute r = z.loss.recompute;
    (void)last;
    attention(r == Recompute::none);
    feed_forward(r != Recompute::block);
  }
  void block_backward() {
    switch (z.loss.recompute) {
      case Recompute::none:
        feed_forward_backward();
        attention_backward();
        break;
      case Recompute::attention:
        feed_forward_backward();
        attention(true);
        s.drop(X);  // what attention gives is known to have been added
        attention_backward();
        break;
      case Recompute::block:
        attention(true);
        feed_forward(true);
        s.drop(X);
        feed_forward_backward();
        attention_backward();
        break;
    }
    s.drop(X);  // the block's input
  }

  /// Logits of `rows` rows and their loss; the logits and each row's log-sum are kept or not.
  void head(int64_t rows, int64_t targets_copy, bool kept) {
    const int64_t logits = rows * V * e;
    s.op("logits", logits, linear_scratch(rows, h, V));
    s.op("cross_entropy", e + (kept ? rows * S : 0), (rows + 255) / 256 * 8, targets_copy);
    if (!kept) s.drop(logits);
  }
  void head_backward(int64_t rows, int64_t targets_copy) {
    const int64_t logits = rows * V * e;
    s.op("cross_entropy backward", logits, 0, targets_copy);
    s.drop(logits + rows * S);
  }

  Instant start;
  int64_t saved = 0;

  void run(const Estimate& known) {
    const int64_t chunk = z.loss.loss_chunk > 0 && z.loss.loss_chunk < T ? z.loss.loss_chunk : 0;
    const int64_t before = s.live();
    const int64_t tokens = z.batch * (z.length + 1) * (z.byte_tokens ? 1 : 4), angles = z.length * c.head_size() * S;
    s.op("tokens", tokens);
    s.op("embedding", X, 0, copy);
    s.op("rotary_angles", angles);
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
      s.place("layers", i);
      block(i + 1 == c.num_hidden_layers);
    }
    s.place("");
    s.op("norm", X + R);
    if (!chunk) {
      head(T, copy, true);
    } else {
      s.op("targets", copy);
      for (int64_t at = 0; at < T; at += chunk) {
        head(std::min(chunk, T - at), 0, false);
        if (at == 0) s.op("sum", 8);
        s.op("sum", 8);
        s.drop(8 + e);
      }
      s.op("sum", e);
      s.drop(8);
    }
    s.op("scale", e);
    s.drop(e);
    start = s.now("start of backward");
    saved = s.live() - before - e;

    s.op("loss gradient", e);
    s.op("scale backward", e);
    s.drop(e);
    if (!chunk) {
      head_backward(T, copy);
      s.drop(e);
      linear_backward("head backward", h, V);
      s.drop(T * V * e + X);
    } else {
      bool first = true;
      for (int64_t end = T; end > 0;) {
        const int64_t begin = (end - 1) / chunk * chunk, rows = end - begin, part = rows * h * e;
        head(rows, 0, true);
        s.drop(e);
        head_backward(rows, 0);
        if (first) {
          s.op("head backward", V * h * e, product_scratch(V, rows, h, z.dtype));
        } else {
          s.op("head backward", 0, product_scratch(V, rows, h, z.dtype));
        }
        s.op("head backward", part, product_scratch(rows, V, h, z.dtype));
        s.drop(rows * V * e);
        if (first) s.op("slice backward", X);
        s.drop(part);
        first = false;
        end = begin;
      }
      s.drop(e + copy + X);
    }
    norm_backward("norm backward");
    s.drop(2 * X + R);
    for (int64_t i = c.num_hidden_layers - 1; i >= 0; --i) {
      s.place("layers", i);
      block_backward();
    }
    s.place("");
    s.drop(angles);
    s.op("embedding backward", c.tie_word_embeddings ? 0 : V * h * e, 0, copy);
    s.drop(X + e);
    (void)known;
  }
};

}  // namespace

int64_t block_saved_bytes(const LlamaConfig& config, const StepSizes& sizes) {
  const LlamaStep step(config, sizes, 0);
  return 4 * step.X + 2 * step.Q + 2 * step.K + 3 * step.F + 2 * step.R + step.LSE;
}

Estimate estimate(const LlamaConfig& config, const StepSizes& sizes) {
  config.validate();
  if (sizes.loss.feed_forward_chunk) fail<ConfigError>("estimate: there is no closed form for feed_forward_chunk = ", sizes.loss.feed_forward_chunk, "; plan the step instead");
  const int64_t h = config.hidden_size, d = config.head_size(), a = config.num_attention_heads, k = config.key_value_heads();
  Estimate out;
  out.parameters = (config.tie_word_embeddings ? 1 : 2) * config.vocab_size * h + config.num_hidden_layers * (2 * h * a * d + 2 * h * k * d + 3 * h * config.feed_forward_size() + 2 * h) + h;
  out.parameter_bytes = out.gradient_bytes = out.parameters * int64_t(dtype_size(sizes.dtype));
  out.optimizer_bytes = optimizer_bytes(sizes.optimizer, out.parameters, sizes.dtype);
  const int64_t base = out.parameter_bytes + out.optimizer_bytes;
  LlamaStep step(config, sizes, base);
  step.run(out);
  out.start_of_backward = step.start;
  out.saved_bytes = step.saved;
  out.end_of_backward = step.s.now("end of backward");
  out.optimizer_step = {"optimizer step", step.s.live(), 0};
  out.peak = step.s.peak();
  return out;
}

}  // namespace spool::nn
