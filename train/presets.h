#pragma once
// Configurations known by name, each as the TOML that a user could have written.
#include <span>
#include <string_view>

namespace spool::train {

struct Preset {
  std::string_view name;
  std::string_view doc;   ///< One line.
  std::string_view toml;
};

std::span<const Preset> presets();
const Preset* find_preset(std::string_view name);  ///< Null when there is none of that name.
/// Throws ConfigError with the nearest name and the list.
const Preset& preset(std::string_view name);

}  // namespace spool::train
