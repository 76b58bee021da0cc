#pragma once
// A tokenizer and a model made by hand.
#include <spool/nn/language_model.h>
#include <spool/nn/module.h>
#include <spool/tensor/error.h>

#include <map>
#include <string>
#include <vector>

#include "train/tokenizer.h"

namespace spool::train::testing {

/// Ids are positions in a list of pieces; a text is taken apart into the longest pieces, and what begins none is passed over. A first piece
/// loses its leading space, as in SentencePiece. "<s>" begins and "</s>" ends a text where the list has them.
class ListTokenizer : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::string_view kind() const override { return "list"; }
  int64_t vocab_size() const override { return int64_t(pieces_.size()); }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> out;
    while (!text.empty()) {
      size_t best = 0, length = 0;
      for (size_t i = 0; i < pieces_.size(); ++i)
        if (!control(int32_t(i)) && pieces_[i].size() > length && text.starts_with(pieces_[i])) best = i, length = pieces_[i].size();
      if (length) out.push_back(int32_t(best));
      text.remove_prefix(std::max<size_t>(length, 1));
    }
    return out;
  }
  std::string piece(int32_t token, int32_t previous) const override {
    if (token < 0 || token >= vocab_size()) fail<IndexError>("list: no token ", token);
    if (control(token)) return "";
    std::string out = pieces_[size_t(token)];
    if (previous < 0 && out.starts_with(' ')) out.erase(0, 1);
    return out;
  }
  std::optional<int32_t> begin_token() const override { return find("<s>"); }
  std::vector<int32_t> end_tokens() const override {
    const auto end = find("</s>");
    return end ? std::vector<int32_t>{*end} : std::vector<int32_t>{};
  }
  std::optional<int32_t> find(std::string_view piece) const {
    for (size_t i = 0; i < pieces_.size(); ++i)
      if (pieces_[i] == piece) return int32_t(i);
    return {};
  }

 private:
  bool control(int32_t token) const { return pieces_[size_t(token)].starts_with('<'); }
  std::vector<std::string> pieces_;
};

/// Says a script: after `prompt` tokens its k-th choice is script[k], by a lead of 10 in the logits. Remembers how it was fed.
class ScriptedModel : public nn::LanguageModel {
 public:
  ScriptedModel(int64_t vocab, std::vector<int32_t> script, int64_t prompt, int64_t positions = 0)
      : ScriptedModel(nn::root(), vocab, std::move(script), prompt, positions) {}
  int64_t vocab_size() const override { return vocab_; }
  int64_t max_positions() const override { return positions_; }
  Tensor training_loss(const nn::TokenBatch&, const nn::LossOptions&) const override { return zeros({}); }
  std::unique_ptr<nn::DecodeState> begin(int64_t, int64_t most) const override {
    capacity = most;
    return std::make_unique<nn::DecodeState>();
  }
  Tensor decode(nn::DecodeState& state, const Tensor& tokens) const override {
    const auto ids = tokens.to_vector<int32_t>();
    fed.insert(fed.end(), ids.begin(), ids.end());
    pieces.push_back(tokens.size(1));
    state.position += tokens.size(1);
    Tensor logits = zeros({1, tokens.size(1), vocab_});
    const int64_t next = state.position - prompt_;
    if (next >= 0 && next < int64_t(script_.size())) logits.data<float>()[(tokens.size(1) - 1) * vocab_ + script_[size_t(next)]] = 10;
    return logits;
  }
  mutable std::vector<int32_t> fed;
  mutable std::vector<int64_t> pieces;
  mutable int64_t capacity = 0;

 private:
  ScriptedModel(nn::Slot at, int64_t vocab, std::vector<int32_t> script, int64_t prompt, int64_t positions)
      : LanguageModel(at), vocab_(vocab), script_(std::move(script)), prompt_(prompt), positions_(positions) {}
  int64_t vocab_;
  std::vector<int32_t> script_;
  int64_t prompt_, positions_;
};

}  // namespace spool::train::testing
