// SentencePiece's tokenizer.model, read and run by its own library. Without the library such files are refused with its package's name.
//
// Added here: the library turns each byte that is no UTF-8 into U+FFFD; where the vocabulary spells that with byte tokens, the byte's own
// token takes their place, so that any bytes come back from decode.
#include <spool/tensor/error.h>

#include <algorithm>
#include <array>
#include <exception>

#include "train/tokenizer_parts.h"

#ifdef SPOOL_SENTENCEPIECE
#include <sentencepiece_processor.h>
#endif

namespace spool::train::detail {

#ifndef SPOOL_SENTENCEPIECE

TokenizerPtr read_sentencepiece(const std::string& name, std::string_view) {
  fail<IoError>(name, ": is a SentencePiece model, and this program was built without the library; install libsentencepiece-dev and build again");
}

#else

namespace {

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::string& name, std::string_view bytes) {
    load(name, bytes);
    byte_tokens_.fill(-1);
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      std::string text = processor_.IdToPiece(id);
      const auto byte = byte_of_name(text);
      if (processor_.IsControl(id)) {
        text.clear();
      } else if (processor_.IsUnknown(id)) {
        text = processor_.DecodeIds({id});
      } else if (processor_.IsByte(id) && byte) {
        text.assign(1, char(*byte));
        byte_tokens_[*byte] = id;
      } else {
        text = replace_all(text, space_mark, " ");
      }
      pieces_.push_back(std::move(text));
    }
    // Whether a space is put before a text is not to be asked for, but to be seen.
    const auto probe = processor_.EncodeAsPieces("a");
    adds_space_ = !probe.empty() && std::string_view(probe.front()).starts_with(space_mark);
  }

  std::string_view kind() const override { return "sentencepiece"; }
  int64_t vocab_size() const override { return int64_t(pieces_.size()); }

  std::vector<int32_t> encode(std::string_view text) const override {
    sentencepiece::ImmutableSentencePieceText result;
    if (const auto status = processor_.Encode(text, result.mutable_proto()); !status.ok())
      fail<IoError>("SentencePiece cannot encode ", text.size(), " bytes: ", one_line(status.ToString()));
    std::vector<int32_t> out;
    out.reserve(result.pieces_size());
    for (size_t i = 0; i < result.pieces_size(); ++i) {
      const auto piece = result.pieces(int(i));
      const std::string& surface = piece.surface();
      out.push_back(int32_t(piece.id()));
      // The last of U+FFFD's three byte tokens covers the byte that it stands for.
      if (surface.size() != 1 || static_cast<unsigned char>(surface[0]) < 0x80 || out.back() != byte_tokens_[0xbd]) continue;
      const int32_t byte = byte_tokens_[static_cast<unsigned char>(surface[0])];
      if (byte < 0 || out.size() < 3) continue;
      out.resize(out.size() - 3);
      out.push_back(byte);
    }
    return out;
  }

  std::string piece(int32_t token, int32_t previous) const override {
    check_token(kind(), token, vocab_size());
    const std::string& text = pieces_[size_t(token)];
    const bool starts = previous == -1 || previous == processor_.bos_id();
    return text.substr(starts && adds_space_ && text.starts_with(' ') ? 1 : 0);
  }
  std::optional<int32_t> begin_token() const override { return existing(processor_.bos_id()); }
  std::vector<int32_t> end_tokens() const override {
    const auto end = existing(processor_.eos_id());
    return end ? std::vector<int32_t>{*end} : std::vector<int32_t>{};
  }

 private:
  static std::optional<int32_t> existing(int id) { return id < 0 ? std::nullopt : std::optional<int32_t>(id); }
  static std::string one_line(std::string text) {
    std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\0'; }, ' ');
    return text.substr(0, 500);
  }
  /// Some damage the library reports, some it throws.
  void load(const std::string& name, std::string_view bytes) {
    std::string problem;
    try {
      if (const auto status = processor_.LoadFromSerializedProto(bytes); !status.ok()) problem = status.ToString();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (!problem.empty()) fail<IoError>(name, ": SentencePiece cannot read it: ", one_line(problem));
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::vector<std::string> pieces_;
  std::array<int32_t, 256> byte_tokens_{};
  bool adds_space_ = false;
};

}  // namespace

TokenizerPtr read_sentencepiece(const std::string& name, std::string_view bytes) {
  return std::make_shared<const SentencePieceTokenizer>(name, bytes);
}

#endif

}  // namespace spool::train::detail
