#pragma once
// Writing JSON. Private.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace spool::detail {

inline std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += {'\\', c};
    else if (uint8_t(c) >= 0x20) out += c;
    else {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", unsigned(uint8_t(c)));
      out += code;
    }
  }
  return out + "\"";
}

/// Writes members and elements with their commas.
class Json {
 public:
  Json& key(std::string_view name) {
    separate();
    out_ += quoted(name) + ": ";
    fresh_ = true;
    return *this;
  }
  Json& text(std::string_view value) { return raw(quoted(value)); }
  Json& number(int64_t value) { return raw(std::to_string(value)); }
  Json& real(double value) {  ///< Finite.
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return raw(text);
  }
  Json& boolean(bool value) { return raw(value ? "true" : "false"); }
  Json& null() { return raw("null"); }
  Json& open(char bracket) {
    separate();
    out_ += bracket;
    fresh_ = true;
    return *this;
  }
  Json& close(char bracket) {
    out_ += bracket;
    fresh_ = false;
    return *this;
  }
  Json& line() {  ///< A line break before what follows.
    line_ = true;
    return *this;
  }
  std::string take() { return std::move(out_) + "\n"; }

 private:
  Json& raw(const std::string& value) {
    separate();
    out_ += value;
    return *this;
  }
  void separate() {
    if (!fresh_) out_ += line_ ? ",\n" : ", ";
    else if (line_) out_ += "\n";
    fresh_ = line_ = false;
  }
  std::string out_;
  bool fresh_ = true, line_ = false;
};

}  // namespace spool::detail
