#include "train/tokenizer_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <spool/tensor/error.h>
#include <spool/tensor/detail/safetensors_header.h>

#include <array>

namespace spool::train::detail {
namespace {

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};

std::string reason(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// What the two engines understand differently, or nothing.
std::string foreign_construct(std::string_view pattern) {
  for (size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      if (pattern[i + 1] == 'h' || pattern[i + 1] == 'H') return {'\\', pattern[i + 1]};
      ++i;
    } else if (pattern.substr(i, 2) == "(?") {
      const size_t end = pattern.find_first_not_of("imx-", i + 2);
      const std::string_view options = pattern.substr(i, end == pattern.npos ? end : end - i);
      if (options.find_first_of("mx") != options.npos) return std::string(options);
    }
  }
  return {};
}

}  // namespace

struct SplitPattern::Code {
  std::string name;
  std::unique_ptr<pcre2_code, Free> code;
};

SplitPattern::SplitPattern(const std::string& name, const std::string& pattern, bool literal) {
  if (const std::string construct = literal ? "" : foreign_construct(pattern); !construct.empty())
    fail<IoError>(name, ": the split pattern uses ", construct, ", which is not supported");
  const std::unique_ptr<pcre2_compile_context, Free> context(pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  const uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
  int error = 0;
  PCRE2_SIZE at = 0;
  auto code = std::make_shared<Code>();
  code->name = name;
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &at, context.get()));
  if (!code->code) fail<IoError>(name, ": the split pattern ", spool::detail::shown(pattern), " is not understood at byte ", at, ": ", reason(error));
  pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);  // where it fails, the interpreter does it
  code_ = std::move(code);
}

void SplitPattern::each(std::string_view text, const std::function<void(std::string_view, bool)>& f) const {
  const std::unique_ptr<pcre2_match_data, Free> match(pcre2_match_data_create(1, nullptr));
  if (!match) throw std::bad_alloc();
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const auto search = [&](uint32_t options) {
      return pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, options, match.get(), nullptr);
    };
    int found = search(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) fail<IoError>(code_->name, ": the split pattern gives up at byte ", at, " of a text: ", reason(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    const size_t begin = range[0], end = range[1];
    if (end <= begin || end <= done) {  // an empty match, or one that \K moved behind what is done
      at = std::max(at, end) + 1;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
      continue;
    }
    const size_t start = std::max(begin, done);
    if (start > done) f(text.substr(done, start - done), false);
    f(text.substr(start, end - start), true);
    done = at = end;
  }
  if (done < text.size()) f(text.substr(done), false);
}

}  // namespace spool::train::detail
