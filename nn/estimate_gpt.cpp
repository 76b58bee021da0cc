#include <spool/nn/detail/blockwise.h>
#include <spool/nn/detail/decoder_step.h>
#include <spool/nn/estimate.h>

namespace spool::nn {
namespace {

bool remakes(const StepSizes& sizes, std::string_view op) { return detail::remakes(sizes, op, {"layer_norm", "linear"}); }

detail::DecoderWidths widths_of(const GptConfig& c) { return {c.n_embd, c.vocab_size, c.n_layer, 2}; }

/// The feed-forward block of some positions, from its norm on.
struct GptFeedForward : detail::FeedForwardPart {
  const bool activation_again;
  GptFeedForward(const GptConfig& c, const StepSizes& sizes, detail::Schedule& schedule, int64_t positions)
      : FeedForwardPart(sizes, widths_of(c), schedule, positions, c.feed_forward_size()), activation_again(remakes(sizes, "linear")) {
    norms_again = remakes(sizes, "layer_norm");
  }

  /// Kept: norm, the inner layer before and after its activation.
  void forward(bool kept) {
    s.op("ln_2", X + (kept ? R : 0), 0, strided);
    linear("c_fc", h, f, kept ? 2 * F : F);
    linear("c_proj", f, h);
    s.drop((kept && !activation_again ? 0 : F) + unless_remade(kept));
  }
  /// From the result's cotangent. `owned`: it goes once it has been used.
  void backward(bool owned = false) {
    if (activation_again) s.op("activation again", F);
    linear_backward("mlp.c_proj backward", f, h, true, strided);
    s.drop(F + (owned ? X : 0));
    s.op("activation backward", F);
    norm_again("ln_2 again", strided);
    linear_backward("c_fc backward", h, f, true);
    s.drop(3 * F + X);
    norm_backward("ln_2 backward", true, strided);
    s.drop(X + R);
  }
};

struct GptStep : detail::DecoderStep {
  const GptConfig& c;
  const bool dropping;
  const int64_t record, P;  // bytes of what attention keeps besides its result, of one sequence's positions

  GptStep(const GptConfig& config, const StepSizes& sizes, detail::Schedule& schedule, bool all_gathered)
      : DecoderStep(sizes, widths_of(config), schedule, all_gathered), c(config), dropping(c.dropout > 0), record(attention_record(c.n_head, true)), P(sizes.length * h * e) {
    norms_again = remakes(sizes, "layer_norm");
  }

  int64_t scratch(bool backward) const { return attention_scratch(c.n_head, c.n_head, h / c.n_head, 0, backward); }

  /// A result that nobody else holds goes through dropout.
  void dropout(std::string_view name) {
    if (!dropping) return;
    s.op(name, X);
    s.drop(X);
  }

  void embed() override {
    s.op("wte", X, 0, copy);
    s.op("wte + wpe", X);
    s.drop(X);
    dropout("drop");
  }
  void embed_backward() override {
    dropout("drop backward");
    s.op("sum over the batch", P);
    const int64_t positions = gathered ? 0 : c.n_positions * h * e;
    s.op("wpe backward", positions);
    s.drop(P);
    s.gradient(positions);
    const int64_t fresh = c.tie_word_embeddings || gathered ? 0 : V * h * e;
    s.op("wte backward", fresh, 0, copy);
    s.gradient(fresh);
    s.drop(X);
  }

  /// From x to what is added to it. What is kept: norm, queries with keys and values, out, lse.
  void attention(bool kept) {
    s.op("ln_1", X + (kept ? R : 0));
    linear("c_attn", h, 3 * h);
    s.op("attention", X + attention_record(c.n_head, kept), scratch(false));
    if (!kept) s.drop(attention_record(c.n_head, false));
    linear("c_proj", h, h);
    if (dropping) s.op("attn_dropout", X);
    s.drop((dropping ? X : 0) + (kept ? 0 : 4 * X) + unless_remade(kept));
  }
  GptFeedForward rows(int64_t positions) const {
    GptFeedForward out(c, z, s, positions);
    out.gathered = gathered;
    return out;
  }
  /// From x and what attention gave to the block's output. What is kept: the sum and, where it does not run in pieces, what GptFeedForward keeps.
  void feed_forward(bool kept) {
    s.op("add", X);
    s.drop(X);
    if (detail::in_pieces(z)) detail::blockwise<GptFeedForward>(*this, [this](int64_t positions) { return rows(positions); });
    else rows(length).forward(kept);
    if (dropping) s.op("mlp_dropout", X);
    s.op("add", X);
    s.drop((dropping ? X : 0) + (kept ? X : 2 * X));
  }
  void feed_forward_backward() {
    if (dropping) s.op("mlp_dropout backward", X);
    if (detail::in_pieces(z)) {
      detail::blockwise_backward<GptFeedForward>(*this, dropping, [this](int64_t positions) { return rows(positions); });
      return s.drop(X);
    }
    rows(length).backward(dropping);
    s.drop(2 * X);
  }
  void attention_backward() {
    if (dropping) s.op("attn_dropout backward", X);
    linear_backward("attn.c_proj backward", h, h, true);
    if (dropping) s.drop(X);
    if (materialised()) s.drop(X);  // the result: c_proj alone kept it
    s.op("attention backward", 3 * X, scratch(true));
    s.drop((materialised() ? 4 : 5) * X + record);
    s.op("slice backward", 3 * X);
    s.drop(3 * X);
    norm_again("ln_1 again");
    linear_backward("c_attn backward", h, 3 * h, true);
    s.drop(4 * X);
    norm_backward("ln_1 backward", true);
    s.drop(2 * X + R);
  }

  void block(bool attention_kept, bool feed_forward_kept) override {
    attention(attention_kept);
    feed_forward(feed_forward_kept);
  }
  void block_backward(int64_t, bool again) override {
    feed_forward_backward();
    if (again) {
      attention(true);
      s.drop(X);
    }
    attention_backward();
    s.drop(X);  // the block's input
  }
};

}  // namespace

std::vector<ModuleEstimate> module_estimates(const GptConfig& config, const StepSizes& sizes) {
  detail::require_plain(sizes);
  detail::Schedule schedule(0);
  const GptStep m(config, sizes, schedule, false);
  const int64_t L = config.n_layer, h = m.h, f = config.feed_forward_size(), X = m.X, F = m.rows(sizes.length).F;
  return {{"transformer.wte", 1, m.V * h, 0},
          {"transformer.wpe", 1, config.n_positions * h, 0},
          {m.dropping ? "transformer.drop" : "transformer", 1, 0, X},  // the sum of both
          {"transformer.h.*.ln_1", L, L * 2 * h, L * (X + m.R)},
          {"transformer.h.*.attn", L, L * (4 * h * h + 4 * h), L * (4 * X + m.record)},
          {"transformer.h.*.ln_2", L, L * 2 * h, L * (X + m.R)},
          {"transformer.h.*.mlp", L, L * (2 * h * f + f + h), L * 2 * F},
          {"transformer.h.*", L, 0, L * 2 * X},  // the sums
          {"transformer.ln_f", 1, 2 * h, X + m.R},
          {"lm_head", config.tie_word_embeddings ? 0 : 1, config.tie_word_embeddings ? 0 : m.V * h, 0},
          {"", 1, 0, m.kept_by_loss()}};
}

Estimate estimate(const GptConfig& config, const StepSizes& sizes) {
  config.validate();
  detail::require_whole(sizes, config.n_layer);
  const int64_t h = config.n_embd, f = config.feed_forward_size();
  const int64_t block = 4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h;
  const int64_t parameters = (config.tie_word_embeddings ? 1 : 2) * config.vocab_size * h + config.n_positions * h + config.n_layer * block + 2 * h;
  return detail::estimate_of(parameters, 0, sizes, [&](detail::Schedule& s, bool gathered) { return GptStep(config, sizes, s, gathered); });
}

}  // namespace spool::nn
