#pragma once
// JSON with errors that name the file and the key. Private to the tokenizers.
#include <spool/tensor/detail/safetensors_header.h>
#include <spool/tensor/error.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "train/tokenizer_bpe.h"

namespace spool::train::detail {

using spool::detail::shown;

/// A place in a JSON file: a value, the file's name and the keys that lead there. A null counts as absent.
class JsonPlace {
 public:
  JsonPlace(const std::string& file, const nlohmann::json* value, std::string path = {}) : file_(&file), value_(value), path_(std::move(path)) {}

  template <class... Args> [[noreturn]] void refuse(const Args&... args) const {
    fail<IoError>(*file_, ": ", path_.empty() ? "" : path_ + ": ", args...);
  }
  explicit operator bool() const { return value_ && !value_->is_null(); }
  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return *file_; }

  JsonPlace operator[](const char* key) const {
    const bool there = value_ && value_->is_object() && value_->contains(key);
    return {*file_, there ? &value_->at(key) : nullptr, path_.empty() ? key : path_ + "." + key};
  }
  const JsonPlace& object() const { return need(value_ && value_->is_object(), "an object"); }
  const JsonPlace& array() const { return need(value_ && value_->is_array(), "an array"); }
  std::string text() const { return need(value_ && value_->is_string(), "text").value_->get<std::string>(); }
  bool flag(bool otherwise) const { return *this ? need(value_->is_boolean(), "true or false").value_->get<bool>() : otherwise; }
  std::string text_or(std::string otherwise) const { return *this ? text() : otherwise; }
  /// An integer from 0 to `most`.
  int64_t count(int64_t most) const {
    need(value_ && value_->is_number_integer(), "an integer");
    if (value_->is_number_unsigned() ? value_->get<uint64_t>() > uint64_t(most) : value_->get<int64_t>() < 0) refuse("is ", value_->dump(), "; from 0 to ", most, " is possible");
    return value_->get<int64_t>();
  }
  /// Each element of an array: f(place).
  template <class F> void each(const F& f) const {
    array();
    for (size_t i = 0; i < value_->size(); ++i) f(JsonPlace(*file_, &(*value_)[i], path_ + "[" + std::to_string(i) + "]"));
  }

 private:
  const JsonPlace& need(bool fits, std::string_view what) const {
    if (!*this) refuse("is missing; ", what, " is needed");
    if (!fits) refuse("is ", value_->type_name(), " where ", what, " is needed");
    return *this;
  }
  const std::string* file_;
  const nlohmann::json* value_;
  std::string path_;
};

/// The object in a text, nested at most 64 deep. Throws IoError.
nlohmann::json parse_json(const std::string& file, std::string_view text);

/// How a vocabulary spells bytes as characters (GPT-2's table): printable ones as themselves, the others from U+0100 on, in order.
class ByteAlphabet {
 public:
  ByteAlphabet();
  std::string spelling(uint8_t byte) const { return spellings_[byte]; }
  /// The bytes that a text of that alphabet spells, or nothing.
  std::optional<std::string> bytes(std::string_view text) const;

 private:
  std::array<std::string, 256> spellings_;
  std::unordered_map<std::string, uint8_t> bytes_;
};

/// The parts of a file in the order in which they are read. `vocabulary`: ids of the model's tokens and the added ones, as the file spells them.
using Vocabulary = std::unordered_map<std::string, int32_t>;
void read_words(BpeRules& rules, const JsonPlace& file);
Vocabulary read_vocabulary(BpeRules& rules, const JsonPlace& file);
void read_decoder(BpeRules& rules, const JsonPlace& file, const Vocabulary& vocabulary);
void read_marks(BpeRules& rules, const JsonPlace& file, const Vocabulary& vocabulary, std::string_view tokenizer_config, std::string_view generation_config);

}  // namespace spool::train::detail
