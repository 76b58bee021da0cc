// Models known by name: their published numbers of parameters, what their training state takes, and that planning them needs next to nothing.
#include "train/models.h"

#include <nlohmann/json.hpp>

#include "../../support.h"
#include "support.h"
#include "train/article.h"
#include "train/commands.h"
#include "train/presets.h"
#include "train/process_memory.h"
#include "train/step.h"

namespace spool::train::testing {
namespace {

RunConfig planned(const std::string& name, std::vector<Override> settings = {}) { return resolve({.preset = name, .file = {}, .hf = {}, .settings = std::move(settings), .plan = true}); }

TEST(KnownModels, HaveThePublishedNumbersOfParameters) {
  const std::map<std::string_view, int64_t> published{
      {"llama-2-7b", 6'738'415'616}, {"llama-2-13b", 13'015'864'320}, {"llama-2-70b", 68'976'648'192}, {"llama-3-8b", 8'030'261'248}, {"llama-3.2-1b", 1'235'814'400},
      {"tinyllama", 1'100'048'384},  {"mistral-7b", 7'241'732'096},   {"ring-3b", 3'426'473'600},      {"ring-7b", 6'738'415'616},    {"ring-13b", 13'015'864'320},
      {"ring-30b", 32'528'943'616},  {"ring-65b", 65'285'660'672}};
  EXPECT_EQ(known_models().size(), published.size());
  for (const KnownModel& model : known_models()) {
    const RunConfig config = planned(std::string(model.name));
    EXPECT_EQ(make_model(config, meta())->parameter_count(), published.at(model.name)) << model.name;
    EXPECT_EQ(closed_form(config, false)->parameters, published.at(model.name)) << model.name;
    EXPECT_EQ(config.data.seq, model.length + 1) << model.name;
    EXPECT_EQ(find_preset(model.name), nullptr) << model.name << " names two things";
  }
}

TEST(KnownModels, ClosedFormIsPlan) {
  for (const KnownModel& model : known_models()) {
    for (const char* recompute : {"none", "attention", "block"}) {
      const RunConfig config = planned(std::string(model.name), {{"train.recompute", recompute, "--set"}});
      const auto known = closed_form(config, false);
      ASSERT_TRUE(known.has_value());
      EXPECT_EQ(known->peak.bytes, plan_step(config, false).step.peak) << model.name << ", recompute " << recompute;
    }
  }
}

TEST(KnownModels, StateInEveryRegime) {
  struct Regime {
    const char *optimizer, *momentum, *dtype;
    int64_t each;  ///< Bytes a parameter: the parameter, its gradient, an f32 master copy where it has 16 bits, moments.
  };
  const Regime regimes[] = {{"sgd", "0", "f32", 4 + 4},  {"sgd", "0.9", "f32", 4 + 4 + 4},      {"adamw", "0", "f32", 4 + 4 + 8},   {"sgd", "0", "f64", 8 + 8},          {"sgd", "0.9", "f64", 8 + 8 + 8},
                            {"adam", "0", "f64", 8 + 8 + 16}, {"sgd", "0", "bf16", 2 + 2 + 4}, {"sgd", "0.9", "bf16", 2 + 2 + 4 + 4}, {"adamw", "0", "bf16", 2 + 2 + 4 + 8}};
  for (const Regime& r : regimes) {
    const RunConfig config = planned("llama-2-7b", {{"optim.name", r.optimizer, "--set"}, {"optim.momentum", r.momentum, "--set"}, {"train.dtype", r.dtype, "--set"}});
    const std::string what = concat(r.optimizer, ", momentum ", r.momentum, ", ", r.dtype);
    const nn::Estimate e = closed_form(config, false).value();
    EXPECT_EQ(e.parameter_bytes + e.gradient_bytes + e.optimizer_bytes, 6'738'415'616 * r.each) << what;
    EXPECT_EQ(plan_step(config, false).step.base + e.gradient_bytes, 6'738'415'616 * r.each) << what;
  }
  const nn::Estimate mixed = closed_form(planned("llama-2-7b"), false).value();
  EXPECT_EQ(mixed.parameter_bytes + mixed.gradient_bytes + mixed.optimizer_bytes, 107'814'649'856) << "without settings: mixed precision, AdamW";
}

TEST(KnownModels, PlanningNeedsNoTensorBytesAndLittleElse) {
  const With<std::shared_ptr<Allocator>> nothing(&Ambient::allocator, limited_allocator(0));
  for (const char* name : {"llama-2-7b", "llama-2-70b"}) {
    if (!reset_peak_resident()) GTEST_SKIP() << "this system does not say how much of a process is resident";
    const int64_t before = peak_resident_bytes();
    const StepPlan plan = plan_run(planned(name));
    EXPECT_GT(plan.step.events.size(), 5000u);
    const int64_t growth = peak_resident_bytes() - before, most = int64_t(::spool::test::slow_build ? 1024 : 64) << 20;
    EXPECT_LT(growth, most) << name;
  }
}

TEST(KnownModels, ALengthCountsPositionsAndNamesAreSuggested) {
  ConfigOptions options;
  options.preset = "tinyllama";
  options.seq = "1000";
  EXPECT_EQ(options.resolve_plan().data.seq, 1001);
  options.preset = "llama-tiny";
  EXPECT_EQ(options.resolve_plan().data.seq, 1000) << "a preset counts tokens, as its configuration does";
  options.preset = "lama-2-7b";
  const std::string unknown = message_of<ConfigError>([&] { options.resolve_plan(); });
  for (const char* part : {"did you mean 'llama-2-7b'?", "enwik8-small", "ring-65b"}) EXPECT_NE(unknown.find(part), std::string::npos) << part << " is missing in: " << unknown;
  EXPECT_NE(message_of<ConfigError>([] { ConfigOptions().resolve_plan(); }).find("the models are llama-2-7b"), std::string::npos);
  options.preset = "llama-2-7b";
  EXPECT_NE(message_of<ConfigError>([&] { options.resolve(); }).find("spool plan llama-2-7b"), std::string::npos) << "it is not trained here";
}

TEST(KnownModels, AndPlacesOfConfigurations) {
  const TemporaryDirectory directory;
  ConfigOptions options;
  options.preset = directory.write("run/config.toml", "[data]\nseq = 77\n").parent_path().string();
  EXPECT_EQ(options.resolve_plan().data.seq, 77);
  options.preset = directory.write("other.toml", "[data]\nseq = 78\n").string();
  EXPECT_EQ(options.resolve_plan().data.seq, 78);
  options.preset = directory.write("hf/config.json", R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 2, "vocab_size": 300, "rms_norm_eps": 1e-5})").string();
  EXPECT_EQ(options.resolve_plan().model.llama.num_hidden_layers, 3);
  options.preset = (directory / "hf").string();
  EXPECT_EQ(options.resolve_plan().model.llama.num_hidden_layers, 3);
}

TEST(Article, SaysEveryDifference) {
  const RunConfig config = planned("llama-2-7b", {{"data.seq", "2049", "--set"}, {"data.batch", "8", "--set"}});
  const std::string text = article_text(config);
  for (const char* number : {"1,396,703,232", "1,937,768,448", "137,086,631,936", "107,814,649,856", "2,659,188,736"}) EXPECT_NE(text.find(number), std::string::npos) << number;
  const nlohmann::ordered_json json = article_json(config);
  ASSERT_EQ(json["differences"].size(), 16u);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(json["differences"][i]["id"], concat("E", i + 1));
  for (const auto& formula : json["formulas"])
    EXPECT_TRUE(formula["formula"] != "this engine" || formula["activations"] == closed_form(config, false)->saved_bytes);
  const RunConfig seventy = planned("llama-2-70b", {{"data.seq", "2049", "--set"}});
  EXPECT_EQ(article_json(seventy)["differences"][6]["article"], 4 * 2 * int64_t(8192) * 8192);
  EXPECT_EQ(article_json(seventy)["differences"][6]["exact"], 2 * 150'994'944) << "8 key heads of 64";
  EXPECT_NE(message_of<ConfigError>([] { article_text(planned("enwik8")); }).find("--article"), std::string::npos);
}

}  // namespace
}  // namespace spool::train::testing
