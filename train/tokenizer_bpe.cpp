#include "train/tokenizer_bpe.h"

#include <algorithm>
#include <deque>

namespace spool::train::detail {
namespace {

/// White space as Unicode has it (the property White_Space).
bool is_space(std::string_view c) {
  if (c.size() == 1) return c[0] == ' ' || (c[0] >= '\t' && c[0] <= '\r');
  static constexpr std::string_view wide[] = {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
                                              "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  return std::find(std::begin(wide), std::end(wide), c) != std::end(wide);
}

size_t spaces_at_start(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_character(text.substr(at));
    if (!length || !is_space(text.substr(at, length))) break;
    at += length;
  }
  return at;
}

/// Where the white space at the end of a text begins.
size_t spaces_at_end(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && end - start < 4 && (static_cast<unsigned char>(text[start]) & 0xc0) == 0x80) --start;
    if (!is_space(text.substr(start, end - start))) break;
    end = start;
  }
  return end;
}

/// Looks for the leftmost of several texts, the longest there.
class Finder {
 public:
  explicit Finder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
    std::stable_sort(tokens_.begin(), tokens_.end(), [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
    for (size_t i = 0; i < tokens_.size(); ++i) by_first_[static_cast<unsigned char>(tokens_[i].text[0])].push_back(i);
  }
  /// f(stretch, offset) for what lies between, token(id) for what was found; from left to right.
  template <class F, class G> void each(std::string_view text, const F& f, const G& token) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size() && !tokens_.empty();) {
      const AddedToken* found = at_start(text.substr(at));
      if (!found) {
        ++at;
        continue;
      }
      const size_t start = found->takes_left ? std::max(done, spaces_at_end(text.substr(0, at))) : at;
      if (start > done) f(text.substr(done, start - done), done);
      token(found->id);
      at += found->text.size();
      if (found->takes_right) at += spaces_at_start(text.substr(at));
      done = at;
    }
    if (done < text.size()) f(text.substr(done), done);
  }

 private:
  const AddedToken* at_start(std::string_view text) const {
    for (const size_t i : by_first_[static_cast<unsigned char>(text[0])])
      if (text.starts_with(tokens_[i].text)) return &tokens_[i];
    return nullptr;
  }
  std::vector<AddedToken> tokens_;
  std::array<std::vector<size_t>, 256> by_first_;
};

/// Words of one stretch. Those that a step changes live in `made`.
struct Words {
  std::vector<std::string_view> list;
  std::deque<std::string> made;
  bool at_beginning = false;  ///< Whether list[0] is the beginning of the whole text.

  void apply(const SplitStep& step) {
    std::vector<std::string_view> out;
    for (const std::string_view word : list)
      step.pattern.each(word, [&](std::string_view piece, bool matched) {
        if (matched ? step.keep_matches : step.keep_rest) out.push_back(piece);
      });
    if (!out.empty() && !list.empty() && out[0].data() != list[0].data()) at_beginning = false;
    list = std::move(out);
  }
  void apply(const SpaceBefore&) {
    for (auto& word : list)
      if (!word.starts_with(' ')) word = made.emplace_back(1, ' ').append(word);
  }
  void apply(const MarkSpaces& step) {
    std::vector<std::string_view> out;
    for (size_t i = 0; i < list.size(); ++i) {
      std::string& text = made.emplace_back(replace_all(list[i], " ", step.mark));
      const bool put = step.put == MarkSpaces::Put::always || (step.put == MarkSpaces::Put::first && i == 0 && at_beginning);
      if (put && !text.starts_with(step.mark)) text.insert(0, step.mark);
      std::string_view rest = text;
      while (step.split && !rest.empty()) {
        const size_t next = rest.find(step.mark, rest.starts_with(step.mark) ? step.mark.size() : 0);
        if (next == rest.npos) break;
        out.push_back(rest.substr(0, next));
        rest.remove_prefix(next);
      }
      if (!rest.empty()) out.push_back(rest);
    }
    list = std::move(out);
  }
};

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeRules rules) : rules_(std::move(rules)), as_is_(rules_.added_as_is), normalized_(rules_.added_normalized) {}

  std::string_view kind() const override { return "bpe"; }
  int64_t vocab_size() const override { return int64_t(rules_.pieces.size()); }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> out;
    PairMerger merger;
    std::vector<int32_t> tokens;
    const auto token = [&](int32_t id) { out.push_back(id); };
    as_is_.each(text, [&](std::string_view stretch, size_t offset) {
      const std::string normal = normalized(stretch);
      normalized_.each(normal, [&](std::string_view part, size_t inner) {
        Words words{.list = {part}, .made = {}, .at_beginning = offset == 0 && inner == 0};
        for (const WordStep& step : rules_.words) std::visit([&](const auto& s) { words.apply(s); }, step);
        for (const std::string_view word : words.list) {
          tokens.clear();
          encode_word(word, tokens, merger);
          out.insert(out.end(), tokens.begin(), tokens.end());
        }
      }, token);
    }, token);
    return out;
  }

  std::string piece(int32_t token, int32_t previous) const override {
    check_token(kind(), token, vocab_size());
    const std::string& text = rules_.pieces[size_t(token)];
    const bool starts = previous == -1 || previous == rules_.begin;
    const size_t spaces = std::min(text.find_first_not_of(' '), text.size());
    return text.substr(starts ? std::min(spaces, size_t(rules_.stripped_spaces)) : 0);
  }
  std::optional<int32_t> begin_token() const override { return rules_.begin; }
  std::vector<int32_t> end_tokens() const override { return rules_.ends; }

 private:
  std::string normalized(std::string_view text) const {
    std::string out(text);
    for (const NormalizerStep& step : rules_.normalizer) {
      if (const auto* prepend = std::get_if<Prepend>(&step)) {
        if (!out.empty()) out.insert(0, prepend->text);
      } else {
        const auto& replace = std::get<Replace>(step);
        out = replace_all(out, replace.from, replace.to);
      }
    }
    return out;
  }

  void encode_word(std::string_view word, std::vector<int32_t>& tokens, PairMerger& merger) const {
    std::string key(word);
    if (rules_.ignore_merges)
      if (const auto it = rules_.tokens.find(key); it != rules_.tokens.end()) return tokens.push_back(it->second);
    bool after_unknown = false;
    const auto unknown = [&] {
      if (rules_.unknown && !(after_unknown && rules_.fuse_unknown)) tokens.push_back(*rules_.unknown);
      after_unknown = true;
    };
    for (size_t at = 0; at < word.size();) {
      const size_t length = rules_.byte_level ? 1 : std::max<size_t>(utf8_character(word.substr(at)), 1);
      const std::string_view character = word.substr(at, length);
      at += length;
      const auto byte_token = [&](char c) { return rules_.byte_tokens[static_cast<unsigned char>(c)]; };
      const auto has_token = [&](char c) { return byte_token(c) >= 0; };
      const auto found = rules_.byte_level ? rules_.tokens.end() : rules_.tokens.find(key.assign(character));
      if (found != rules_.tokens.end()) {
        tokens.push_back(found->second);
      } else if ((rules_.byte_level || rules_.byte_fallback) && std::all_of(character.begin(), character.end(), has_token)) {
        std::transform(character.begin(), character.end(), std::back_inserter(tokens), byte_token);
      } else {
        unknown();
        continue;
      }
      after_unknown = false;
    }
    merger.run(tokens, [&](int32_t a, int32_t b) -> const Join* {
      const auto it = rules_.merges.find({a, b});
      return it == rules_.merges.end() ? nullptr : &it->second;
    });
  }

  const BpeRules rules_;
  const Finder as_is_, normalized_;
};

}  // namespace

TokenizerPtr read_bpe(const std::string& name, std::string_view bytes, std::string_view tokenizer_config, std::string_view generation_config) {
  return std::make_shared<const BpeTokenizer>(read_bpe_rules(name, bytes, tokenizer_config, generation_config));
}

}  // namespace spool::train::detail
