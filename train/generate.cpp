#include "train/generate.h"

#include <spool/autograd/tape.h>
#include <spool/ops/slice.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <array>

namespace spool::train {
namespace {

/// A prompt's pieces are as long as keeps their logits at 16 MiB.
int64_t piece_length(int64_t vocab) { return std::clamp<int64_t>((int64_t(1) << 22) / vocab, 16, 1024); }

std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, std::string_view prompt) {
  std::vector<int32_t> out;
  if (const auto begin = tokenizer.begin_token()) out.push_back(*begin);
  const auto text = tokenizer.encode(prompt.empty() && out.empty() ? "\n" : prompt);
  out.insert(out.end(), text.begin(), text.end());
  if (out.empty()) out.push_back(0);
  return out;
}

}  // namespace

void GenerateOptions::validate() const {
  sampling.validate();
  if (tokens < 0) fail<ConfigError>("--tokens: must be 0 or above, got ", tokens);
  for (const std::string& text : stop)
    if (text.empty()) fail<ConfigError>("--stop: is empty; give the text to stop at");
}

std::string_view ending_name(Ending ending) {
  constexpr std::array<std::string_view, 4> names{"tokens", "stop", "end token", "positions"};
  return names[size_t(ending)];
}

std::string StopTexts::feed(std::string_view piece) {
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& text : texts_) first = std::min(first, held_.find(text));
  if (first != std::string::npos) {
    found_ = true;
    held_.resize(first);
    return std::exchange(held_, {});
  }
  size_t keep = 0;  // the longest end that begins a stop text
  for (const std::string& text : texts_)
    for (size_t n = std::min(text.size() - 1, held_.size()); n > keep; --n)
      if (held_.ends_with(std::string_view(text).substr(0, n))) keep = n;
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

Generated generate(const nn::LanguageModel& model, const Tokenizer& tokenizer, std::string_view prompt, const GenerateOptions& options,
                   const std::function<void(std::string_view)>& emit) {
  options.validate();
  std::vector<int32_t> seen = prompt_tokens(tokenizer, prompt);
  Generated out{.prompt_tokens = int64_t(seen.size())};
  const int64_t most = model.max_positions();
  if (most && out.prompt_tokens > most) fail<ConfigError>("--prompt: has ", out.prompt_tokens, " tokens, but the model ", most, " positions; give a shorter one");
  const int64_t wanted = most ? std::min(options.tokens, most - out.prompt_tokens) : options.tokens;
  if (wanted < options.tokens) out.ending = Ending::positions;

  const NoGrad quiet;
  Generator random(RandomKey(options.seed).fold("generate"));
  const auto state = model.begin(1, out.prompt_tokens + wanted);
  const auto known = size_t(std::min(tokenizer.vocab_size(), model.vocab_size()));  // a model's vocabulary may be padded
  std::vector<double> logits;
  const auto feed = [&](std::span<const int32_t> ids) {
    const Tensor tokens = empty({1, int64_t(ids.size())}, Dtype::i32);
    std::ranges::copy(ids, tokens.data<int32_t>());
    const Tensor all = model.decode(*state, tokens);
    logits = contiguous_copy(slice(all, 1, all.size(1) - 1, all.size(1))).to_vector<double>();
    logits.resize(known);
  };
  const auto piece = size_t(piece_length(model.vocab_size()));
  for (size_t at = 0; at < seen.size(); at += piece) feed(std::span(seen).subspan(at, std::min(piece, seen.size() - at)));

  const std::vector<int32_t> ends = tokenizer.end_tokens();
  StopTexts stops(options.stop);
  while (out.tokens < wanted) {
    const int32_t token = draw(candidates(logits, options.sampling, seen), random);
    ++out.tokens;
    if (std::ranges::find(ends, token) != ends.end()) {
      out.ending = Ending::end_token;
      break;
    }
    if (const std::string text = stops.feed(tokenizer.piece(token, seen.back())); !text.empty()) emit(text);
    if (stops.found()) {
      out.ending = Ending::stop;
      break;
    }
    seen.push_back(token);
    if (out.tokens < wanted) feed({&token, 1});
  }
  if (const std::string text = stops.rest(); !text.empty()) emit(text);
  return out;
}

}  // namespace spool::train
