#include "category_rows.h"

namespace spool::detail {

std::vector<CategoryRow> category_rows(const MemoryReport& r) {
  using Kind = CategoryRow::Kind;
  using Bytes = std::optional<CategoryBytes>;
  const Bytes closed = r.closed_form ? r.closed_form->by_category : Bytes(), measured = r.measured ? r.measured->by_category : Bytes();
  std::vector<CategoryRow> rows;
  const auto add = [&](Kind kind, const char* name, std::initializer_list<Category> parts) {
    const auto sum = [&](const Bytes& bytes) -> std::optional<int64_t> {
      if (!bytes) return {};
      int64_t all = 0;
      for (const Category part : parts) all += (*bytes)[part];
      return all;
    };
    const CategoryRow row{kind, name, parts.size() == 1 ? int(*parts.begin()) : -1, kind == Kind::part ? std::nullopt : sum(closed), sum(r.at_peak), sum(measured)};
    if (row.closed_form.value_or(0) || row.planned.value_or(0) || row.measured.value_or(0)) rows.push_back(row);
  };
  add(Kind::category, "parameters", {Category::parameter});
  add(Kind::category, "gradients", {Category::gradient});
  add(Kind::category, "optimizer state", {Category::optimizer});
  add(Kind::category, "activations", {Category::saved, Category::temporary});
  add(Kind::part, "saved", {Category::saved});
  add(Kind::part, "temporary", {Category::temporary});
  add(Kind::category, "scratch", {Category::scratch});
  add(Kind::category, "communication", {Category::communication});
  const auto peak = [](const std::optional<PeakFigures>& figures) { return figures ? std::optional(figures->peak) : std::nullopt; };
  rows.push_back({Kind::sum, "sum", -1, peak(r.closed_form), r.peak, peak(r.measured)});
  if (r.outside) rows.push_back({Kind::outside, "outside the plan", -1, {}, {}, r.outside});
  return rows;
}

}  // namespace spool::detail
