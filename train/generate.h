#pragma once
// Text from a language model, token by token.
#include <spool/nn/language_model.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/sample.h"
#include "train/tokenizer.h"

namespace spool::train {

struct GenerateOptions {
  int64_t tokens = 200;           ///< At most so many.
  SampleOptions sampling;
  std::vector<std::string> stop;  ///< Texts at which it ends; they are not part of the output.
  uint64_t seed = 0;

  void validate() const;  ///< Throws ConfigError naming the option.
};

/// Why it ended.
enum class Ending { tokens, stop, end_token, positions };
std::string_view ending_name(Ending ending);

struct Generated {
  int64_t prompt_tokens = 0;
  int64_t tokens = 0;  ///< Drawn; an end token counts.
  Ending ending = Ending::tokens;
};

/// Feeds the begin token, where the tokenizer has one, and the prompt (a newline when both are missing) in pieces, then samples. The new
/// text goes to `emit` as it comes, in bytes: what may be the beginning of a stop text waits until it is known not to be. Ends early at
/// an end token, a stop text, or the model's last position. Throws ConfigError for a prompt longer than the model's positions.
Generated generate(const nn::LanguageModel& model, const Tokenizer& tokenizer, std::string_view prompt, const GenerateOptions& options,
                   const std::function<void(std::string_view)>& emit);

/// Finds the first of several texts in a stream, however it is cut.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}
  /// Takes what comes next and returns what is certainly before any stop text.
  std::string feed(std::string_view piece);
  bool found() const { return found_; }
  std::string rest() { return found_ ? std::string() : std::exchange(held_, {}); }  ///< What was held back, when the stream ends.

 private:
  std::vector<std::string> texts_;
  std::string held_;
  bool found_ = false;
};

}  // namespace spool::train
