#include <spool/nn/detail/decoder_step.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::nn::detail {

void require_whole(const StepSizes& sizes, int64_t layers) {
  const Recompute& r = sizes.loss.recompute;
  if (std::max(r.first, r.group) > layers) fail<ConfigError>("estimate: recompute: ", to_string(r), ": the model has ", layers, " blocks");
  if (sizes.loss.chunk) fail<ConfigError>("estimate: chunk: softmax attention has no state of fixed size to cut at, got ", *sizes.loss.chunk);
}

DecoderStep::DecoderStep(const StepSizes& sizes, const DecoderWidths& w, Schedule& schedule, bool all_gathered)
    : DecoderPart(sizes, w, schedule, sizes.length), targets_(sizes.masked ? 4 * T : copy), chunk_(sizes.loss.loss_chunk > 0 && sizes.loss.loss_chunk < T ? sizes.loss.loss_chunk : 0) {
  gathered = all_gathered;
}

int64_t DecoderStep::attention_scratch(int64_t heads, int64_t key_heads, int64_t dim, int64_t window, bool backward) const {
  const AttentionOptions options{.causal = true, .window = window};
  const Meta q = meta({z.batch, length, heads, dim}), k = meta({z.batch, length, key_heads, dim}), weights = meta({z.batch, heads, length, length});
  const std::string_view op = materialised() ? backward ? "attention_materialised_backward" : "attention_materialised" : backward ? "attention_backward" : "attention";
  const Metas inputs = !backward ? Metas{q, k, k} : materialised() ? Metas{q, q, k, k, weights} : Metas{q, Meta{.defined = false}, q, k, k};
  s.work(declared_work(op, inputs, &options));
  return declared_scratch(op, inputs, &options);
}

/// Logits of `rows` rows and their loss; the logits and each row's log-sum are kept or not.
void DecoderStep::head(int64_t rows, int64_t targets_copy, bool kept) {
  s.op("logits", rows * V * e, linear_scratch(rows, h, V));
  s.work(2.0 * double(rows) * double(h) * double(V));
  s.op("cross_entropy", S + (kept ? rows * S : 0), declared_scratch("cross_entropy", {meta({rows, V}), Meta{{rows}, Dtype::i32}}), targets_copy);
  if (!kept) s.drop(rows * V * e);
}
void DecoderStep::head_backward(int64_t rows, int64_t targets_copy) {
  s.op("cross_entropy backward", rows * V * e, 0, targets_copy);
  s.drop(rows * V * e + rows * S);
}

/// The next tokens, with a mark where they do not count.
void DecoderStep::masked_targets() {
  s.op("full", 4);
  const int64_t cast = z.byte_tokens || z.batch > 1 ? 4 * T : 0;
  s.op("cast", cast);
  s.op("where", targets_);
  s.drop(4 + cast);
}

void DecoderStep::loss() {
  if (z.masked) masked_targets();
  if (!chunk_) return head(T, z.masked ? 0 : copy, true);
  if (!z.masked) s.op("targets", copy);
  for (int64_t at = 0; at < T; at += chunk_) {
    head(std::min(chunk_, T - at), 0, false);
    if (at == 0) s.op("sum", 8);
    s.op("sum", 8);
    s.drop(8 + S);
  }
  s.op("sum", S);
  s.drop(8);
}

/// The final norm's output is at hand until then. Pieces of the loss hold it beyond.
void DecoderStep::scaled() {
  if (norms_again && !chunk_) s.drop(X);
}

void DecoderStep::loss_backward() {
  if (!chunk_) {
    head_backward(T, z.masked ? 0 : copy);
    s.drop(S + (z.masked ? targets_ : 0));
    norm_again("norm again");
    linear_backward("head backward", h, V, widths.head_bias);
    return s.drop(T * V * e + X);
  }
  for (int64_t end = T, rows; end > 0; end -= rows) {
    rows = (end - 1) % chunk_ + 1;
    const bool first = end == T;
    head(rows, 0, true);
    s.drop(S);
    head_backward(rows, 0);
    linear_backward("head backward", rows, h, V, widths.head_bias, gathered || !first);
    s.drop(rows * V * e);
    if (first) s.op("slice backward", X);
    s.drop(rows * h * e);
  }
  s.drop(S + targets_ + X);
}

std::vector<DecoderStep::Unit> DecoderStep::units() const {
  const Recompute& again = z.loss.recompute;
  std::vector<Unit> out;
  for (int64_t i = 0, end; i < widths.layers; i = end) {
    const bool scope = again.block_at(i);
    end = scope ? std::min(i + again.group, widths.layers) : i + 1;
    out.push_back({i, end, scope, again.attention_at(i)});
  }
  return out;
}

/// f(unit) in order. Of a run that is alike the first and the last two are told.
template <class F>
void DecoderStep::each(std::vector<Unit> all, const F& f) {
  constexpr size_t ends = 2;
  for (size_t begin = 0, end; begin < all.size(); begin = end) {
    for (end = begin + 1; end < all.size() && all[end].like(all[begin]);) ++end;
    for (size_t i = begin; i < end; ++i) {
      s.place("layer", all[i].begin);
      const Schedule::Stretch mark = s.mark();
      f(all[i]);
      if (i != begin + ends - 1 || end - begin <= 2 * ends) continue;
      const size_t skipped = end - begin - 2 * ends;
      s.repeat(s.since(mark), int64_t(skipped));
      i += skipped;
    }
  }
  s.place("");
}

void DecoderStep::forward() {
  embed();
  each(units(), [this](const Unit& unit) {
    for (int64_t i = unit.begin; i < unit.end; ++i) {
      s.place("layer", i);
      block(!unit.scope && !unit.attention, !unit.scope);
      if (i != unit.begin) s.drop(X);  // within a scope nothing stays
    }
  });
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
  loss_backward();
  if (widths.final_norm) {
    norm_backward("norm backward", widths.statistics == 2);
    s.drop(2 * X + R);
  }
  std::vector<Unit> reversed = units();
  std::reverse(reversed.begin(), reversed.end());
  each(std::move(reversed), [this](const Unit& unit) {
    if (unit.scope) scope_backward(unit.begin, unit.end);
    else block_backward(unit.begin, unit.attention);
  });
  embed_backward();
}

}  // namespace spool::nn::detail
