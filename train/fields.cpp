#include "train/fields.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cmath>

#include "train/nearest.h"

namespace spool::train {
namespace {

template <class T> struct IsOptional : std::false_type {};
template <class T> struct IsOptional<std::optional<T>> : std::true_type {};
template <class T> struct IsVector : std::false_type {};
template <class T> struct IsVector<std::vector<T>> : std::true_type {};

template <class T> constexpr std::string_view type_name() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  else if constexpr (std::is_same_v<T, int64_t>) return "an integer";
  else if constexpr (std::is_same_v<T, double>) return "a number";
  else if constexpr (std::is_same_v<T, std::string>) return "a string";
  else if constexpr (IsOptional<T>::value) return type_name<typename T::value_type>();
  else if constexpr (std::is_same_v<T, std::vector<int64_t>>) return "a list of integers";
  else if constexpr (std::is_same_v<T, std::vector<double>>) return "a list of numbers";
  else return "a list of strings";
}

std::string describe(const Value& value) {
  struct {
    std::string operator()(std::monostate) const { return "nothing"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return fmt::format("the integer {}", i); }
    std::string operator()(double d) const { return fmt::format("the float {}", to_text(Value{d})); }
    std::string operator()(const std::string& s) const { return fmt::format("the string {}", to_text(Value{s})); }
    std::string operator()(const std::vector<Value>& list) const { return fmt::format("the list {}", to_text(Value{list})); }
  } visitor;
  return std::visit(visitor, value.data);
}

std::string range_text(const Check& check) {
  const bool low = std::isfinite(check.low), high = std::isfinite(check.high);
  std::string out;
  if (low) out += fmt::format("{} {}", check.low_open ? "above" : "at least", check.low);
  if (low && high) out += " and ";
  if (high) out += fmt::format("{} {}", check.high_open ? "below" : "at most", check.high);
  return out;
}

[[noreturn]] void wrong_type(const Field& field, const Value& value, std::string_view wanted, std::string_view origin) {
  fail<ConfigError>(fmt::format("{}: {} must be {} ({}), but is {}", origin, field.key, wanted, field.doc, describe(value)));
}

void check_number(const Field& field, double number, std::string_view shown, std::string_view origin) {
  const Check& c = field.check;
  const bool inside = std::isfinite(number) && (c.low_open ? number > c.low : number >= c.low) && (c.high_open ? number < c.high : number <= c.high);
  if (inside) return;
  const std::string range = range_text(c);
  fail<ConfigError>(fmt::format("{}: {} must be {}, but is {}{}{}", origin, field.key, range.empty() ? "finite" : range, shown,
                                c.hint.empty() ? "" : "; ", c.hint));
}

void check_value(const Field& field, const Value& value, std::string_view origin) {
  if (const auto* integer = std::get_if<int64_t>(&value.data)) check_number(field, double(*integer), to_text(value), origin);
  if (const auto* real = std::get_if<double>(&value.data)) check_number(field, *real, to_text(value), origin);
  if (const auto* list = std::get_if<std::vector<Value>>(&value.data))
    for (const Value& element : *list) check_value(field, element, origin);
}

template <class T> bool convert(const Value& value, T& out) {
  if constexpr (IsOptional<T>::value) {
    const auto* text = std::get_if<std::string>(&value.data);
    if (std::holds_alternative<std::monostate>(value.data) || (text && *text == "none")) return out.reset(), true;
    return convert(value, out.emplace());
  } else if constexpr (IsVector<T>::value) {
    const auto* list = std::get_if<std::vector<Value>>(&value.data);
    if (!list) return false;
    out.resize(list->size());
    for (size_t i = 0; i < list->size(); ++i)
      if (!convert((*list)[i], out[i])) return false;
    return true;
  } else {
    if constexpr (std::is_same_v<T, double>)
      if (const auto* integer = std::get_if<int64_t>(&value.data)) return out = double(*integer), true;
    const auto* held = std::get_if<T>(&value.data);
    return held ? (out = *held, true) : false;
  }
}

template <class T> Value wrap(const T& member) {
  if constexpr (IsOptional<T>::value) {
    return member ? Value{*member} : Value{};
  } else if constexpr (IsVector<T>::value) {
    std::vector<Value> list;
    for (const auto& element : member) list.emplace_back().data = element;
    return {std::move(list)};
  } else {
    return {member};
  }
}

void assign_enum(const Field& field, const EnumTarget& target, const Value& value, std::string_view origin) {
  const auto* text = std::get_if<std::string>(&value.data);
  const std::string names = fmt::format("one of {}", fmt::join(target.names, ", "));
  if (!text) wrong_type(field, value, names, origin);
  const auto found = std::ranges::find(target.names, *text);
  if (found == target.names.end()) {
    const auto near = nearest(*text, target.names);
    fail<ConfigError>(fmt::format("{}: {} must be {}, but is {}{}", origin, field.key, names, to_text(value),
                                  near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near)));
  }
  target.set(target.member, size_t(found - target.names.begin()));
}

void assign_text(const Field& field, const TextTarget& target, const Value& value, std::string_view origin) {
  const auto* text = std::get_if<std::string>(&value.data);
  if (!text) wrong_type(field, value, target.expected, origin);
  try {
    target.set(target.member, *text);
  } catch (const ConfigError& error) {
    fail<ConfigError>(fmt::format("{}: {} = {}: {}", origin, field.key, to_text(value), error.what()));
  }
}

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += {'\\', c};
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (uint8_t(c) < 0x20 || c == 0x7f) out += fmt::format("\\u{:04x}", uint8_t(c));
    else out += c;
  }
  return out + '"';
}

}  // namespace

const Field* Fields::find(std::string_view key) const {
  const auto found = std::ranges::find(items, key, &Field::key);
  return found == items.end() ? nullptr : &*found;
}
Field* Fields::find(std::string_view key) { return const_cast<Field*>(std::as_const(*this).find(key)); }
const Section* Fields::find_section(std::string_view key) const {
  const auto found = std::ranges::find(sections, key, &Section::key);
  return found == sections.end() ? nullptr : &*found;
}

void assign(Field& field, const Value& value, std::string origin) {
  if (const auto* target = std::get_if<EnumTarget>(&field.target)) {
    assign_enum(field, *target, value, origin);
  } else if (const auto* text = std::get_if<TextTarget>(&field.target)) {
    assign_text(field, *text, value, origin);
  } else {
    const auto store = [&]<class Pointer>(Pointer member) {
      if constexpr (std::is_pointer_v<Pointer>) {
        std::remove_pointer_t<Pointer> converted{};
        if (!convert(value, converted)) wrong_type(field, value, type_name<std::remove_pointer_t<Pointer>>(), origin);
        check_value(field, wrap(converted), origin);
        *member = std::move(converted);
      }
    };
    std::visit(store, field.target);
  }
  field.origin = std::move(origin);
}

void check(const Field& field) { check_value(field, value_of(field), field.origin); }

Value value_of(const Field& field) {
  const auto read = []<class T>(const T& target) -> Value {
    if constexpr (std::is_pointer_v<T>) return wrap(*target);
    else if constexpr (std::is_same_v<T, TextTarget>) return {target.get(target.member)};
    else return {std::string(target.names[target.get(target.member)])};
  };
  return std::visit(read, field.target);
}

std::string to_text(const Value& value) {
  struct {
    std::string operator()(std::monostate) const { return "\"none\""; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const {
      std::string text = fmt::format("{}", d);
      return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
    }
    std::string operator()(const std::string& s) const { return quote(s); }
    std::string operator()(const std::vector<Value>& list) const {
      std::string out = "[";
      for (const Value& element : list) out += (out.size() > 1 ? ", " : "") + to_text(element);
      return out + "]";
    }
  } visitor;
  return std::visit(visitor, value.data);
}

std::string expectation(const Field& field) {
  const auto name = []<class T>(const T& target) -> std::string {
    if constexpr (std::is_pointer_v<T>) return std::string(type_name<std::remove_pointer_t<T>>());
    else if constexpr (std::is_same_v<T, TextTarget>) return std::string(target.expected);
    else return fmt::format("one of {}", fmt::join(target.names, ", "));
  };
  const auto optional = []<class T>(const T&) { return IsOptional<std::remove_pointer_t<T>>::value; };
  const std::string range = range_text(field.check);
  return std::visit(name, field.target) + (range.empty() ? "" : " " + range) + (std::visit(optional, field.target) ? ", or \"none\"" : "");
}

void reject(const Fields& fields, std::string_view key, std::string_view message) {
  const Field* field = fields.find(key);
  if (!field) fail<ConfigError>(fmt::format("{} {}", key, message));
  fail<ConfigError>(fmt::format("{}: {} = {} {}", field->origin, key, to_text(value_of(*field)), message));
}

}  // namespace spool::train
