#include <spool/nn/recompute.h>
#include <spool/tensor/error.h>

#include <charconv>

namespace spool::nn {

std::string to_string(const Recompute& r) {
  if (r.scope == Recompute::Scope::none) return "none";
  if (r.scope == Recompute::Scope::block && (r.group != 1 || r.nested)) return concat(r.nested ? "nested:" : "group:", r.group);
  const std::string name = r.scope == Recompute::Scope::attention ? "attention" : "block";
  return r.first ? concat(name, ":", r.first) : name;
}

Recompute parse_recompute(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  int64_t count = 0;
  if (colon != text.npos) {
    const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, count);
    if (error != std::errc() || stop != end || count < 1) fail<ConfigError>("recompute: \"", text, "\" needs a number of blocks of at least 1 after the colon");
  }
  if (name == "none" && !count) return Recompute::none;
  if (name == "attention") return {Recompute::Scope::attention, count, 1, false};
  if (name == "block") return {Recompute::Scope::block, count, 1, false};
  if (name == "group" && count) return Recompute::groups(count);
  if (name == "nested" && count) return Recompute::groups(count, true);
  fail<ConfigError>("recompute: there is no policy \"", text, "\"; use none, attention, attention:K, block, block:K, group:N or nested:N");
}

}  // namespace spool::nn
