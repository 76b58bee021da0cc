#pragma once
// Writing Python's pickle format, protocol 2: what every unpickler reads. Private.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace spool::detail {

/// Values follow each other; between open_dict and close_dict keys and values in turn. A text is written once and referred to after that.
class Pickle {
 public:
  Pickle& open_dict() { return raw("}("); }
  Pickle& close_dict() { return raw("u"); }
  Pickle& open_list() { return raw("]("); }
  Pickle& close_list() { return raw("e"); }
  Pickle& text(std::string_view value) {
    const auto [known, added] = memo_.try_emplace(std::string(value), uint32_t(memo_.size()));
    if (!added) return raw("j").little(known->second, 4);
    return raw("X").little(value.size(), 4).raw(value).raw("r").little(known->second, 4);
  }
  Pickle& number(int64_t value) {
    if (value == int64_t(int32_t(value))) return raw("J").little(uint64_t(value), 4);
    return raw("\x8a\x08").little(uint64_t(value), 8);
  }
  Pickle& boolean(bool value) { return raw(value ? "\x88" : "\x89"); }
  Pickle& pair(int64_t first, int64_t second) { return number(first).number(second).raw("\x86"); }
  Pickle& entry(std::string_view key, std::string_view value) { return text(key).text(value); }
  Pickle& entry(std::string_view key, int64_t value) { return text(key).number(value); }
  std::string take() { return std::move(out_) + "."; }

 private:
  Pickle& raw(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }
  Pickle& little(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += char(uint8_t(value >> 8 * i));
    return *this;
  }
  std::string out_ = "\x80\x02";
  std::unordered_map<std::string, uint32_t> memo_;
};

}  // namespace spool::detail
