#include "train/format.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace spool::train {

std::string format_count(int64_t count) {
  std::string text = std::to_string(count);
  const size_t first = text[0] == '-' ? 1 : 0;
  for (size_t i = text.size(); i > first + 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

namespace {
constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
}

int64_t parse_bytes(std::string_view text, std::string_view option) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit = text.substr(size_t(end - text.data()));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto found = unit.empty() ? units.begin() : std::find(units.begin(), units.end(), unit);
  const double bytes = std::ldexp(value, 10 * int(found - units.begin()));
  if (error != std::errc() || found == units.end() || !(bytes >= 1) || bytes > 0x1p60)
    fail<ConfigError>(option, ": \"", text, "\" is no size; write a number of bytes, or one with KiB, MiB, GiB or TiB, such as 2GiB");
  return int64_t(bytes);
}

std::string format_bytes(int64_t bytes) {
  double scaled = double(bytes);
  size_t unit = 0;
  while (std::abs(scaled) >= 1024 && unit + 1 < units.size()) scaled /= 1024, ++unit;
  if (unit == 0) return fmt::format("{} B", format_count(bytes));
  return fmt::format("{} B ({:.2f} {})", format_count(bytes), scaled, units[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "?";
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = int64_t(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole % 86400 / 3600);
}

std::string format_rate(double count, double seconds, std::string_view unit) {
  const double rate = count / seconds;
  if (!(seconds > 0) || !std::isfinite(rate) || std::abs(rate) > 1e18) return fmt::format("? {}/s", unit);
  return rate < 100 ? fmt::format("{:.3g} {}/s", rate, unit) : fmt::format("{} {}/s", format_count(std::llround(rate)), unit);
}

}  // namespace spool::train
