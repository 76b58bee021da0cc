// The model of a tokenizer.json: its tokens, merges and added tokens; and the tokens that begin and end a text.
#include <algorithm>

#include "train/tokenizer_json.h"

namespace spool::train::detail {
namespace {

void refuse_other_models(const JsonPlace& model) {
  const std::string type = model.object()["type"].text_or(model["merges"] ? "BPE" : "");
  if (type != "BPE") model.refuse("the model ", shown(type), " is not supported; BPE is");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model[key].text_or("").empty()) model[key].refuse("is ", shown(model[key].text()), "; prefixes and suffixes of words are not supported");
  if (const JsonPlace dropout = model["dropout"]; dropout && dropout.value() != 0) dropout.refuse("random merges are not supported; set it to null");
}

/// Ids, without gaps that would cost memory, none twice.
void read_ids(const JsonPlace& file, Vocabulary& out, BpeRules& rules) {
  const JsonPlace vocab = file["model"]["vocab"].object(), added = file["added_tokens"];
  const int64_t entries = int64_t(vocab.value().size()) + (added ? int64_t(added.array().value().size()) : 0);
  const int64_t most = 2 * entries + 1000;
  std::unordered_map<int32_t, std::string> names;
  int32_t highest = -1;
  const auto add = [&](const JsonPlace& place, const std::string& text, const JsonPlace& id_place) {
    const auto id = int32_t(id_place.count(std::min<int64_t>(most, INT32_MAX - 1)));
    if (const auto known = out.find(text); known != out.end() && known->second != id) place.refuse("the token ", shown(text), " has the ids ", known->second, " and ", id);
    const auto [it, fresh] = names.emplace(id, text);
    if (!fresh && it->second != text) place.refuse("the tokens ", shown(it->second), " and ", shown(text), " have the same id ", id);
    out.emplace(text, id);
    highest = std::max(highest, id);
  };
  for (const auto& [text, id] : vocab.value().items()) add(vocab, text, JsonPlace(file.file(), &id, "model.vocab"));
  if (added) added.each([&](const JsonPlace& token) { add(token, token.object()["content"].text(), token["id"]); });
  if (highest < 0) vocab.refuse("there are no tokens");
  rules.pieces.resize(size_t(highest) + 1);
}

void read_added_tokens(BpeRules& rules, const JsonPlace& added, const Vocabulary& vocabulary) {
  if (!added) return;
  added.each([&](const JsonPlace& token) {
    std::string text = token["content"].text();
    if (text.empty()) return;  // matches nothing
    if (token["single_word"].flag(false)) token.refuse("the token ", shown(text), " is to be matched as a single word, which is not supported");
    const bool special = token["special"].flag(false), normalized = token["normalized"].flag(!special);
    const int32_t id = vocabulary.at(text);
    if (normalized) {
      for (const NormalizerStep& step : rules.normalizer) {
        const auto* replace = std::get_if<Replace>(&step);
        text = replace ? replace_all(text, replace->from, replace->to) : std::get<Prepend>(step).text + text;
      }
    }
    if (text.empty()) return;
    (normalized ? rules.added_normalized : rules.added_as_is).push_back({std::move(text), id, token["lstrip"].flag(false), token["rstrip"].flag(false)});
  });
}

std::pair<std::string, std::string> pair_of(const JsonPlace& merge) {
  if (merge.value().is_array()) {
    std::vector<std::string> parts;
    merge.each([&](const JsonPlace& part) { parts.push_back(part.text()); });
    if (parts.size() != 2) merge.refuse("a merge joins two tokens, not ", parts.size());
    return {parts[0], parts[1]};
  }
  const std::string text = merge.text();
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) merge.refuse("a merge is two tokens with a space between, not ", shown(text));
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(BpeRules& rules, const JsonPlace& merges, const JsonPlace& vocab) {
  const auto& known = vocab.value();
  const auto id = [&](const JsonPlace& merge, const std::string& text) {
    const auto it = known.find(text);
    if (it == known.end()) merge.refuse("the token ", shown(text), " is not in the vocabulary");
    return it->get<int32_t>();
  };
  double rank = 0;
  merges.each([&](const JsonPlace& merge) {
    const auto [a, b] = pair_of(merge);
    const int32_t left = id(merge, a), right = id(merge, b);
    rules.merges.insert_or_assign({left, right}, Join{rank++, id(merge, a + b)});
  });
}

/// A token named by its text, or by an object with `content`.
std::optional<int32_t> named_token(const JsonPlace& place, const Vocabulary& vocabulary) {
  if (!place) return {};
  const std::string text = place.value().is_object() ? place["content"].text() : place.text();
  const auto it = vocabulary.find(text);
  return it == vocabulary.end() ? std::nullopt : std::optional(it->second);
}

/// The special token at the beginning (or end) of the template for one text; templates may lie in a Sequence of processors.
std::optional<int32_t> template_token(const JsonPlace& processor, bool first, const Vocabulary& vocabulary) {
  if (!processor || !processor.value().is_object()) return {};
  if (const JsonPlace list = processor["processors"]) {
    std::optional<int32_t> found;
    list.each([&](const JsonPlace& p) { found = found ? found : template_token(p, first, vocabulary); });
    return found;
  }
  const JsonPlace single = processor["single"];
  if (!single || !single.value().is_array() || single.value().empty()) return {};
  std::optional<int32_t> edge;
  const size_t wanted = first ? 0 : single.value().size() - 1;
  size_t i = 0;
  single.each([&](const JsonPlace& item) {
    if (i++ == wanted && item["SpecialToken"]) edge = named_token(item["SpecialToken"]["id"], vocabulary);
  });
  return edge;
}

}  // namespace

Vocabulary read_vocabulary(BpeRules& rules, const JsonPlace& file) {
  const JsonPlace model = file["model"];
  refuse_other_models(model);
  Vocabulary out;
  read_ids(file, out, rules);
  read_added_tokens(rules, file["added_tokens"], out);
  read_merges(rules, model["merges"], model["vocab"]);
  rules.ignore_merges = model["ignore_merges"].flag(false);
  rules.fuse_unknown = model["fuse_unk"].flag(false);
  rules.byte_fallback = model["byte_fallback"].flag(false);
  if (const JsonPlace unknown = model["unk_token"]) {
    rules.unknown = named_token(unknown, out);
    if (!rules.unknown) unknown.refuse("the token ", shown(unknown.text()), " is not in the vocabulary");
  }
  const ByteAlphabet alphabet;
  for (const auto& [text, id] : model["vocab"].value().items()) {
    if (!rules.byte_level) rules.tokens.emplace(text, id.get<int32_t>());
    else if (auto bytes = alphabet.bytes(text)) rules.tokens.emplace(std::move(*bytes), id.get<int32_t>());
  }
  for (int b = 0; b < 256; ++b) {
    const auto it = rules.tokens.find(rules.byte_level ? std::string(1, char(b)) : byte_name(uint8_t(b)));
    rules.byte_tokens[size_t(b)] = it == rules.tokens.end() ? -1 : it->second;
  }
  return out;
}

// What says most about a text's beginning comes first: the template, which is what the reference puts there; then tokenizer_config.json,
// unless it says that none is put; then generation_config.json. Ends are those of both files; only without any, the template's, and only
// without one, tokens that are added under one of the usual names.
void read_marks(BpeRules& rules, const JsonPlace& file, const Vocabulary& vocabulary, std::string_view tokenizer_config, std::string_view generation_config) {
  const std::string directory = file.file().substr(0, file.file().rfind('/') + 1);
  const std::string tokenizer_name = directory + "tokenizer_config.json", generation_name = directory + "generation_config.json";
  const nlohmann::json none, tokenizer = tokenizer_config.empty() ? none : parse_json(tokenizer_name, tokenizer_config),
                             generation = generation_config.empty() ? none : parse_json(generation_name, generation_config);
  const JsonPlace named(tokenizer_name, &tokenizer), generated(generation_name, &generation);
  const auto size = int64_t(rules.pieces.size());
  const auto end = [&](std::optional<int32_t> id) {
    if (id && std::find(rules.ends.begin(), rules.ends.end(), *id) == rules.ends.end()) rules.ends.push_back(*id);
  };
  const auto usual = [&](std::initializer_list<const char*> names) -> std::optional<int32_t> {
    for (const char* name : names)
      if (const auto it = vocabulary.find(name); it != vocabulary.end()) return it->second;
    return {};
  };

  rules.begin = template_token(file["post_processor"], true, vocabulary);
  if (!rules.begin && named) {
    if (named["add_bos_token"].flag(true)) rules.begin = named_token(named["bos_token"], vocabulary);
  } else if (!rules.begin && generated["bos_token_id"]) {
    rules.begin = int32_t(generated["bos_token_id"].count(size - 1));
  } else if (!rules.begin) {
    rules.begin = usual({"<|begin_of_text|>", "<s>", "<bos>"});
  }

  end(named_token(named["eos_token"], vocabulary));
  if (const JsonPlace ids = generated["eos_token_id"]) {
    if (ids.value().is_array()) ids.each([&](const JsonPlace& id) { end(int32_t(id.count(size - 1))); });
    else end(int32_t(ids.count(size - 1)));
  }
  if (rules.ends.empty()) end(template_token(file["post_processor"], false, vocabulary));
  if (rules.ends.empty()) end(usual({"</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>"}));
}

}  // namespace spool::train::detail
