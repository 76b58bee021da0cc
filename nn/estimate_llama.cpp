#include <spool/nn/detail/blockwise.h>
#include <spool/nn/detail/decoder_step.h>
#include <spool/nn/estimate.h>

namespace spool::nn {
namespace {

bool remakes(const StepSizes& sizes, std::string_view op) { return detail::remakes(sizes, op, {"rms_norm", "add_rms_norm", "swiglu"}); }

detail::DecoderWidths widths_of(const LlamaConfig& c) { return {c.hidden_size, c.vocab_size, c.num_hidden_layers, 1}; }

/// The feed-forward block of some positions.
struct LlamaFeedForward : detail::FeedForwardPart {
  const bool swiglu_again;
  LlamaFeedForward(const LlamaConfig& c, const StepSizes& sizes, detail::Schedule& schedule, int64_t positions)
      : FeedForwardPart(sizes, widths_of(c), schedule, positions, c.feed_forward_size()), swiglu_again(remakes(sizes, "swiglu")) {
    norms_again = remakes(sizes, detail::in_pieces(sizes) ? "rms_norm" : "add_rms_norm");
  }

  /// From the norm to what is added. Kept: norm, gate, up, product.
  void gated(bool kept) {
    linear("gate_proj", h, f);
    linear("up_proj", h, f);
    s.op("swiglu", F);
    if (!kept) s.drop(2 * F);
    linear("down_proj", f, h);
    if (!kept || swiglu_again) s.drop(F);
  }
  /// From the cotangent of the block's output, which stays, to the norm's.
  void gated_backward() {
    if (swiglu_again) s.op("swiglu again", F);
    linear_backward("down_proj backward", f, h, false, strided);
    s.drop(F);
    s.op("swiglu backward", 2 * F);
    s.drop(3 * F);
    norm_again("post_attention_layernorm again", strided);
    linear_backward("up_proj backward", h, f);
    s.drop(F);
    linear_backward("gate_proj backward", h, f);
    s.drop(F + 2 * X);
  }
  void forward(bool kept) {
    s.op("post_attention_layernorm", X + (kept ? R : 0), 0, strided);
    gated(kept);
    s.op("add", X);
    s.drop(X + unless_remade(kept));
  }
  void backward() {
    gated_backward();
    norm_backward("post_attention_layernorm backward", false, strided);
    s.drop(X + R);
  }
};

struct LlamaStep : detail::DecoderStep {
  const LlamaConfig& c;
  const int64_t ad, kd;            // widths of all query heads, of all key heads
  const int64_t Q, K, record;      // bytes of [T, ad], [T, kd]; of what attention keeps besides
  const int64_t angles;

  LlamaStep(const LlamaConfig& config, const StepSizes& sizes, detail::Schedule& schedule, bool all_gathered)
      : DecoderStep(sizes, widths_of(config), schedule, all_gathered), c(config), ad(c.num_attention_heads * c.head_size()), kd(c.key_value_heads() * c.head_size()),
        Q(T * ad * e), K(T * kd * e), record(attention_record(c.num_attention_heads, true)), angles(sizes.length * c.head_size() * S) {
    norms_again = remakes(sizes, "rms_norm");
  }

  int64_t scratch(bool backward) const { return attention_scratch(c.num_attention_heads, c.key_value_heads(), c.head_size(), c.sliding_window, backward); }

  void embed() override {
    s.op("embedding", X, 0, copy);
    s.op("rotary_angles", angles);
  }
  void embed_backward() override {
    if (z.loss.recompute.covers(0)) s.drop(angles);  // a scope keeps what it captured until it has run again
    const int64_t fresh = c.tie_word_embeddings || gathered ? 0 : V * h * e;
    s.op("embedding backward", fresh, 0, copy);
    s.gradient(fresh);
    s.drop(X);
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
    s.op("attention", Q + attention_record(c.num_attention_heads, kept), scratch(false));
    if (!kept) s.drop(attention_record(c.num_attention_heads, false) + 2 * K + Q);
    linear("o_proj", ad, h);
    s.drop((kept ? 0 : Q) + unless_remade(kept));
  }
  LlamaFeedForward rows(int64_t positions) const {
    LlamaFeedForward out(c, z, s, positions);
    out.gathered = gathered;
    return out;
  }
  /// From x and what attention gave to the block's output. What is kept: sum, norm, gate, up, product; the sum alone where it runs in pieces.
  void feed_forward(bool kept) {
    if (detail::in_pieces(z)) {
      s.op("add", X);
      s.drop(X);
      detail::blockwise<LlamaFeedForward>(*this, [this](int64_t positions) { return rows(positions); });
      if (!kept) s.drop(X);
      return;
    }
    s.op("post_attention_layernorm", 2 * X + (kept ? R : 0));
    s.drop(X);
    const LlamaFeedForward all = rows(length);
    rows(length).gated(kept);
    s.op("add", X);
    s.drop((kept ? X : 2 * X) + all.unless_remade(kept));
  }
  /// From the cotangent of the block's output to that of the sum.
  void feed_forward_backward() {
    if (detail::in_pieces(z)) {
      detail::blockwise_backward<LlamaFeedForward>(*this, false, [this](int64_t positions) { return rows(positions); });
      return s.drop(X);
    }
    rows(length).gated_backward();
    added_norm_backward("post_attention_layernorm backward");
    s.drop(3 * X + R);
  }
  /// On to the cotangent of x.
  void attention_backward(bool last) {
    linear_backward("o_proj backward", ad, h);
    if (materialised()) s.drop(Q);  // the result: o_proj alone kept it
    s.op("attention backward", Q + 2 * K, scratch(true));
    s.drop((materialised() ? 2 : 3) * Q + 2 * K + record);
    norm_again("input_layernorm again");
    linear_backward("v_proj backward", h, kd);
    s.drop(K);
    s.op("rotary backward", K);
    s.drop(K);
    linear_backward("k_proj backward", h, kd);
    s.drop(K + X);
    s.op("rotary backward", Q);
    s.drop(Q + (last && !z.loss.recompute.covers(0) ? angles : 0));
    linear_backward("q_proj backward", h, ad);
    s.drop(Q + 2 * X);
    norm_backward("input_layernorm backward", false);
    s.drop(2 * X + R);
  }

  void block(bool attention_kept, bool feed_forward_kept) override {
    attention(attention_kept);
    feed_forward(feed_forward_kept);
  }
  void block_backward(int64_t index, bool again) override {
    feed_forward_backward();
    if (again) {
      attention(true);
      s.drop(X);
    }
    attention_backward(index == 0);
    s.drop(X);  // the block's input
  }
};

}  // namespace

int64_t block_saved_bytes(const LlamaConfig& config, const StepSizes& sizes) {
  detail::Schedule schedule(0);
  const LlamaStep step(config, sizes, schedule, false);
  return 4 * step.X + 2 * step.Q + 2 * step.K + 3 * step.rows(sizes.length).F + 2 * step.R + step.record;
}

std::vector<ModuleEstimate> module_estimates(const LlamaConfig& config, const StepSizes& sizes) {
  detail::require_plain(sizes);
  detail::Schedule schedule(0);
  const LlamaStep m(config, sizes, schedule, false);
  const int64_t L = config.num_hidden_layers, h = m.h, X = m.X, F = m.rows(sizes.length).F;
  return {{"model.embed_tokens", 1, m.V * h, X},
          {"model.layers.*.input_layernorm", L, L * h, L * (X + m.R)},
          {"model.layers.*.self_attn", L, L * (2 * h * m.ad + 2 * h * m.kd), L * (2 * m.Q + 2 * m.K + m.record)},
          {"model.layers.*.post_attention_layernorm", L, L * h, L * (2 * X + m.R)},
          {"model.layers.*.mlp", L, L * 3 * h * config.feed_forward_size(), L * 3 * F},
          {"model.layers.*", L, 0, L * X},  // their outputs
          {"model.norm", 1, h, X + m.R},
          {"model", 1, 0, m.angles},
          {"lm_head", config.tie_word_embeddings ? 0 : 1, config.tie_word_embeddings ? 0 : m.V * h, 0},
          {"", 1, 0, m.kept_by_loss()}};
}

Estimate estimate(const LlamaConfig& config, const StepSizes& sizes) {
  config.validate();
  detail::require_whole(sizes, config.num_hidden_layers);
  const int64_t h = config.hidden_size, d = config.head_size(), a = config.num_attention_heads, k = config.key_value_heads();
  const int64_t block = 2 * h * a * d + 2 * h * k * d + 3 * h * config.feed_forward_size() + 2 * h;
  const int64_t parameters = (config.tie_word_embeddings ? 1 : 2) * config.vocab_size * h + config.num_hidden_layers * block + h;
  return detail::estimate_of(parameters, 0, sizes, [&](detail::Schedule& s, bool gathered) { return LlamaStep(config, sizes, s, gathered); });
}

}  // namespace spool::nn
