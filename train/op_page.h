#pragma once
// What is known of the ops: from the registry (what they keep, types, shapes, refusals) and from their headers (signature, formula).
#include <nlohmann/json_fwd.hpp>

#include <string>

namespace spool::train {

std::string ops_table();                        ///< One line an op: what it keeps, or why it has no gradient.
nlohmann::ordered_json ops_json();              ///< Schema spool.ops/1.
std::string op_text(const std::string& name);   ///< All about one op or function. Throws ConfigError naming the nearest one.
std::string ops_markdown();                     ///< The reference page: every header, function by function.

}  // namespace spool::train
