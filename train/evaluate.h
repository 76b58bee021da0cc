#pragma once
// The loss of a model on validation sequences or on a text.
#include <spool/nn/language_model.h>

#include <functional>

#include "train/config.h"
#include "train/dataset.h"

namespace spool::train {

/// Bits per byte of text from a sum of nats over tokens that stand for so many bytes.
inline double bits_per_byte(double nats, int64_t bytes) { return nats / (0.69314718055994530942 * double(bytes)); }

struct Evaluation {
  int64_t tokens = 0, bytes = 0;  ///< Scored tokens, and the bytes of text that they stand for.
  double nats = 0;                ///< Sum over the scored tokens.
  double loss() const { return nats / double(tokens); }  ///< Mean a token; NaN without any.
  double bits_per_byte() const { return train::bits_per_byte(nats, bytes); }
};

/// Over the validation sequences of a dataset. `keep_going(done, of)` is asked before each batch of sequences; on false the rest is left out.
Evaluation evaluate(const RunConfig& config, nn::LanguageModel& model, const Dataset& data, const std::function<bool(int64_t done, int64_t of)>& keep_going = {});
/// Over a whole corpus, after the tokenizer's begin token where it has one, in windows of data.seq tokens of which each starts with the last
/// token of the one before: every token is scored once, but for the first where nothing stands before it.
Evaluation evaluate_text(const RunConfig& config, nn::LanguageModel& model, const CorpusPtr& corpus, const TokenizerPtr& tokenizer);

}  // namespace spool::train
