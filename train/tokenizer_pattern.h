#pragma once
// A regular expression over Unicode text that cuts it into words. Private to the tokenizers.
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace spool::train::detail {

/// Compiled once, used from any thread. Patterns are written for Oniguruma, the engine of Hugging Face's tokenizers, and run by PCRE2 with
/// Unicode classes; the constructs that mean something else in the other (\h, \H, inline options with m or x) are refused.
/// Bytes that are no UTF-8 match nothing and end a match.
class SplitPattern {
 public:
  /// Throws IoError, beginning with `name`, for a pattern that does not compile. `literal`: the text itself, not an expression.
  SplitPattern(const std::string& name, const std::string& pattern, bool literal = false);
  /// Calls f(piece, matched) for the matches and the stretches between them, from left to right; none is empty. Throws IoError when the
  /// search gives up, which takes a pattern whose work grows exponentially.
  void each(std::string_view text, const std::function<void(std::string_view piece, bool matched)>& f) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace spool::train::detail
