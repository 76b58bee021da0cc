#include "train/nearest.h"

#include <algorithm>
#include <vector>

namespace spool::train {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

std::string normalised(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    if (c == '-' || c == ' ') c = '_';
  }
  return out;
}

size_t miss_distance(std::string_view written, std::string_view known) {
  const std::string a = normalised(written), b = normalised(known);
  const size_t distance = edit_distance(a, b), shorter = std::min(a.size(), b.size());
  if (distance > 2 && shorter >= 3 && (a.starts_with(b) || b.starts_with(a))) return 2;
  return distance <= std::max<size_t>(1, std::max(a.size(), b.size()) / 3) && distance < shorter ? distance : std::string_view::npos;
}

std::string_view nearest(std::string_view written, std::span<const std::string_view> known) {
  std::string_view best;
  size_t least = std::string_view::npos;
  for (const auto word : known)
    if (const size_t distance = miss_distance(written, word); distance < least) least = distance, best = word;
  return best;
}

}  // namespace spool::train
