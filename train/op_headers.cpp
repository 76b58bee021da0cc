#include "train/op_headers.h"

#include <algorithm>
#include <cctype>

namespace spool::train {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

void add_line(std::string& paragraph, std::string_view line) {
  line = trimmed(line);
  if (!paragraph.empty() && !line.empty()) paragraph += ' ';
  paragraph += line;
}

/// The name before the first parenthesis, when it follows a type; empty for everything else.
std::string function_name(std::string_view declaration) {
  const size_t open = declaration.find('(');
  if (open == std::string_view::npos || open == 0) return "";
  size_t begin = open;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(declaration[begin - 1])) || declaration[begin - 1] == '_')) --begin;
  if (begin == open || begin == 0 || declaration[begin - 1] != ' ') return "";
  return std::string(declaration.substr(begin, open - begin));
}

/// Where a function's parameters end: the place after the parenthesis that closes the first one, npos when it is not there yet.
size_t end_of_parameters(std::string_view declaration) {
  int open = 0;
  for (size_t i = 0; i < declaration.size(); ++i) {
    open += declaration[i] == '(';
    if (declaration[i] == ')' && --open == 0) return i + 1;
  }
  return std::string_view::npos;
}
/// The declaration has come to its end or to the function's body.
bool is_whole(std::string_view declaration) {
  const size_t end = end_of_parameters(declaration);
  return declaration.find_first_of(";{", end == std::string_view::npos ? declaration.size() : end) != std::string_view::npos || (declaration.find('(') == std::string_view::npos && declaration.ends_with(';'));
}

class Parser {
 public:
  explicit Parser(const HeaderText& header) : rest_(header.text) { page_.name = header.name; }

  HeaderPage run() {
    bool inside = false;
    for (std::string_view line; next(line);) {
      if (!inside) {
        if (line.starts_with("// ") || line == "//") add_line(page_.intro, line.substr(2));
        inside = line.starts_with("namespace spool");
        continue;
      }
      if (trimmed(line).empty()) {
        doc_.clear();
        fresh_ = true;
      } else if (line.starts_with("///") || line.starts_with("//")) {
        if (!fresh_) doc_.clear();
        fresh_ = true;
        add_line(doc_, line.substr(line.starts_with("///") ? 3 : 2));
      } else if (line.starts_with("struct ") || line.starts_with("enum ") || line.starts_with("class ")) {
        type(line);
      } else if (line[0] != ' ' && line[0] != '}' && line[0] != '#') {
        function(line);
      }
    }
    return std::move(page_);
  }

 private:
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return true;
  }

  void type(std::string_view line) {
    std::string code(line);
    for (bool open = line.find("};") == std::string_view::npos && !line.ends_with(';'); open && next(line); open = !line.starts_with("};")) code += "\n" + std::string(line);
    if (line.starts_with("};") && !code.ends_with("};")) code += "\n};";
    page_.entries.push_back({{}, code, doc_});
    doc_.clear();
  }

  void function(std::string_view line) {
    std::string declaration(line.substr(0, line.find("///<")));
    std::string own = line.find("///<") == std::string_view::npos ? "" : std::string(trimmed(line.substr(line.find("///<") + 4)));
    while (!is_whole(trimmed(declaration)) && next(line)) {
      declaration += "\n" + std::string(line.substr(0, line.find("///<")));
      if (const size_t at = line.find("///<"); at != std::string_view::npos) own = trimmed(line.substr(at + 4));
    }
    while (rest_.starts_with("///<")) {  // a comment that goes on
      next(line);
      add_line(own, line.substr(4));
    }
    if (const size_t end = end_of_parameters(declaration); end != std::string::npos)
      if (const size_t body = declaration.find('{', end); body != std::string::npos) declaration = declaration.substr(0, body) + ";";
    declaration = trimmed(declaration);
    if (const size_t blank = declaration.find(" ;"); blank != std::string::npos) declaration.erase(blank, 1);
    const std::string name = function_name(declaration);
    if (name.empty() || declaration.find("operator") != std::string::npos || declaration.starts_with("inline constexpr")) return;
    const bool joins = own.empty() && !page_.entries.empty() && !page_.entries.back().names.empty() && !fresh_;
    if (joins) {
      HeaderEntry& entry = page_.entries.back();
      entry.names.push_back(name);
      entry.code += "\n" + declaration;
    } else {
      page_.entries.push_back({{name}, declaration, own.empty() ? doc_ : own});
    }
    fresh_ = !own.empty();
  }

  std::string_view rest_;
  HeaderPage page_;
  std::string doc_;
  bool fresh_ = true;  ///< The comment was not used yet, so that the next function does not join the one before.
};

}  // namespace

HeaderPage parse_header(const HeaderText& header) { return Parser(header).run(); }

}  // namespace spool::train
