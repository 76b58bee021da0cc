// tokenizer.json: the parts that bear on tokenization are normalizer, pre_tokenizer, added_tokens, model and decoder. Source: the format as
// github.com/huggingface/tokenizers (0.2x) writes it. `truncation` and `padding` are about batches and are passed over; a post_processor
// only adds begin and end tokens. Everything else that is not known is refused by name, since it would change the tokens silently.
#include <algorithm>

#include "train/tokenizer_json.h"

namespace spool::train::detail {
namespace {

using nlohmann::json;

// GPT-2's words: English endings, letters, digits and other characters with the space before them, and white space, whose last character
// is left to what follows.
constexpr const char* byte_level_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string type_of(const JsonPlace& place) { return place.object()["type"].text(); }

void read_normalizer(BpeRules& rules, const JsonPlace& place) {
  if (!place) return;
  const std::string type = type_of(place);
  if (type == "Sequence") {
    place["normalizers"].each([&](const JsonPlace& step) { read_normalizer(rules, step); });
  } else if (type == "Prepend") {
    rules.normalizer.push_back(Prepend{place["prepend"].text()});
  } else if (type == "Replace") {
    if (!place["pattern"]["String"]) place.refuse("replaces an expression; only replacing a text is supported");
    rules.normalizer.push_back(Replace{place["pattern"]["String"].text(), place["content"].text()});
  } else {
    place.refuse("the normalizer ", shown(type), " is not supported; supported are Prepend, Replace and Sequence");
  }
}

void read_pattern_step(BpeRules& rules, const JsonPlace& place) {
  const JsonPlace expression = place["pattern"]["Regex"], literal = place["pattern"]["String"];
  if (!expression && !literal) place.refuse("a Split needs a pattern, Regex or String");
  const std::string behavior = place["behavior"].text();
  const bool removes = behavior == "Removed", invert = place["invert"].flag(false);
  if (!removes && behavior != "Isolated") place.refuse("the behavior ", shown(behavior), " is not supported; supported are Isolated and Removed");
  const SplitPattern pattern(place.file(), (expression ? expression : literal).text(), !expression);
  rules.words.push_back(SplitStep{pattern, !removes || invert, !removes || !invert});
}

MarkSpaces::Put put_of(const JsonPlace& place) {
  const std::string scheme = place["prepend_scheme"].text_or(place["add_prefix_space"].flag(true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") place.refuse("the prepend_scheme ", shown(scheme), " is not supported");
  return scheme == "always" ? MarkSpaces::Put::always : scheme == "first" ? MarkSpaces::Put::first : MarkSpaces::Put::never;
}

void read_word_step(BpeRules& rules, const JsonPlace& place) {
  if (!place) return;
  const std::string type = type_of(place);
  if (rules.byte_level) place.refuse("the pre_tokenizer ", shown(type), " comes after ByteLevel, which must be the last");
  if (type == "Sequence") {
    place["pretokenizers"].each([&](const JsonPlace& step) { read_word_step(rules, step); });
  } else if (type == "ByteLevel") {
    if (place["add_prefix_space"].flag(true)) rules.words.push_back(SpaceBefore{});
    if (place["use_regex"].flag(true)) rules.words.push_back(SplitStep{SplitPattern(place.file(), byte_level_pattern)});
    rules.byte_level = true;
  } else if (type == "Split") {
    read_pattern_step(rules, place);
  } else if (type == "Digits") {
    rules.words.push_back(SplitStep{SplitPattern(place.file(), place["individual_digits"].flag(false) ? R"(\p{N})" : R"(\p{N}+)")});
  } else if (type == "Metaspace") {
    const std::string mark = place["replacement"].text_or(std::string(space_mark));
    if (mark.empty()) place.refuse("the replacement of a space is empty");
    rules.words.push_back(MarkSpaces{mark, put_of(place), place["split"].flag(true)});
  } else {
    place.refuse("the pre_tokenizer ", shown(type), " is not supported; supported are ByteLevel, Split, Digits, Metaspace and Sequence");
  }
}

/// How the decoder changes a token's text.
struct Decoder {
  bool byte_level = false, byte_fallback = false, fused = false;
  std::vector<Replace> replace;
  int64_t stripped = 0;
};

void read_decoder_step(Decoder& decoder, const JsonPlace& place) {
  if (!place) return;
  const std::string type = type_of(place);
  if (type == "Sequence") {
    place["decoders"].each([&](const JsonPlace& step) { read_decoder_step(decoder, step); });
  } else if (type == "ByteLevel") {
    decoder.byte_level = true;
  } else if (type == "ByteFallback") {
    decoder.byte_fallback = true;
  } else if (type == "Fuse") {
    decoder.fused = true;
  } else if (type == "Replace") {
    if (!place["pattern"]["String"]) place.refuse("replaces an expression; only replacing a text is supported");
    decoder.replace.push_back({place["pattern"]["String"].text(), place["content"].text()});
  } else if (type == "Metaspace") {
    decoder.replace.push_back({place["replacement"].text_or(std::string(space_mark)), " "});
    if (put_of(place) != MarkSpaces::Put::never) decoder.stripped = 1;
  } else if (type == "Strip") {
    constexpr int64_t most = 1000;
    if (place["content"].text() != " " || place["stop"].count(most) != 0 || !decoder.fused)
      place.refuse("only stripping spaces at the beginning of the whole text, after Fuse, is supported");
    decoder.stripped = place["start"].count(most);
  } else {
    place.refuse("the decoder ", shown(type), " is not supported; supported are ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace and Sequence");
  }
}

}  // namespace

void read_words(BpeRules& rules, const JsonPlace& file) {
  read_normalizer(rules, file["normalizer"]);
  read_word_step(rules, file["pre_tokenizer"]);
}

void read_decoder(BpeRules& rules, const JsonPlace& file, const Vocabulary& vocabulary) {
  Decoder decoder{.byte_level = rules.byte_level && !file["decoder"]};
  read_decoder_step(decoder, file["decoder"]);
  rules.stripped_spaces = decoder.stripped;
  const ByteAlphabet alphabet;
  for (const auto& [text, id] : vocabulary) {
    std::string piece = text;
    for (const Replace& step : decoder.replace) piece = replace_all(piece, step.from, step.to);
    if (decoder.byte_level) piece = alphabet.bytes(piece).value_or(piece);
    if (const auto byte = byte_of_name(piece); byte && decoder.byte_fallback) piece.assign(1, char(*byte));
    rules.pieces[size_t(id)] = std::move(piece);
  }
  // Added tokens stand for their own text, special ones for none.
  if (!file["added_tokens"]) return;
  file["added_tokens"].each([&](const JsonPlace& token) {
    rules.pieces[size_t(vocabulary.at(token["content"].text()))] = token["special"].flag(false) ? std::string() : token["content"].text();
  });
}

json parse_json(const std::string& file, std::string_view text) {
  constexpr int deepest = 64;
  // The parser takes a zero byte for the end of its input and would not look at what follows.
  if (const size_t zero = text.find('\0'); zero != text.npos) fail<IoError>(file, ": is not valid JSON at byte ", zero + 1);
  try {
    json out = json::parse(text.begin(), text.end(), [&](int depth, json::parse_event_t, json&) {
      if (depth > deepest) fail<IoError>(file, ": is nested more than ", deepest, " deep");
      return true;
    });
    if (!out.is_object()) fail<IoError>(file, ": is JSON, but not an object");
    return out;
  } catch (const json::parse_error& error) {
    fail<IoError>(file, ": is not valid JSON at byte ", error.byte);
  } catch (const json::exception&) {
    fail<IoError>(file, ": is not valid JSON: a number is out of range");
  }
}

ByteAlphabet::ByteAlphabet() {
  unsigned next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    const unsigned code = printable ? b : next++;
    std::string& text = spellings_[b];
    if (code < 0x80) {
      text = char(code);
    } else {
      text = {char(0xc0 | code >> 6), char(0x80 | (code & 0x3f))};
    }
    bytes_.emplace(text, uint8_t(b));
  }
}

std::optional<std::string> ByteAlphabet::bytes(std::string_view text) const {
  std::string out, character;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(utf8_character(text), 1);
    const auto it = bytes_.find(character.assign(text.substr(0, length)));
    if (it == bytes_.end()) return {};
    out += char(it->second);
    text.remove_prefix(length);
  }
  return out;
}

BpeRules read_bpe_rules(const std::string& name, std::string_view text, std::string_view tokenizer_config, std::string_view generation_config) {
  const json parsed = parse_json(name, text);
  const JsonPlace file(name, &parsed);
  BpeRules rules;
  read_words(rules, file);
  const Vocabulary vocabulary = read_vocabulary(rules, file);
  read_decoder(rules, file, vocabulary);
  read_marks(rules, file, vocabulary, tokenizer_config, generation_config);
  return rules;
}

}  // namespace spool::train::detail
