#include "train/evaluate.h"

#include <spool/autograd/tape.h>
#include <spool/tensor/error.h>

#include <algorithm>

#include "train/step.h"

namespace spool::train {
namespace {

/// Without a tape. Where the model can, a long sequence goes through in slices, so that validation never needs more memory than training.
void add_batch(Evaluation& sum, const RunConfig& config, const nn::LanguageModel& model, const Batch& batch) {
  const NoGrad quiet;
  nn::LossOptions options{.loss_chunk = config.train.loss_chunk, .feed_forward_chunk = config.train.feed_forward_chunk};
  const int64_t slice = config.train.chunk.value_or(4096);
  if (model.sliced() && batch.seq - 1 > slice) options.chunk = slice;
  sum.nats += model.training_loss(to_tensors(batch), options).item() * double(batch.scored);
  sum.tokens += batch.scored;
  sum.bytes += batch.bytes;
}

/// Dropout off while it lives.
class Evaluating {
 public:
  explicit Evaluating(nn::LanguageModel& model) : model_(model) { model.eval(); }
  ~Evaluating() { model_.train(); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  nn::LanguageModel& model_;
};

}  // namespace

Evaluation evaluate(const RunConfig& config, nn::LanguageModel& model, const Dataset& data, const std::function<bool(int64_t, int64_t)>& keep_going) {
  const Evaluating off(model);
  Evaluation out;
  for (int64_t at = 0; at < data.validation_count(); at += config.data.batch) {
    if (keep_going && !keep_going(at, data.validation_count())) break;
    add_batch(out, config, model, data.validation(at, config.data.batch));
  }
  return out;
}

Evaluation evaluate_text(const RunConfig& config, nn::LanguageModel& model, const CorpusPtr& corpus, const TokenizerPtr& tokenizer) {
  const Evaluating off(model);
  const TokenBytes lengths(tokenizer);
  const TokenStreamPtr tokens = token_stream(corpus, {0, corpus->size()}, tokenizer);
  // A text starts with the begin token, where there is one, and a window with the last token of the one before: every token is asked for
  // once, but for the first of a text that nothing stands before.
  const std::optional<int32_t> begin = tokenizer ? tokenizer->begin_token() : std::nullopt;
  const int32_t first = begin.value_or(0);
  const int64_t shift = begin ? 1 : 0, count = tokens->size() + shift;
  Evaluation out;
  for (int64_t at = 0; at + 1 < count; at += config.data.seq - 1) {
    Batch batch{.rows = 1, .seq = std::min(config.data.seq, count - at), .tokens = {}, .mask = {}, .narrow = is_bytes(tokenizer)};
    batch.tokens.resize(size_t(batch.seq));
    const size_t before = at < shift ? 1 : 0;
    if (before) batch.tokens[0] = first;
    tokens->read(at + int64_t(before) - shift, std::span(batch.tokens).subspan(before));
    batch.scored = batch.seq - 1;
    batch.bytes = lengths.of(std::span(batch.tokens).subspan(1));
    if (before) batch.bytes += int64_t(tokenizer->piece(batch.tokens[1], first).size()) - lengths.of(batch.tokens[1]);  // its leading space is not the text's
    add_batch(out, config, model, batch);
  }
  if (out.tokens == 0) fail<IoError>(corpus->name(), ": ", tokens->size(), " ", tokens->unit(), " are too few; at least 2 are needed");
  return out;
}

}  // namespace spool::train
