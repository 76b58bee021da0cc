#include "train/data.h"

#include <algorithm>

namespace spool::train {

Split proportional_split(int64_t size) {
  const int64_t train = size / 10 * 9 + size % 10 * 9 / 10, validation = size / 20;
  return {{0, train}, {train, train + validation}, {train + validation, size}};
}

Split enwik8_split(int64_t size) {
  constexpr int64_t million = 1'000'000;
  return {{0, 90 * million}, {90 * million, 95 * million}, {95 * million, std::min(size, 100 * million)}};
}

bool is_enwik8(const std::filesystem::path& path, int64_t size) {
  std::string name = path.filename().string();
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return size == 100'000'000 || (size >= 95'000'000 && name.substr(0, name.find('.')) == "enwik8");
}

}  // namespace spool::train
