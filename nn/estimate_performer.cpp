#include <spool/nn/detail/decoder_step.h>
#include <spool/nn/estimate.h>
#include <spool/tensor/error.h>

namespace spool::nn {
namespace {

/// The full gradient, all positions on one tape.
struct PerformerStep : detail::DecoderStep {
  const PerformerConfig& c;
  const int64_t f, F;            // feed-forward width, bytes of [T, f]
  const int64_t half, positions; // bytes of the learned half of the embeddings, and of one sequence's sinusoids
  const int64_t state, den;      // bytes of a layer's state and denominators
  const int64_t padded;          // bytes of the tokens with those that stand before the first
  const bool pre;

  PerformerStep(const PerformerConfig& config, const StepSizes& sizes, int64_t base)
      : DecoderStep(sizes, {config.d_model, config.vocab, config.layers, 2, false, true}, base), c(config), f(c.d_ff), F(T * f * e), half(X / 2), positions(sizes.length * h / 2 * e),
        state(sizes.batch * c.heads * c.features() * (h / c.heads + 1) * S), den(T * c.heads * S), padded(z.batch * (z.length + c.ngram - 1) * (z.byte_tokens ? 1 : 4)), pre(c.norm == NormPlacement::pre) {}

  int64_t scratch(bool backward) const {
    const Meta x = meta({z.batch, z.length, c.heads, h / c.heads}), none{.defined = false};
    return backward ? declared("linear_attention_backward", {x, none, x, x, x, none, x, none}) : declared("linear_attention", {x, x, x, none});
  }
  static int64_t declared(std::string_view op, const Metas& in) { return detail::declared_scratch(op, in); }

  /// Tokens of the window that an embedding reads are contiguous only where there is one sequence.
  void embed() override {
    if (c.ngram > 1) {
      const int64_t before = padded - T * (z.byte_tokens ? 1 : 4);
      s.op("concat", before);
      s.op("concat", padded);
      s.drop(before);
    }
    s.op("embedding", half, 0, copy);
    for (int64_t i = 1; i < c.ngram; ++i) {
      s.op("embedding", half, 0, copy);
      s.op("add", half);
      s.drop(2 * half);
    }
    s.op("positions", positions);
    s.op("concat", X);
    s.drop(half + positions);
  }
  void embed_backward() override {
    for (int64_t i = 0; i < c.ngram; ++i) s.op("embedding backward", V * h / 2 * e, 0, (T > 1 ? half : 0) + copy);  // the left half of rows, made contiguous
    s.drop(X);
    if (c.ngram > 1) s.drop(padded);
  }

  void queries_keys_values() {
    for (const char* name : {"query", "key", "value"}) linear(name, h, h);
  }
  void mix() {
    s.op("linear_attention", X + state + den, scratch(false));
    s.drop(state);
  }
  void inner() {
    s.op("up", 2 * F, linear_scratch(T, h, f));
    linear("down", f, h);
  }
  void block() override {
    if (pre) s.op("attention_norm", X + R);
    queries_keys_values();
    mix();
    if (c.out_projection) linear("output", h, h);
    if (!pre) s.op("attention_norm", X + R);
    s.op("add", X);
    if (!pre || c.out_projection) s.drop(X);  // what a norm gave, or the projection: nobody keeps it
    if (pre) s.op("feed_forward_norm", X + R);
    inner();
    if (!pre) s.op("feed_forward_norm", X + R);
    s.op("add", X);
    s.drop(X);
  }

  void inner_backward() {
    linear_backward("down backward", f, h, true);
    s.drop(F);
    s.op("activation backward", F);
    linear_backward("up backward", h, f, true);
    s.drop(3 * F);
  }
  void mix_backward(bool owns_cotangent) {
    s.op("linear_attention backward", 3 * X + state, scratch(true));
    s.drop(state + 4 * X + den + (owns_cotangent ? X : 0));
  }
  void block_backward(int64_t) override {
    if (pre) {
      inner_backward();
      s.drop(X);
      norm_backward("feed_forward_norm backward", true);
      s.drop(3 * X + R);
      if (c.out_projection) linear_backward("output backward", h, h, true);
      mix_backward(c.out_projection);
      linear_backward("value backward", h, h, true);
      s.drop(X);
      for (const char* name : {"key backward", "query backward"}) {
        linear_backward(name, h, h, true);
        s.drop(2 * X);
      }
      s.drop(X);
      norm_backward("attention_norm backward", true);
      s.drop(3 * X + R);
      return;
    }
    norm_backward("feed_forward_norm backward", true);
    s.drop(X + R);
    linear_backward("down backward", f, h, true);
    s.drop(X + F);
    s.op("activation backward", F);
    linear_backward("up backward", h, f, true);
    s.drop(3 * F + 2 * X);
    norm_backward("attention_norm backward", true);
    s.drop(R);
    if (c.out_projection) {
      s.drop(X);  // the norm's input
      linear_backward("output backward", h, h, true);
      s.drop(X);
    }
    mix_backward(true);
    for (const char* name : {"value backward", "key backward", "query backward"}) {
      linear_backward(name, h, h, true);
      s.drop(2 * X);
    }
    s.drop(X);
  }
};

}  // namespace

Estimate estimate(const PerformerConfig& config, const StepSizes& sizes) {
  config.validate();
  if (sizes.loss.chunk) fail<ConfigError>("estimate: there is no closed form for chunk = ", *sizes.loss.chunk, "; plan the step instead");
  if (config.feature.starts_with("favor")) fail<ConfigError>("estimate: there is no closed form for feature = \"", config.feature, "\"; plan the step instead");
  if (config.dropout != 0) fail<ConfigError>("estimate: there is no closed form for dropout = ", config.dropout, "; plan the step instead");
  const int64_t h = config.d_model, f = config.d_ff;
  const int64_t block = 3 * (h * h + h) + (config.out_projection ? h * h + h : 0) + 2 * h * f + f + h + 4 * h;
  const int64_t parameters = config.ngram * config.vocab * (h / 2) + config.layers * block + config.vocab * h + config.vocab;
  return detail::estimate_of(parameters, sizes, [&](int64_t base) { return PerformerStep(config, sizes, base); });
}

}  // namespace spool::nn
