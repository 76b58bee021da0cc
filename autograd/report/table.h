#pragma once
// Aligned columns of text for the memory report. Private.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace spool::detail {

/// Characters on the screen of UTF-8 text.
inline int display_width(std::string_view text) {
  return int(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

/// A share of work that is added: "+12.3 %", "0 %".
inline std::string work(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", 100 * share);
  return std::string_view(text) == "+0.0 %" || std::string_view(text) == "-0.0 %" ? "0 %" : text;
}

/// At most `width` characters: the middle gives way to "…", of a path the beginning.
inline std::string shortened(const std::string& text, int width, bool path = false) {
  if (display_width(text) <= width || width < 3) return text;
  std::vector<std::string> characters;
  for (const char c : text) {
    if ((uint8_t(c) & 0xc0) != 0x80) characters.emplace_back();
    characters.back() += c;
  }
  const auto head = path ? 0 : size_t(width - 1) / 2, tail = size_t(width - 1) - head;
  std::string out;
  for (size_t i = 0; i < head; ++i) out += characters[i];
  out += "…";
  for (size_t i = characters.size() - tail; i < characters.size(); ++i) out += characters[i];
  return out;
}

/// Rows of cells. Numbers stand right, words left; words that do not fit are shortened, the widest column first.
class TextTable {
 public:
  struct Column {
    std::string title;
    bool number = true;
    bool path = false;  ///< Its end tells it from others.
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
    row({});
    for (size_t i = 0; i < columns_.size(); ++i) rows_[0][i] = columns_[i].title;
  }
  void row(std::vector<std::string> cells) {
    cells.resize(columns_.size());
    rows_.push_back(std::move(cells));
  }
  void line() { rows_.emplace_back(); }  ///< A rule.

  std::string text(int width) const {
    const std::vector<int> widths = fit(width);
    std::string out;
    for (const auto& cells : rows_) {
      std::string row_text = "  ";
      if (cells.empty()) {
        int total = -2;
        for (const int w : widths) total += w + 2;
        for (int i = 0; i < total; ++i) row_text += "─";
      }
      for (size_t i = 0; i < cells.size(); ++i) {
        const std::string cell = shortened(cells[i], widths[i], columns_[i].path);
        const std::string pad(size_t(widths[i] - display_width(cell)), ' ');
        row_text += (i ? "  " : "") + (columns_[i].number ? pad + cell : cell + pad);
      }
      row_text.erase(row_text.find_last_not_of(' ') + 1);
      out += row_text + "\n";
    }
    return out;
  }

 private:
  std::vector<int> fit(int width) const {
    std::vector<int> widths(columns_.size(), 0);
    for (const auto& cells : rows_)
      for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], display_width(cells[i]));
    int total = 0;
    for (const int w : widths) total += w + 2;
    for (; total > width; --total) {
      int widest = -1;
      for (size_t i = 0; i < columns_.size(); ++i)
        if (!columns_[i].number && (widest < 0 || widths[i] > widths[size_t(widest)])) widest = int(i);
      if (widest < 0 || widths[size_t(widest)] <= 8) break;
      --widths[size_t(widest)];
    }
    return widths;
  }
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace spool::detail
