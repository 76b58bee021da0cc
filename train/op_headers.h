#pragma once
// What the headers of ops/ say: they are part of the program, so that `spool ops` can show them.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spool::train {

/// A header's text as it was built.
struct HeaderText {
  std::string_view name;  ///< "softmax.h"
  std::string_view text;
};
std::span<const HeaderText> op_headers();  ///< Sorted by name. Defined by the build.

/// One documented thing of a header: a type, or functions that share a comment.
struct HeaderEntry {
  std::vector<std::string> names;  ///< Of functions; empty for a type.
  std::string code;                ///< The declarations, or the type's definition with its comments.
  std::string doc;                 ///< The comment as one paragraph; empty when there is none.
};
struct HeaderPage {
  std::string name;   ///< "softmax.h"
  std::string intro;  ///< The comment at its head.
  std::vector<HeaderEntry> entries;
};
/// Functions and types at namespace level, in their order; inline operators are left out.
HeaderPage parse_header(const HeaderText& header);

}  // namespace spool::train
