#include <spool/nn/detail/performer_part.h>

#include <algorithm>

namespace spool::nn::detail {

PerformerState::PerformerState(const PerformerConfig& c, const StepSizes& z)
    : wide(z.dtype == Dtype::f64 || (z.loss.chunk && z.loss.state == StatePolicy::subtract64)), size(wide ? 8 : 4), bytes(z.batch * c.heads * c.features() * (c.d_model / c.heads + 1) * size) {}

PerformerPart::PerformerPart(const PerformerConfig& config, const StepSizes& sizes, const PerformerState& st, Schedule& schedule, int64_t begin, int64_t end)
    : DecoderPart(sizes, {config.d_model, config.vocab, config.layers, 2, false, true}, schedule, end - begin), c(config), state(st), pre(c.norm == NormPlacement::pre),
      favor(c.feature.starts_with("favor")), activation_again(remakes(sizes, "linear", {"layer_norm", "linear"})), f(c.d_ff), F(T * f * e), half_x(X / 2), sines(length * h / 2 * e), M(c.features()), P(favor ? T * c.heads * M * e : X), N(T * c.heads * e), den(T * c.heads * st.size),
      targets(sizes.masked ? 4 * T : 0), lacking(std::max<int64_t>(c.ngram - 1 - begin, 0)), padded(lacking ? z.batch * (length + c.ngram - 1) * (z.byte_tokens ? 1 : 4) : 0) {
  norms_again = pre && remakes(sizes, "layer_norm", {"layer_norm", "linear"});  // elsewhere nobody keeps what a norm gives
}

/// Working space of the attention ops follows the state's type, which inputs of f64 imply.
int64_t PerformerPart::attention_scratch(std::string_view op) const {
  const Dtype dtype = state.wide ? Dtype::f64 : z.dtype;
  const Meta k{{z.batch, length, c.heads, M}, dtype}, v{{z.batch, length, c.heads, h / c.heads}, dtype}, none{.defined = false};
  const Metas inputs = op == "linear_attention_sum" ? Metas{k, v, none} : op == "linear_attention" ? Metas{k, k, v, none} : Metas{v, none, k, k, v, none, v, none};
  s.work(declared_work(op, inputs));
  return declared_scratch(op, inputs);
}

// Embedding

/// Tokens of the window that an embedding reads are contiguous only where there is one sequence.
void PerformerPart::embed() {
  if (lacking) {
    const int64_t zeros = z.batch * lacking * (z.byte_tokens ? 1 : 4);
    s.op("concat", zeros);
    s.op("concat", padded);
    s.drop(zeros);
  }
  s.op("embedding", half_x, 0, copy);
  for (int64_t i = 1; i < c.ngram; ++i) {
    s.op("embedding", half_x, 0, copy);
    s.op("add", half_x);
    s.drop(2 * half_x);
  }
  s.op("positions", sines);
  s.op("concat", X);
  s.drop(half_x + sines);
}
void PerformerPart::embed_backward() {
  const int64_t fresh = gathered ? 0 : V * h / 2 * e;
  for (int64_t i = 0; i < c.ngram; ++i) {
    s.op("embedding backward", fresh, 0, (T > 1 ? half_x : 0) + copy);  // the left half of rows, made contiguous
    s.gradient(fresh);
  }
  s.drop(X + padded);
}

// Attention

/// exp(ω·x′ − |x′|²/2) from queries or keys, which go. Kept: x′ and the result.
void PerformerPart::features(bool kept) {
  const int64_t d = h / c.heads;
  const Meta x = meta({z.batch, c.heads, length, d}), omega = meta({z.batch, c.heads, d, M});
  s.op("scaled", X);
  s.op("square", X);
  s.op("sum", N, T * c.heads * declared_scratch("sum", {meta({d})}));
  s.op("half", N);
  s.drop(N + X);
  s.op("omega", P, declared_scratch("matmul", {x, omega}));
  s.op("sub", P);
  s.op("exp", P);
  s.drop(2 * P + N + X + (kept ? 0 : X));
}
/// From the features' cotangent to that of what they are of.
void PerformerPart::features_backward() {
  const int64_t d = h / c.heads;
  s.op("exp backward", P);
  s.drop(2 * P);
  s.op("sub backward", P);
  s.op("sum backward", N, T * c.heads * declared_scratch("sum", {meta({M})}));
  s.drop(P);
  s.op("omega backward", X, declared_scratch("matmul", {meta({z.batch, c.heads, length, M}), meta({z.batch, c.heads, M, d})}));
  s.drop(P);
  s.op("half backward", N);
  s.drop(N);
  s.op("square backward", X);
  s.drop(N + 2 * X);
  s.op("scaled backward", X);
  s.drop(X);
}

void PerformerPart::attention(bool kept) {
  for (const char* name : {"query", "key", "value"}) {
    linear(name, h, h);
    if (favor && *name != 'v') features(kept);
  }
  if (ends.inverted) s.op("linear_attention_start", state.bytes, attention_scratch("linear_attention_sum"));
  if (ends.replaces) s.drop(state.bytes);
  s.op("linear_attention", X + state.bytes + (kept ? den : 0), attention_scratch("linear_attention"));
  if (!ends.handed) s.drop(state.bytes);
  if (c.out_projection) linear("output", h, h);
  if (!kept) s.drop(2 * P + X + (c.out_projection ? X : 0));
}
void PerformerPart::attention_backward(bool owns_cotangent) {
  if (c.out_projection) {
    linear_backward("output backward", h, h, true);
    if (owns_cotangent) s.drop(X);
  }
  const bool owns = owns_cotangent || c.out_projection;
  s.op("linear_attention backward", 2 * P + X + state.bytes, attention_scratch("linear_attention_backward"));
  if (ends.cotangent) s.drop(state.bytes);
  if (!ends.wanted) s.drop(state.bytes);
  s.drop(2 * X + den + (favor ? 0 : 2 * P) + (owns ? X : 0));  // exp keeps the features, too
  const int64_t result = pre ? 0 : X;                          // the first of three cotangents is kept, or it is added to the block's
  norm_again("attention_norm again");
  linear_backward("value backward", h, h, true);
  s.drop(X + result);
  for (const char* name : {"key backward", "query backward"}) {
    if (favor) features_backward();
    linear_backward(name, h, h, true);
    s.drop(2 * X);
  }
  s.drop(X);
}

// Block

void PerformerPart::feed_forward(bool kept) {
  linear("up", h, f, kept ? 2 * F : F);
  linear("down", f, h);
  if (!kept || activation_again) s.drop(F);
}

void PerformerPart::block(bool kept) {
  if (pre) s.op("attention_norm", X + (kept ? R : 0));
  attention(kept);
  if (!pre) s.op("attention_norm", X + (kept ? R : 0));
  dropout();
  s.op("add", X);
  s.drop(dropped());
  if (!kept) s.drop(2 * X);
  else s.drop((!pre || c.out_projection ? X : 0) + (norms_again ? X : 0));  // what a norm gave, or the projection: nobody keeps it
  if (pre) s.op("feed_forward_norm", X + (kept ? R : 0));
  feed_forward(kept);
  if (!pre) s.op("feed_forward_norm", X + (kept ? R : 0));
  dropout();
  s.op("add", X);
  s.drop(dropped() + (kept ? X : 4 * X) + (kept && norms_again ? X : 0));
}

void PerformerPart::block_backward() {
  const bool dropping = c.dropout > 0;  // what comes back through it belongs to one op alone
  if (dropping) s.op("dropout backward", X);
  if (!pre) {
    norm_backward("feed_forward_norm backward", true);
    s.drop(X + R + dropped());
  }
  if (activation_again) s.op("activation again", F);
  linear_backward("down backward", f, h, true);
  s.drop(F + (pre ? dropped() : X));
  s.op("activation backward", F);
  norm_again("feed_forward_norm again");
  linear_backward("up backward", h, f, true);
  s.drop(3 * F + (pre ? X : 2 * X));
  if (pre) {
    norm_backward("feed_forward_norm backward", true);
    s.drop(3 * X + R);
  }
  if (dropping) s.op("dropout backward", X);
  if (!pre) {
    norm_backward("attention_norm backward", true);
    s.drop(R + dropped() + (c.out_projection ? X : 0));  // the norm's input is kept as attention's result, too
  }
  attention_backward(!pre || dropping);
  if (pre) {
    norm_backward("attention_norm backward", true);
    s.drop(3 * X + R);
  }
}

// Head and loss

void PerformerPart::head(bool kept) {
  linear("head", h, V);
  if (!kept) s.drop(X + padded);
  if (z.masked) {
    const int64_t cast = z.byte_tokens || z.batch > 1 ? 4 * T : 0;
    s.op("full", 4);
    s.op("cast", cast);
    s.op("where", targets);
    s.drop(4 + cast);
  }
  s.op("cross_entropy", S + (kept ? T * S : 0), declared_scratch("cross_entropy", {meta({T, V}), Meta{{T}, Dtype::i32}}), z.masked ? 0 : copy);
  if (!kept) s.drop(T * V * e + targets);
}
void PerformerPart::head_backward() {
  s.op("cross_entropy backward", T * V * e, 0, z.masked ? 0 : copy);
  s.drop(T * V * e + T * S + targets + (ends.shared_loss ? 0 : S));
  linear_backward("head backward", h, V, true);
  s.drop(T * V * e + X);
}

void PerformerPart::forward(bool kept) {
  embed();
  for (int64_t i = 0; i < c.layers; ++i) {
    s.place("layer", i);
    block(kept);
  }
  s.place("");
  head(kept);
}

PerformerPart::Kept PerformerPart::kept() {
  Kept out;
  const auto change = [&](const auto& told) {
    const int64_t before = s.live();
    told();
    return s.live() - before;
  };
  out.embedded = change([&] { embed(); });
  out.block = change([&] { block(true); });
  out.logits = T * V * e;
  out.loss = change([&] { head(true); }) - out.logits - S;
  return out;
}

void PerformerPart::backward() {
  head_backward();
  for (int64_t i = c.layers - 1; i >= 0; --i) {
    s.place("layer", i);
    block_backward();
  }
  s.place("");
  embed_backward();
}

}  // namespace spool::nn::detail
