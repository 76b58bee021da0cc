#pragma once
// Configurations as text: TOML, JSON, `--set key=value`, help.
// Every reading function throws ConfigError, in one line that names the place (file:line:column, or the option), the key and what to do:
// for a key that is unknown (with the nearest known one), at the wrong level (with the right one), duplicate, of the wrong type, or out of range.
#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>
#include <string_view>

#include "train/fields.h"

namespace spool::train {

/// Assigns what the TOML text holds; other fields stay. `source` stands before the line in messages, and the positions are left out if it is
/// no file (`positions` false).
void read_toml(Fields& fields, std::string_view text, std::string_view source, bool positions = true);
/// Assigns that one field if the text has it; whatever else it holds is passed over, right or wrong.
void read_toml_key(Fields& fields, std::string_view key, std::string_view text, std::string_view source, bool positions = true);
/// The text of a configuration file. ConfigError when it cannot be read.
std::string read_config_file(const std::filesystem::path& path);
/// The same for a JSON object of nested objects.
void read_json(Fields& fields, const nlohmann::json& json, std::string_view source);

/// One setting from the command line.
struct Override {
  std::string key;     ///< Dotted.
  std::string text;    ///< The value as TOML writes it; quotes around strings may be left out; "none" makes an optional absent.
  std::string origin = "--set";  ///< The option it came from, for messages.
};
/// "optim.lr=1e-3" taken apart.
Override parse_override(std::string_view text);
void apply(Fields& fields, const Override& setting);

/// All fields as TOML, with what they mean as comments. Reading it back gives the same values.
std::string to_toml(const Fields& fields);
/// All fields as an object of objects; what is absent is null.
nlohmann::ordered_json to_json(const Fields& fields);
/// A table of keys, present values, what they take and what they mean.
std::string help_text(const Fields& fields);

}  // namespace spool::train
