#pragma once
// Configuration structs described once. A struct is a plain aggregate with defaults and one static member
//
//   template <class Self, class V> static void visit_fields(Self& self, V&& v) {
//     v("steps", self.steps, "training steps", at_least(1));
//   }
//
// that names each member, says what it is and, if it wants, which values it takes. This serves reading TOML and JSON, `--set key=value`,
// printing, help and validation. The convention needs no header: a struct that knows nothing of this file writes the calls with three
// arguments and is described all the same.
//
// Members may be bool, int64_t, double, std::string, enums (see EnumNames), types written as text (see TextForm), std::optional and std::vector of numbers and strings, and structs
// that are themselves described: those become sections, and their keys are dotted ("optim.lr").
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace spool::train {

/// The range a number must lie in. NaN and infinities never do.
struct Check {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;  ///< Whether the bound itself is outside.
  std::string_view hint = {};                ///< What to do instead, added to the message.
};
constexpr Check at_least(double low, std::string_view hint = {}) { return {.low = low, .hint = hint}; }
constexpr Check above(double low, std::string_view hint = {}) { return {.low = low, .low_open = true, .hint = hint}; }
constexpr Check between(double low, double high) { return {.low = low, .high = high}; }
/// low ≤ x < high: probabilities and decay rates.
constexpr Check from_below(double low, double high) { return {.low = low, .high = high, .high_open = true}; }

/// The names of an enum's values, in order of the values 0, 1, …: specialise with `static constexpr std::array<std::string_view, N> names`.
template <class E> struct EnumNames;

/// A type that is written as text: specialise with `static std::string text(const T&)`, `static T parse(std::string_view)`, which throws
/// ConfigError for what it does not know, and `static constexpr std::string_view expected`.
template <class T> struct TextForm;

/// A value as text formats know it; empty where an optional is absent.
struct Value {
  std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<Value>> data;
};

/// An enum member, without its type.
struct EnumTarget {
  void* member = nullptr;
  std::span<const std::string_view> names;
  size_t (*get)(const void*) = nullptr;
  void (*set)(void*, size_t) = nullptr;
};
/// A member of a type with a TextForm, without its type.
struct TextTarget {
  void* member = nullptr;
  std::string_view expected;
  std::string (*get)(const void*) = nullptr;
  void (*set)(void*, std::string_view) = nullptr;
};
using Target = std::variant<bool*, int64_t*, double*, std::string*, std::optional<int64_t>*, std::optional<double>*, std::optional<std::string>*,
                            std::vector<int64_t>*, std::vector<double>*, std::vector<std::string>*, EnumTarget, TextTarget>;

/// One member of a configuration. It points into the struct, which must stay where it is.
struct Field {
  std::string key;               ///< Dotted: "train.steps".
  std::string_view doc;          ///< Starts with the plain name of the thing, up to a colon or comma: "learning rate: …".
  Check check;
  Target target;
  std::string origin = "default";  ///< Where the present value comes from: "run.toml:3:1", "preset copy", "--set".
};
struct Section {
  std::string key;
  std::string_view doc;
};
/// A key that the configuration would have under another setting.
struct ForeignKey {
  std::string key;
  std::string advice;  ///< "it belongs to model.type llama".
};
/// All members of a configuration, flat, in order.
struct Fields {
  std::vector<Field> items;
  std::vector<Section> sections;
  std::vector<ForeignKey> foreign = {};  ///< For messages only.
  Field* find(std::string_view key);
  const Field* find(std::string_view key) const;
  const Section* find_section(std::string_view key) const;
};

/// Stores a value. Throws ConfigError in one line "origin: key must be …" for a wrong type, an unknown name, or a value out of range.
void assign(Field& field, const Value& value, std::string origin);
/// Checks the present value as `assign` does, for values that came with the struct.
void check(const Field& field);
/// The present value.
Value value_of(const Field& field);
/// The value as TOML writes it; an absent one is "none".
std::string to_text(const Value& value);
/// What the field takes: "integer at least 1", "one of full, chunked, finetune".
std::string expectation(const Field& field);
/// Throws ConfigError "origin: key = value <message>", for checks that look at several fields.
[[noreturn]] void reject(const Fields& fields, std::string_view key, std::string_view message);

/// The visitor that makes Fields of a struct.
class FieldLister {
 public:
  FieldLister(Fields& out, std::string prefix) : out_(out), prefix_(std::move(prefix)) {}
  template <class T> void operator()(std::string_view name, T& member, std::string_view doc, Check check = {}) {
    using Member = std::remove_const_t<T>;
    auto& slot = const_cast<Member&>(member);  // a const struct is only read
    const std::string key = prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
    if constexpr (std::is_enum_v<Member>) {
      const EnumTarget target{&slot, EnumNames<Member>::names, [](const void* p) { return size_t(*static_cast<const Member*>(p)); },
                              [](void* p, size_t index) { *static_cast<Member*>(p) = Member(index); }};
      out_.items.push_back({key, doc, check, target});
    } else if constexpr (requires { TextForm<Member>::expected; }) {
      const TextTarget target{&slot, TextForm<Member>::expected, [](const void* p) { return TextForm<Member>::text(*static_cast<const Member*>(p)); },
                              [](void* p, std::string_view text) { *static_cast<Member*>(p) = TextForm<Member>::parse(text); }};
      out_.items.push_back({key, doc, check, target});
    } else if constexpr (std::is_constructible_v<Target, Member*>) {
      out_.items.push_back({key, doc, check, &slot});
    } else {
      out_.sections.push_back({key, doc});
      Member::visit_fields(slot, FieldLister(out_, key));
    }
  }

 private:
  Fields& out_;
  std::string prefix_;
};

/// The fields of a configuration. Of a const one they may be read only.
template <class Config> Fields fields_of(Config& config) {
  Fields out;
  std::remove_const_t<Config>::visit_fields(config, FieldLister(out, ""));
  return out;
}

}  // namespace spool::train
