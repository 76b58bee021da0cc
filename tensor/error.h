#pragma once
// The errors of the library and the one helper that builds their messages.
#include <concepts>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace spool {

/// Base of everything the library throws. A message starts with the op or the part concerned, states both sides, and says what to do.
class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  /// Adds where it happened ("in layers.3.attention"); the outermost frame that knows calls it once.
  void add_place(std::string_view place) { message_ += std::string(" (in ") += std::string(place) += ")"; }

 private:
  std::string message_;
};
struct ShapeError : Error { using Error::Error; };      ///< Shapes that do not fit; the message names both.
struct DtypeError : Error { using Error::Error; };      ///< Element types that do not fit.
struct DeviceError : Error { using Error::Error; };     ///< Tensors on different devices, or an op without a kernel there.
struct IndexError : Error { using Error::Error; };      ///< An index outside its range; names index, size and position.
struct AutogradError : Error { using Error::Error; };   ///< Misuse of the tape; stale saved tensors; ops without a gradient.
struct ScopeError : Error { using Error::Error; };      ///< checkpoint or scan whose body does not repeat itself.
struct PlanError : Error { using Error::Error; };       ///< A step that cannot be planned, or that departs from its plan.
struct IoError : Error { using Error::Error; };         ///< Files: missing, unreadable, malformed, full disk.
struct CommError : Error { using Error::Error; };       ///< Ranks: peers, deadlines, mismatching messages.
struct ConfigError : Error { using Error::Error; };     ///< Configuration: unknown key, wrong type, out of range.
struct OutOfMemory : Error { using Error::Error; };     ///< An allocation that did not fit.

namespace detail {
inline void append(std::string& out, std::string_view text) { out += text; }
inline void append(std::string& out, const char* text) { out += text; }
inline void append(std::string& out, char c) { out += c; }
inline void append(std::string& out, bool value) { out += value ? "true" : "false"; }
template <std::integral T> void append(std::string& out, T value) { out += std::to_string(value); }
void append(std::string& out, double value);
template <class T>
  requires requires(const T& value) { { to_string(value) } -> std::convertible_to<std::string>; }
void append(std::string& out, const T& value) { out += to_string(value); }
}  // namespace detail

/// Joins its arguments into one string: text, numbers, and anything with a `to_string`.
template <class... Args>
std::string concat(const Args&... args) {
  std::string out;
  (detail::append(out, args), ...);
  return out;
}

/// Throws E with the joined arguments as message.
template <class E, class... Args>
[[noreturn]] void fail(const Args&... args) {
  throw E(concat(args...));
}

}  // namespace spool
