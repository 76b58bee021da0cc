// Layers of a configuration: the model type decides which keys there are; what a family does not have is refused by name.
#include "train/config.h"

#include "support.h"

namespace spool::train::testing {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;
RunConfig with(const Settings& settings, const std::string& preset = "enwik8-small", const fs::path& file = {}) {
  Layers layers{.preset = preset, .file = file, .hf = {}, .settings = {}};
  for (const auto& [key, text] : settings) layers.settings.push_back({key, text});
  return resolve(layers);
}
std::string refused(const Settings& settings, const std::string& preset = "", const fs::path& file = {}) {
  return message_of<ConfigError>([&] { with(settings, preset, file); });
}
#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Config, WithoutATypeItIsAPerformer) {
  const RunConfig config = with({{"model.d_model", "64"}});
  EXPECT_EQ(config.model.type, ModelType::performer);
  EXPECT_EQ(config.model.performer.d_model, 64);
  EXPECT_EQ(config.model.performer.ngram, 4);
}

TEST(Config, TheTypeDecidesWhichKeysThereAre) {
  const RunConfig config = with({{"model.hidden_size", "64"}, {"model.rope_scaling.factor", "2"}, {"model.type", "llama"}}, "");
  EXPECT_EQ(config.model.type, ModelType::llama);
  EXPECT_EQ(config.model.llama.hidden_size, 64);
  EXPECT_EQ(config.model.llama.rope_scaling.factor, 2);
  EXPECT_EQ(config.model.vocab(), 256);
  EXPECT_EQ(refused({{"model.d_model", "64"}, {"model.type", "llama"}}), "--set: unknown key 'model.d_model'; it belongs to model.type performer, and the type is llama");
  EXPECT_EQ(refused({{"model.vocab_size", "512"}}), "--set: unknown key 'model.vocab_size'; it belongs to model.type llama or gpt, and the type is performer");
  EXPECT_EQ(with({{"model.type", "gpt"}, {"model.n_embd", "64"}}, "").model.gpt.n_embd, 64);
  EXPECT_EQ(refused({{"model.rope_theta", "64"}}), "--set: unknown key 'model.rope_theta'; it belongs to model.type llama, and the type is performer");
  EXPECT_EQ(refused({{"model.hidden_sise", "64"}, {"model.type", "llama"}}), "--set: unknown key 'model.hidden_sise'; did you mean 'model.hidden_size'?");
  EXPECT_EQ(refused({{"model.d_modle", "64"}}), "--set: unknown key 'model.d_modle'; did you mean 'model.d_model'?");
  EXPECT_EQ(refused({{"model.type", "lama"}}).find("--set: model.type must be one of "), 0u);
}

TEST(Config, TheTypeIsFoundInAFileAndTheLastLayerWins) {
  const TemporaryDirectory dir;
  const auto file = dir.write("a.toml", "name = \"mine\"\n[model]\nhidden_size = 32\ntype = \"llama\"\n[model.rope_scaling]\nfactor = 3\n");
  EXPECT_EQ(with({}, "", file).model.llama.rope_scaling.factor, 3);
  EXPECT_EQ(refused({{"model.type", "performer"}}, "", file).find(file.string() + ":3:1: unknown key 'model.hidden_size'; it belongs to model.type llama, and the type is performer"), 0u);
  const auto section = dir.write("b.toml", "[model]\nd_model = 32\n[model.rope_scaling]\nfactor = 3\n");
  EXPECT_HAS(refused({}, "", section), ":3:8: unknown section 'model.rope_scaling'; it belongs to model.type llama");
  const auto wrong = dir.write("c.toml", "[model]\ntype = 3\n");
  EXPECT_HAS(refused({}, "", wrong), ":2:1: model.type must be one of ");
}

TEST(Config, WrittenOutAndReadBackItIsTheSame) {
  const TemporaryDirectory dir;
  for (const Settings& settings : {Settings{{"model.d_ff", "128"}}, Settings{{"model.type", "llama"}, {"model.rope_theta", "5e5"}, {"train.recompute", "block"}, {"train.dtype", "bf16"}}, Settings{{"model.type", "gpt"}}}) {
    const RunConfig config = with(settings, "");
    const std::string text = to_toml(fields_of(config));
    const RunConfig again = with({}, "", dir.write("config.toml", text));
    EXPECT_EQ(to_toml(fields_of(again)), text);
  }
}

TEST(Config, WhatAFamilyDoesNotHaveIsRefusedByName) {
  for (const auto& [key, value] : Settings{{"train.recompute", "block"}, {"train.loss_chunk", "64"}, {"train.feed_forward_chunk", "64"}})
    EXPECT_HAS(refused({{key, value}}), key + " = ");
  for (const auto& [key, value] : Settings{{"train.chunk", "64"}, {"train.mode", "full"}, {"train.state", "store"}})
    for (const char* type : {"llama", "gpt"}) EXPECT_HAS(refused({{key, value}, {"model.type", type}}), key + " = ");
  EXPECT_HAS(refused({{"train.accumulate", "0"}}), "train.accumulate must be at least 1");
  EXPECT_HAS(refused({{"train.dtype", "f16"}}), "one of f32, f64, bf16");
  EXPECT_HAS(refused({{"model.type", "llama"}, {"model.max_position_embeddings", "64"}, {"data.seq", "66"}}), "data.seq = 66 is too long");
  EXPECT_HAS(refused({{"model.type", "gpt"}, {"model.n_positions", "64"}, {"data.seq", "66"}}), "set model.n_positions higher");
  EXPECT_NO_THROW(with({{"model.type", "llama"}, {"model.max_position_embeddings", "64"}, {"data.seq", "65"}}, ""));
  EXPECT_HAS(refused({{"model.vocab", "100"}}), "model.vocab = 100 must be at least 256");
  EXPECT_HAS(refused({{"model.type", "llama"}, {"model.vocab_size", "100"}}), "model.vocab_size = 100 must be at least 256");
  EXPECT_EQ(with({{"model.vocab", "100"}, {"data.tokenizer", "somewhere"}}, "").model.vocab(), 100);
}

}  // namespace
}  // namespace spool::train::testing
