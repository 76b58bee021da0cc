#include "checks.h"

#include <spool/tensor/error.h>

namespace spool::test {

std::span<const NamedCheck> all_checks() {
  static constexpr NamedCheck checks[] = {
      {"samples", check_samples},
      {"shape rule", check_shape_rule},
      {"layouts", check_layouts},
      {"zero sizes", check_zero_sizes},
      {"bad samples", check_bad_samples},
      {"types", check_types},
      {"memory", check_memory},
      {"untouched", check_untouched},
      {"no allocation", check_no_allocation},
      {"threads", check_threads},
      {"gradient", check_gradient},
      {"second order", check_second_order},
      {"need masks", check_need_masks},
      {"accumulation", check_accumulation},
      {"cotangents", check_cotangents},
      {"saves", check_saves},
      {"overwritten", check_overwritten},
      {"no gradient", check_no_gradient},
      {"recompute", check_recompute},
      {"remake", check_remake},
      {"plan", check_plan},
  };
  return checks;
}

std::string outcome(Check check, const OpInfo& op) {
  try {
    return check(op);
  } catch (const std::exception& error) {
    return concat("threw: ", error.what());
  }
}

}  // namespace spool::test
