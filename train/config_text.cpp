#include "train/config_text.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace spool::train {
namespace {

std::pair<std::string_view, std::string_view> split_key(std::string_view key) {
  const size_t dot = key.rfind('.');
  if (dot == std::string_view::npos) return {{}, key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

nlohmann::ordered_json json_of(const Value& value) {
  const auto convert = []<class T>(const T& held) -> nlohmann::ordered_json {
    if constexpr (std::is_same_v<T, std::monostate>) {
      return nullptr;
    } else if constexpr (std::is_same_v<T, std::vector<Value>>) {
      auto list = nlohmann::ordered_json::array();
      for (const Value& element : held) list.push_back(json_of(element));
      return list;
    } else {
      return held;
    }
  };
  return std::visit(convert, value.data);
}

// Fields of a section may be followed by those of a nested one: print each section's own together.
std::vector<std::string_view> section_order(const Fields& fields) {
  std::vector<std::string_view> order{""};
  for (const Section& section : fields.sections) order.push_back(section.key);
  return order;
}

}  // namespace

std::string to_toml(const Fields& fields) {
  std::string out;
  for (const auto section : section_order(fields)) {
    std::string body;
    for (const Field& field : fields.items) {
      const auto [place, name] = split_key(field.key);
      if (place == section) body += fmt::format("{:<32}# {}\n", fmt::format("{} = {}", name, to_text(value_of(field))), field.doc);
    }
    if (body.empty()) continue;
    if (!section.empty()) out += fmt::format("{}[{}]  # {}\n", out.empty() ? "" : "\n", section, fields.find_section(section)->doc);
    out += body;
  }
  return out;
}

nlohmann::ordered_json to_json(const Fields& fields) {
  auto out = nlohmann::ordered_json::object();
  for (const Field& field : fields.items) {
    auto* at = &out;
    std::string_view rest = field.key;
    for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      at = &(*at)[std::string(rest.substr(0, dot))];
      rest.remove_prefix(dot + 1);
    }
    (*at)[std::string(rest)] = json_of(value_of(field));
  }
  return out;
}

std::string help_text(const Fields& fields) {
  std::string out;
  size_t width = 0, value_width = 0;
  for (const Field& field : fields.items) {
    width = std::max(width, field.key.size());
    value_width = std::max(value_width, to_text(value_of(field)).size());
  }
  for (const auto section : section_order(fields)) {
    if (!section.empty()) out += fmt::format("{}{}: {}\n", out.empty() ? "" : "\n", section, fields.find_section(section)->doc);
    for (const Field& field : fields.items)
      if (split_key(field.key).first == section)
        out += fmt::format("  {:<{}}  {:<{}}  {} ({})\n", field.key, width, to_text(value_of(field)), value_width, field.doc, expectation(field));
  }
  return out;
}

}  // namespace spool::train
