#pragma once
// The table "by category" of the memory report, which text and page show alike. Private.
#include <spool/autograd/report.h>

namespace spool::detail {

struct CategoryRow {
  enum class Kind : uint8_t { category, part, sum, outside };
  Kind kind = Kind::category;
  std::string name;
  int colour = -1;  ///< A category, or none.
  std::optional<int64_t> closed_form, planned, measured;
};

/// Rows that are zero everywhere are left out. Activations are what is saved and what is temporary; the closed form knows their sum alone.
std::vector<CategoryRow> category_rows(const MemoryReport& report);

}  // namespace spool::detail
