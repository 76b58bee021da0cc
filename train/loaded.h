#pragma once
// A trained model with its tokenizer, from whatever place a user names.
#include <spool/nn/language_model.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "train/config.h"
#include "train/tokenizer.h"

namespace spool::train {

struct LoadedModel {
  RunConfig config;
  std::unique_ptr<nn::LanguageModel> model;
  TokenizerPtr tokenizer;  ///< Never null.
  int64_t step = 0;        ///< Of the checkpoint, for a run.
  std::string notice = {};  ///< Something the user should read, or empty.
};

/// From a run's directory (its newest checkpoint), a Hugging Face directory, or a llama2.c .bin file. The tokenizer is the given file's, else
/// the one beside the weights, else bytes where the vocabulary has room for them. Throws IoError or ConfigError, one line.
LoadedModel load_model(const std::filesystem::path& place, const std::filesystem::path& tokenizer = {});

/// What to say when weights made elsewhere are used with bytes for want of a tokenizer.
inline constexpr std::string_view no_tokenizer_notice = "no tokenizer beside these weights, so a token is a byte; give theirs with --tokenizer";

/// The tokenizer that a configuration names; bytes if it names none.
TokenizerPtr tokenizer_of(const RunConfig& config);
/// Whether `open_tokenizer` finds one in a directory.
bool names_tokenizer(const std::filesystem::path& directory);
/// Copies a tokenizer's files into `directory` under the name by which `open_tokenizer` finds it there; what is there already stays. Bytes have none.
void keep_tokenizer(const std::string& source, const Tokenizer& tokenizer, const std::filesystem::path& directory);

}  // namespace spool::train
