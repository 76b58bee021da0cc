// LLaMA weights in files: the same model from each format, round trips, and what must be refused.
#include <spool/spool.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "llama_support.h"

namespace spool::test {
namespace {

namespace fs = std::filesystem;
using nn::LlamaConfig;

class LlamaFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "spool-llama-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }
  fs::path path(const std::string& name) const { return directory_ / name; }
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

 private:
  fs::path directory_;
};

template <class E, class F> std::string message_of(const F& f) {
  try {
    f();
  } catch (const E& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "nothing thrown";
}

void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    ASSERT_EQ(meta_of(a[i].second), meta_of(b[i].second)) << a[i].first;
    EXPECT_EQ(std::memcmp(a[i].second.raw(), b[i].second.raw(), size_t(a[i].second.nbytes())), 0) << a[i].first;
  }
}

const LlamaConfig tiny{.vocab_size = 11, .hidden_size = 8, .intermediate_size = 12, .num_hidden_layers = 2, .num_attention_heads = 2, .num_key_value_heads = 1, .max_position_embeddings = 16};

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The trained model

TEST_F(LlamaFilesTest, TheTrainedModelIsTheSameFromBothFormats) {
  SPOOL_REQUIRE_DATA("stories260k/stories260K.bin");
  const auto bin = nn::load_llama(data_path("stories260k/stories260K.bin"));
  const auto hf = nn::load_llama(data_path("stories260k"));
  expect_same(bin->named_parameters(), hf->named_parameters());
  const LlamaConfig c = hf->config(), expected = stories_config();
  EXPECT_EQ(c.hidden_size, expected.hidden_size);
  EXPECT_EQ(c.intermediate_size, expected.intermediate_size);
  EXPECT_EQ(c.num_key_value_heads, 4);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_EQ(c.max_position_embeddings, 512);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_EQ(bin->config().max_position_embeddings, 512);
  const auto wide = nn::load_llama(data_path("stories260k"), {.dtype = Dtype::f64});
  const Golden golden = read_golden();
  std::vector<int64_t> tokens = golden.tokens;
  EXPECT_EQ(wide->model.norm.weight.value.dtype(), Dtype::f64);
  if (golden.positions.size() + 1 > tokens.size()) tokens.push_back(golden.positions.back().next);
  EXPECT_NEAR(mean_nll(*wide, tokens), 0.1803555009, 1e-9);
}

TEST_F(LlamaFilesTest, DirectoriesOfTheReferenceComputeItsLogits) {
  const NoGrad quiet;
  for (const char* name : {"llama", "llama_tied", "mistral"}) {
    const fs::path directory = fs::path(SPOOL_SOURCE_DIR) / "tests/golden/models" / name;
    const auto model = nn::load_llama(directory);
    const SafetensorsFile golden((directory / "golden.safetensors").string());
    const auto got = model->forward(golden.view("tokens")).to_vector<double>(), expected = golden.view("logits").to_vector<double>();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << name << ", logit " << i;
    nn::save_llama(*model, path(name), 20'000);
    const auto again = nn::load_llama(path(name))->forward(golden.view("tokens")).to_vector<double>();
    EXPECT_EQ(again, got) << name;
  }
}

TEST_F(LlamaFilesTest, ABinWhoseHeadIsNotTied) {
  SPOOL_REQUIRE_DATA("stories260k/stories260K.bin");
  std::string bytes = bytes_of(data_path("stories260k/stories260K.bin"));
  const int32_t vocab = -512;
  std::memcpy(bytes.data() + 20, &vocab, 4);
  const std::string message = message_of<IoError>([&] { nn::load_llama(write("short.bin", bytes)); });
  EXPECT_NE(message.find("has 1056540 bytes, but its header asks for 1187612"), std::string::npos) << message;
  const Tensor head = full({512, 64}, 0.25);
  bytes.append(static_cast<const char*>(head.raw()), size_t(head.nbytes()));
  const auto model = nn::load_llama(write("untied.bin", bytes));
  ASSERT_TRUE(model->lm_head.has_value());
  expect_same({{"head", model->lm_head->weight}}, {{"head", head}});
}

TEST_F(LlamaFilesTest, RowsOfInterleavedPairsAreReordered) {
  // One layer, two query heads and one key head of four: wq's row r holds r.
  std::string bytes;
  const auto add = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const int32_t h : {8, 6, 1, 2, 1, 5, 3}) add(h);
  const auto rows = [&](int64_t count, int64_t in) {
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < in; ++i) add(float(r));
  };
  rows(5, 8), rows(8, 1), rows(8, 8), rows(4, 8), rows(4, 8), rows(8, 8), rows(8, 1), rows(6, 8), rows(8, 6), rows(6, 8), rows(8, 1), rows(3, 4);
  const auto model = nn::load_llama(write("m.bin", bytes));
  const auto first = [](const Tensor& w) { return w.view_as({w.size(0)}, {w.size(1)}, 0).to_vector<double>(); };
  const auto& attention = model->model.layers[0].self_attn;
  EXPECT_EQ(first(attention.q_proj.weight), (std::vector<double>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(first(attention.k_proj.weight), (std::vector<double>{0, 2, 1, 3}));
  EXPECT_EQ(first(attention.v_proj.weight), (std::vector<double>{0, 1, 2, 3}));
}

TEST_F(LlamaFilesTest, DamagedBinFiles) {
  const auto with = [&](std::vector<int32_t> header, size_t more = 0) {
    const std::string bytes(reinterpret_cast<const char*>(header.data()), header.size() * 4);
    return message_of<IoError>([&] { nn::load_llama(write("m.bin", bytes + std::string(more, '\0'))); });
  };
  EXPECT_NE(with({1, 2}).find("8 bytes are too few for llama2.c's header"), std::string::npos);
  EXPECT_NE(with({0x616b3432, 1, 1, 1, 1, 1, 1}).find("later version of llama2.c's format"), std::string::npos);
  EXPECT_NE(with({8, 6, 0, 2, 1, 5, 3}).find("n_layers is 0"), std::string::npos);
  EXPECT_NE(with({8, 6, 1, 3, 1, 5, 3}).find("do not divide"), std::string::npos);
  EXPECT_NE(with({8, 6, 1, 2, 1, 5, 3}, 4).find("has 32 bytes, but its header asks for"), std::string::npos);
  EXPECT_NE(with({0x7ffffff0, 0x7fffffff, 0x7fffffff, 4, 4, 0x7fffffff, 0x7fffffff}).find("asks for more than can be"), std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { nn::load_llama(path("none")); }).find("there is no such file"), std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { nn::load_llama(write("m.txt", "x")); }).find("is neither a directory nor a .bin file"), std::string::npos);
}

// Round trips

TEST_F(LlamaFilesTest, SavedModelsComeBackBitForBit) {
  int cases = 0;
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    for (const bool tied : {false, true}) {
      for (const int64_t shard_bytes : {int64_t(1) << 30, int64_t(500)}) {
        LlamaConfig config = tiny;
        config.tie_word_embeddings = tied;
        const nn::Llama model(nn::root({.seed = 3, .dtype = dtype}), config);
        const fs::path at = path(std::to_string(cases++));
        nn::save_llama(model, at, shard_bytes);
        EXPECT_EQ(fs::exists(at / "model.safetensors.index.json"), shard_bytes == 500);
        EXPECT_EQ(fs::exists(at / "model.safetensors"), shard_bytes != 500);
        const auto loaded = nn::load_llama(at);
        expect_same(loaded->named_parameters(), model.named_parameters());
        const LlamaConfig& c = loaded->config();
        EXPECT_EQ(c.tie_word_embeddings, tied);
        EXPECT_EQ(c.num_key_value_heads, 1);
        EXPECT_EQ(c.rms_norm_eps, config.rms_norm_eps);
        const auto converted = nn::load_llama(at, {.dtype = Dtype::f64});
        EXPECT_EQ(converted->model.norm.weight.value.dtype(), Dtype::f64);
      }
    }
  }
}

TEST_F(LlamaFilesTest, AnInterleavedModelIsSavedForRotateHalf) {
  LlamaConfig config = tiny;
  config.rope_interleaved = true;
  const nn::Llama model(nn::root({.seed = 4, .dtype = Dtype::f64}), config);
  nn::save_llama(model, path("m"), 400);
  const auto loaded = nn::load_llama(path("m"));
  EXPECT_FALSE(loaded->config().rope_interleaved);
  const Tensor tokens = token_row({1, 4, 2, 9, 10, 0, 3});
  const auto expected = model.forward(tokens).to_vector<double>(), got = loaded->forward(tokens).to_vector<double>();
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-12);
}

TEST_F(LlamaFilesTest, ScalingsComeBackAsTheSameFunction) {
  const Tensor tokens = token_row({1, 4, 2, 9, 10, 0, 3, 3, 3, 5});
  std::set<std::vector<double>> different;
  for (const char* type : {"default", "linear", "ntk", "dynamic", "llama3"}) {
    LlamaConfig config = tiny;
    config.max_position_embeddings = 12;
    config.rope_theta = 500;
    config.rope_scaling = {.rope_type = type, .factor = 4, .low_freq_factor = 0.5, .original_max_position_embeddings = 6};
    const nn::Llama model(nn::root({.seed = 5, .dtype = Dtype::f64}), config);
    nn::save_llama(model, path(type));
    const auto loaded = nn::load_llama(path(type));
    const auto expected = model.forward(tokens).to_vector<double>(), got = loaded->forward(tokens).to_vector<double>();
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-12) << type;
    different.insert(got);
  }
  EXPECT_EQ(different.size(), 5u);
  LlamaConfig config = tiny;
  config.sliding_window = 3;
  nn::save_llama(nn::Llama(nn::root(), config), path("window"));
  EXPECT_EQ(nn::read_llama_config(path("window")).sliding_window, 3);
}

TEST_F(LlamaFilesTest, AFailedSaveLeavesTheOldModel) {
  const nn::Llama old(nn::root({.seed = 1}), tiny), fresh(nn::root({.seed = 2}), tiny), unsavable(nn::root({.device = meta()}), tiny);
  nn::save_llama(old, path("m"), 500);
  EXPECT_THROW(nn::save_llama(unsavable, path("m")), IoError);
  EXPECT_EQ(std::distance(fs::directory_iterator(path("")), {}), 1) << "nothing temporary stays";
  expect_same(nn::load_llama(path("m"))->named_parameters(), old.named_parameters());
  nn::save_llama(fresh, path("m"));
  expect_same(nn::load_llama(path("m"))->named_parameters(), fresh.named_parameters());
  EXPECT_FALSE(fs::exists(path("m") / "model.safetensors.index.json")) << "the old directory is gone whole";
}

TEST_F(LlamaFilesTest, TokensOfGeneration) {
  nn::save_llama(nn::Llama(nn::root(), tiny), path("m"), 1 << 20, {.begin = 1, .end = {2, 5}});
  EXPECT_EQ(bytes_of(path("m") / "generation_config.json"), "{\n  \"bos_token_id\": 1,\n  \"eos_token_id\": [\n    2,\n    5\n  ]\n}\n");
  EXPECT_NE(bytes_of(path("m") / "config.json").find("\"bos_token_id\": 1,"), std::string::npos);
  nn::save_llama(nn::Llama(nn::root(), tiny), path("m"));
  EXPECT_NE(bytes_of(path("m") / "config.json").find("\"bos_token_id\": null,"), std::string::npos);
}

// Weights that do not fit

TEST_F(LlamaFilesTest, OneMessageListsAllThatDoesNotFit) {
  const nn::Llama model(nn::root(), tiny);
  nn::save_llama(model, path("m"));
  const std::string file = (path("m") / "model.safetensors").string();
  NamedTensors state;
  for (const auto& [name, tensor] : model.named_parameters()) state.emplace_back(name, contiguous_copy(tensor));
  std::erase_if(state, [](const auto& item) { return item.first == "model.norm.weight"; });
  state.emplace_back("model.extra.weight", zeros({3}));
  state.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", zeros({2}));
  for (auto& [name, tensor] : state) {
    if (name == "model.layers.1.mlp.up_proj.weight") tensor = zeros({12, 9});
    if (name == "model.layers.0.mlp.up_proj.weight") tensor = zeros({12, 8}, Dtype::i32);
  }
  save_safetensors(file, state);
  auto ledger = std::make_shared<Ledger>();
  std::string message;
  {
    const With on(&Ambient::ledger, ledger);
    message = message_of<IoError>([&] { nn::load_llama(path("m")); });
  }
  EXPECT_EQ(ledger->allocations(), 0u) << "checked before anything is allocated";
  EXPECT_TRUE(message.starts_with(file)) << message;
  EXPECT_NE(message.find("; missing model.norm.weight [8]"), std::string::npos) << message;
  EXPECT_NE(message.find("; unexpected 'model.extra.weight' f32[3]"), std::string::npos) << message;
  EXPECT_NE(message.find("; model.layers.1.mlp.up_proj.weight is [12, 8] by config.json and [12, 9] there"), std::string::npos) << message;
  EXPECT_NE(message.find("; model.layers.0.mlp.up_proj.weight is of type i32 there"), std::string::npos) << message;
  EXPECT_EQ(message.find("inv_freq"), std::string::npos) << message;
}

TEST_F(LlamaFilesTest, AHeadBesideTiedEmbeddingsMustEqualThem) {
  LlamaConfig config = tiny;
  config.tie_word_embeddings = true;
  const nn::Llama model(nn::root(), config);
  nn::save_llama(model, path("m"));
  NamedTensors state = model.named_parameters();
  state.emplace_back("lm_head.weight", contiguous_copy(model.model.embed_tokens.weight));
  const std::string file = (path("m") / "model.safetensors").string();
  save_safetensors(file, state);
  expect_same(nn::load_llama(path("m"))->named_parameters(), model.named_parameters());
  state.back().second.data<float>()[3] += 1;
  save_safetensors(file, state);
  EXPECT_NE(message_of<IoError>([&] { nn::load_llama(path("m")); }).find("lm_head.weight differs from model.embed_tokens.weight"), std::string::npos);
}

TEST_F(LlamaFilesTest, TypesThatDifferOrAreHalvesBecomeFloats) {
  const nn::Llama model(nn::root(), tiny);
  nn::save_llama(model, path("m"));
  const std::string file = (path("m") / "model.safetensors").string();
  NamedTensors halves, mixed;
  for (const auto& [name, tensor] : model.named_parameters()) {
    halves.emplace_back(name, cast(tensor.detach(), Dtype::f16));
    mixed.emplace_back(name, cast(tensor.detach(), name.find("norm") == std::string::npos ? Dtype::bf16 : Dtype::f32));
  }
  for (const NamedTensors& state : {halves, mixed}) {
    save_safetensors(file, state);
    const auto loaded = nn::load_llama(path("m"));
    const auto parameters = loaded->named_parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      ASSERT_EQ(parameters[i].second.dtype(), Dtype::f32);
      EXPECT_EQ(parameters[i].second.to_vector<double>(), state[i].second.to_vector<double>());
    }
  }
}

// Configurations

const std::string sizes = R"("vocab_size":32,"hidden_size":8,"intermediate_size":16,"num_hidden_layers":1,"num_attention_heads":2)";

TEST_F(LlamaFilesTest, ConfigurationsOfManyAges) {
  const auto read = [&](const std::string& more) { return nn::read_llama_config(write("config.json", concat("{", sizes, ",", more, "}"))); };
  LlamaConfig c = read(R"("model_type":"llama")");
  EXPECT_EQ(c.rms_norm_eps, 1e-6) << "the reference's default";
  EXPECT_EQ(c.rope_theta, 10000);
  EXPECT_EQ(c.key_value_heads(), 2);
  EXPECT_EQ(c.max_position_embeddings, 2048);
  c = read(R"("architectures":["LlamaForCausalLM"],"rope_scaling":null,"num_key_value_heads":null,"head_dim":6,"rope_theta":5e5,"sliding_window":7,"unknown":{"a":[1]})");
  EXPECT_EQ(c.head_size(), 6);
  EXPECT_EQ(c.rope_theta, 5e5);
  EXPECT_EQ(c.sliding_window, 0) << "llama has none";
  c = read(R"("model_type":"llama","rope_scaling":{"type":"linear","factor":2.5})");
  EXPECT_EQ(c.rope_scaling.rope_type, "linear");
  EXPECT_EQ(c.rope_scaling.factor, 2.5);
  c = read(R"("model_type":"llama","rope_scaling":{"rope_type":"dynamic","factor":2,"original_max_position_embeddings":7})");
  EXPECT_EQ(c.rope_scaling.rope_type, "dynamic");
  EXPECT_EQ(c.rotary().scaling.original, 2048);
  const std::string llama3 = R"("rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192)";
  for (const std::string& more : {concat(R"("rope_theta":500000.0,"rope_scaling":{)", llama3, "}"), concat(R"("rope_parameters":{"rope_theta":500000.0,)", llama3, "}")}) {
    c = read(concat(R"("model_type":"llama",)", more));
    EXPECT_EQ(c.rope_theta, 500000);
    EXPECT_EQ(c.rotary().scaling.kind, RotaryScaling::Kind::llama3);
    EXPECT_EQ(c.rotary().scaling.factor, 8);
    EXPECT_EQ(c.rotary().scaling.original, 8192);
  }
  c = read(R"("model_type":"llama","rope_parameters":{"rope_theta":300,"rope_type":"default"})");
  EXPECT_EQ(c.rope_theta, 300);
  EXPECT_EQ(read(R"("model_type":"mistral","num_key_value_heads":1,"sliding_window":5)").sliding_window, 5);
  EXPECT_EQ(read(R"("model_type":"mistral","num_key_value_heads":1,"sliding_window":null)").sliding_window, 0);
  EXPECT_EQ(read(R"("model_type":"mistral","num_key_value_heads":1)").sliding_window, 4096);
  EXPECT_EQ(read(R"("model_type":"mistral","num_key_value_heads":1,"sliding_window":5,"use_sliding_window":false)").sliding_window, 0);
}

TEST_F(LlamaFilesTest, ConfigurationsThatCannotBeComputed) {
  const auto refusal = [&](const std::string& more) { return message_of<ConfigError>([&] { nn::read_llama_config(write("config.json", concat("{", sizes, more, "}"))); }); };
  const std::pair<const char*, const char*> cases[] = {
      {"", "model_type: is missing"},
      {R"(,"model_type":"gpt2")", "model_type: 'gpt2' is not supported"},
      {R"(,"model_type":"llama","hidden_act":"gelu")", "hidden_act: 'gelu' is not supported"},
      {R"(,"model_type":"llama","attention_bias":true)", "attention_bias: biases are not supported"},
      {R"(,"model_type":"llama","mlp_bias":true)", "mlp_bias: biases are not supported"},
      {R"(,"model_type":"llama","quantization_config":{"bits":4})", "quantization_config: quantized weights are not supported"},
      {R"(,"model_type":"llama","rope_scaling":{"rope_type":"yarn","factor":2})", "rope_scaling.rope_type: the scaling 'yarn' is not supported"},
      {R"(,"model_type":"llama","rope_parameters":{"rope_type":"longrope"})", "rope_parameters.rope_type: the scaling 'longrope'"},
      {R"(,"model_type":"llama","rope_scaling":{"type":"linear"})", "rope_scaling.factor: is missing"},
      {R"(,"model_type":"llama","rope_scaling":7)", "rope_scaling: must be an object"},
      {R"(,"model_type":"llama","head_dim":-2)", "head_dim: must be an integer from 0"},
      {R"(,"model_type":"llama","head_dim":5)", "head_dim: must be even"},
      {R"(,"model_type":"llama","num_key_value_heads":3)", "num_key_value_heads: 3 does not divide"},
      {R"(,"model_type":"llama","rms_norm_eps":"x")", "rms_norm_eps: must be a number"},
      {R"(,"model_type":7)", "model_type: must be text"},
  };
  for (const auto& [more, reason] : cases) {
    const std::string message = refusal(more);
    EXPECT_TRUE(message.starts_with(reason)) << message << "\n  " << reason;
    EXPECT_NE(message.find(path("config.json").string()), std::string::npos) << message;
  }
  EXPECT_TRUE(message_of<ConfigError>([&] { nn::read_llama_config(write("config.json", R"({"model_type":"llama"})")); }).starts_with("vocab_size: is missing"));
  EXPECT_NE(message_of<IoError>([&] { nn::read_llama_config(write("config.json", "{")); }).find("config.json: is not valid JSON at byte"), std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { nn::read_llama_config(path("none.json")); }).find("cannot open the file"), std::string::npos);
}

TEST_F(LlamaFilesTest, AModelOfSevenBillionOnMetaTakesNoBytes) {
  write("big/config.json", R"({"model_type":"llama","vocab_size":32000,"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,"num_attention_heads":32,"torch_dtype":"bfloat16"})");
  const auto model = nn::load_llama(path("big"), {.device = meta()});
  EXPECT_EQ(model->parameter_count(), 6'738'415'616);
  for (const auto& [name, tensor] : model->named_parameters()) {
    ASSERT_EQ(tensor.raw(), nullptr) << name;
    ASSERT_EQ(tensor.dtype(), Dtype::bf16);
  }
}

}  // namespace
}  // namespace spool::test
