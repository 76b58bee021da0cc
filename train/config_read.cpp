#include <fmt/format.h>
#include <spool/tensor/error.h>
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "train/config_text.h"
#include "train/nearest.h"

namespace spool::train {
namespace {

std::string_view leaf_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }  // npos + 1 is 0
std::string_view section_of(std::string_view key) { return key.size() == leaf_of(key).size() ? "" : key.substr(0, key.rfind('.')); }

// A field's plain name: the beginning of what it means ("learning rate: …").
std::string_view plain_name(const Field& field) { return field.doc.substr(0, field.doc.find_first_of(":,;(")); }

// What to write instead of an unknown key.
std::string suggestion(const Fields& fields, std::string_view key) {
  const auto foreign = std::ranges::find(fields.foreign, normalised(key), &ForeignKey::key);
  if (foreign != fields.foreign.end()) return foreign->advice;
  const std::string written = normalised(leaf_of(key));
  const std::string_view section = section_of(key);
  const bool place_known = section.empty() || fields.find_section(section);
  if (place_known)
    if (const Field* field = fields.find(normalised(key))) return fmt::format("did you mean '{}'?", field->key);
  std::string right;
  for (const Field& field : fields.items)
    if (normalised(leaf_of(field.key)) == written) right += (right.empty() ? "" : " or ") + fmt::format("'{}'", field.key);
  if (!right.empty()) return fmt::format("this key is at the wrong level: write {}", right);

  const Field* best = nullptr;
  double least = 1e9;
  for (const Field& field : fields.items) {
    const size_t distance = std::min(miss_distance(written, leaf_of(field.key)), miss_distance(written, plain_name(field)));
    if (distance == std::string_view::npos) continue;
    const double weighed = double(distance) + (section_of(field.key) == section ? 0 : 0.5);
    if (weighed < least) least = weighed, best = &field;
  }
  if (best) return fmt::format("did you mean '{}'?", best->key);
  std::string known;
  for (const Field& field : fields.items)
    if (place_known && section_of(field.key) == section) known += (known.empty() ? "" : ", ") + std::string(leaf_of(field.key));
  if (!known.empty() && !section.empty()) return fmt::format("[{}] has {}", section, known);
  for (const Section& s : fields.sections) known += (known.empty() ? "" : ", ") + s.key;
  return fmt::format("the sections are {}", known);
}

[[noreturn]] void unknown_key(const Fields& fields, std::string_view key, std::string_view origin) {
  fail<ConfigError>(fmt::format("{}: unknown key '{}'; {}", origin, key, suggestion(fields, key)));
}

[[noreturn]] void unknown_section(const Fields& fields, std::string_view key, std::string_view origin) {
  const auto inside = [&](const ForeignKey& foreign) { return section_of(foreign.key) == key; };
  if (const auto foreign = std::ranges::find_if(fields.foreign, inside); foreign != fields.foreign.end())
    fail<ConfigError>(fmt::format("{}: unknown section '{}'; {}", origin, key, foreign->advice));
  const Section* best = nullptr;
  size_t least = std::string_view::npos;
  for (const Section& section : fields.sections)
    if (const size_t distance = miss_distance(leaf_of(key), leaf_of(section.key)); distance < least) least = distance, best = &section;
  fail<ConfigError>(fmt::format("{}: unknown section '{}'; {}", origin, key,
                                best ? fmt::format("did you mean [{}]?", best->key) : suggestion(fields, key)));
}

[[noreturn]] void section_as_value(std::string_view key, std::string_view origin) {
  fail<ConfigError>(fmt::format("{}: '{}' is a section, not a value; set its keys, as in {}.key = value", origin, key, key));
}

[[noreturn]] void value_as_section(const Field& field, std::string_view origin) {
  fail<ConfigError>(fmt::format("{}: {} must be {} ({}), but is a table", origin, field.key, expectation(field), field.doc));
}

// The walk is the same for TOML and JSON: `children` calls back with (name, node, origin), `leaf` makes a Value.
template <class Table, class Walk> void walk(Fields& fields, const Table& table, const std::string& prefix, const Walk& format) {
  format.children(table, [&](std::string_view name, const auto& node, const std::string& origin) {
    const std::string key = prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name);
    const auto* nested = format.as_table(node);
    if (fields.find_section(key)) {
      if (!nested) section_as_value(key, origin);
      walk(fields, *nested, key, format);
    } else if (Field* field = fields.find(key)) {
      if (nested) value_as_section(*field, origin);
      assign(*field, format.value(node, key, origin), origin);
    } else if (nested) {
      unknown_section(fields, key, origin);
    } else {
      unknown_key(fields, key, origin);
    }
  });
}

struct TomlWalk {
  std::string_view source;
  bool positions;
  std::string at(const toml::source_region& region) const {
    return positions ? fmt::format("{}:{}:{}", source, region.begin.line, region.begin.column) : std::string(source);
  }
  template <class F> void children(const toml::table& table, F&& f) const {
    // toml++ sorts by name; keep the order of the file, so that the first mistake is reported first
    std::vector<std::pair<const toml::key*, const toml::node*>> entries;
    for (const auto& [key, node] : table) entries.emplace_back(&key, &node);
    std::ranges::sort(entries, {}, [](const auto& e) { return std::pair(e.first->source().begin.line, e.first->source().begin.column); });
    for (const auto& [key, node] : entries) f(key->str(), *node, at(key->source()));
  }
  static const toml::table* as_table(const toml::node& node) { return node.as_table(); }
  static Value value(const toml::node& node, std::string_view key, const std::string& origin) {
    if (const auto* v = node.as_boolean()) return {v->get()};
    if (const auto* v = node.as_integer()) return {v->get()};
    if (const auto* v = node.as_floating_point()) return {v->get()};
    if (const auto* v = node.as_string()) return {v->get()};
    if (const auto* array = node.as_array()) {
      std::vector<Value> list;
      for (const auto& element : *array) list.push_back(value(element, key, origin));
      return {std::move(list)};
    }
    fail<ConfigError>(fmt::format("{}: {} holds a date, a time or a table; write a number, a string, true, false or a list of those", origin, key));
  }
};

struct JsonWalk {
  std::string_view source;
  template <class F> void children(const nlohmann::json& object, F&& f) const {
    for (const auto& [name, node] : object.items()) f(name, node, std::string(source));
  }
  static const nlohmann::json* as_table(const nlohmann::json& node) { return node.is_object() ? &node : nullptr; }
  static Value value(const nlohmann::json& node, std::string_view, const std::string&) {
    if (node.is_boolean()) return {node.get<bool>()};
    if (node.is_number_integer()) return {node.get<int64_t>()};
    if (node.is_number_float()) return {node.get<double>()};
    if (node.is_string()) return {node.get<std::string>()};
    if (!node.is_array()) return {};
    std::vector<Value> list;
    for (const auto& element : node) list.push_back(value(element, {}, {}));
    return {std::move(list)};
  }
};

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

toml::table parse(std::string_view text, std::string_view source, bool positions) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    std::string why = one_line(std::string(e.description()));
    if (const size_t at = why.find("redefine"); at != std::string::npos) {
      const size_t open = why.find('\'', at), close = why.find('\'', open + 1);
      const std::string name = close == std::string::npos ? "" : " " + why.substr(open, close - open + 1);
      why = fmt::format("duplicate key{}; keep one of the two", name);
    } else {
      why = fmt::format("not valid TOML: {}", why);
    }
    const TomlWalk place{source, positions};
    fail<ConfigError>(fmt::format("{}: {}", place.at(e.source()), why));
  }
}

Value value_of_text(const Field& field, const std::string& text) {
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  const bool words = std::holds_alternative<EnumTarget>(field.target) || std::holds_alternative<std::string*>(field.target) ||
                     std::holds_alternative<std::optional<std::string>*>(field.target);
  if (words && !quoted) return {text};
  try {
    const toml::table table = toml::parse("v = " + text);
    if (table.size() == 1 && !table["v"].is_table()) return TomlWalk::value(*table.get("v"), field.key, "");
  } catch (const toml::parse_error&) {
  } catch (const ConfigError&) {
  }
  return {text};
}

}  // namespace

void read_toml(Fields& fields, std::string_view text, std::string_view source, bool positions) {
  walk(fields, parse(text, source, positions), "", TomlWalk{source, positions});
}

void read_toml_key(Fields& fields, std::string_view key, std::string_view text, std::string_view source, bool positions) {
  const TomlWalk format{source, positions};
  const toml::table whole = parse(text, source, positions);
  const toml::table* section = section_of(key).empty() ? &whole : whole.at_path(section_of(key)).as_table();
  if (!section) return;
  format.children(*section, [&](std::string_view name, const toml::node& node, const std::string& origin) {
    if (name == leaf_of(key) && !node.is_table()) assign(*fields.find(key), TomlWalk::value(node, key, origin), origin);
  });
}

std::string read_config_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail<ConfigError>(fmt::format("{}: is a directory, not a configuration file", path.string()));
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()).good()) {
    if (in && in.peek() == std::ifstream::traits_type::eof() && errno == 0) return {};  // an empty file sets nothing
    fail<ConfigError>(fmt::format("{}: cannot read this configuration file: {}", path.string(), std::generic_category().message(errno)));
  }
  return text.str();
}

void read_json(Fields& fields, const nlohmann::json& json, std::string_view source) {
  if (!json.is_object()) fail<ConfigError>(fmt::format("{}: must be a JSON object", source));
  walk(fields, json, "", JsonWalk{source});
}

Override parse_override(std::string_view text) {
  const size_t equals = text.find('=');
  const auto trim = [](std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return std::string(s);
  };
  if (equals == std::string_view::npos || trim(text.substr(0, equals)).empty())
    fail<ConfigError>(fmt::format("--set: wants key=value, but got '{}'; write for example --set optim.lr=1e-3", text));
  return {trim(text.substr(0, equals)), trim(text.substr(equals + 1))};
}

void apply(Fields& fields, const Override& setting) {
  if (fields.find_section(setting.key)) section_as_value(setting.key, setting.origin);
  Field* field = fields.find(setting.key);
  if (!field) unknown_key(fields, setting.key, setting.origin);
  assign(*field, value_of_text(*field, setting.text), setting.origin);
}

}  // namespace spool::train
