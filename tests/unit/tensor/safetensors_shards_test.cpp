// Checkpoints of several files: what is written comes back, lazily; what an index must not say.
#include <spool/tensor.h>
#include <tests/support.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace spool::test {
namespace {

namespace fs = std::filesystem;

class ShardsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "spool-shards-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string path(const std::string& name = "") const { return (directory_ / name).string(); }
  std::string index(const std::string& text) const {
    std::ofstream(path("model.safetensors.index.json"), std::ios::binary) << text;
    return path("model.safetensors.index.json");
  }
  std::string refusal(const std::string& file) const {
    try {
      SafetensorsShards shards(file);
    } catch (const IoError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return "accepted";
  }

 private:
  fs::path directory_;
};

NamedTensors several() {
  NamedTensors out;
  for (int i = 0; i < 5; ++i) out.emplace_back("layer." + std::to_string(i), full({3, 4}, i));
  out.emplace_back("small", full({2}, 7, Dtype::f16));
  out.emplace_back("none", empty({0, 3}));
  return out;
}

TEST_F(ShardsTest, WhatIsSavedComesBackFromOneFileOrSeveral) {
  for (const int64_t shard_bytes : {int64_t(1), int64_t(100), int64_t(96), int64_t(1000)}) {
    const std::string directory = path(std::to_string(shard_bytes));
    fs::create_directory(directory);
    save_safetensors_shards(directory, several(), shard_bytes, {{"format", "pt"}});
    const SafetensorsShards shards(directory);
    EXPECT_EQ(shards.names().size(), several().size());
    for (const auto& [name, tensor] : several()) {
      ASSERT_TRUE(shards.contains(name));
      EXPECT_EQ(shards.meta(name), meta_of(tensor));
      EXPECT_EQ(shards.view(name).to_vector<double>(), tensor.to_vector<double>());
      EXPECT_EQ(shards.read(name).to_vector<double>(), tensor.to_vector<double>());
      EXPECT_EQ(shards.file(name).metadata().at("format"), "pt");
    }
    EXPECT_EQ(fs::exists(directory + "/model.safetensors.index.json"), shard_bytes < 1000);
    int64_t files = 0;
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (entry.path().extension() != ".safetensors") continue;
      ++files;
      int64_t bytes = 0;
      const SafetensorsFile file(entry.path().string());
      for (const auto& e : file.entries()) bytes += e.bytes;
      EXPECT_LE(bytes, std::max<int64_t>(shard_bytes, 48)) << "a larger tensor stands alone";
    }
    EXPECT_EQ(files, shard_bytes == 1 ? 7 : shard_bytes == 1000 ? 1 : 3);
  }
  EXPECT_THROW(save_safetensors_shards(path(), several(), 0), ConfigError);
  const Tensor shared = full({8}, 1);
  EXPECT_THROW(save_safetensors_shards(path(), {{"a", shared}, {"b", shared}}, 1), IoError) << "also where they would lie in two files";
}

TEST_F(ShardsTest, WhatAnIndexMustNotSay) {
  save_safetensors(path("s.safetensors"), {{"a", scalar(1)}, {"unlisted", scalar(2)}});
  const SafetensorsShards good(index(R"({"metadata":{"total_size":4,"x":{"y":1}},"weight_map":{"a":"s.safetensors"}})"));
  EXPECT_EQ(good.names(), std::vector<std::string>{"a"}) << "the index says what there is";
  EXPECT_THROW(good.view("unlisted"), IoError);
  const std::pair<std::string, const char*> cases[] = {
      {R"({"weight_map":{"b":"s.safetensors"}})", "tensor 'b' is not in 's.safetensors', where the index says it is"},
      {R"({"weight_map":{"a":"t.safetensors"}})", "the shard 't.safetensors' is missing"},
      {R"({"weight_map":{"a":"../s.safetensors"}})", "'../s.safetensors', the file of 'a', is no name of a file beside the index"},
      {R"({"weight_map":{"a":"x/../../s.safetensors"}})", "is no name of a file beside"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "is no name of a file beside"},
      {R"({"weight_map":{"a":""}})", "is no name of a file beside"},
      {R"({"weight_map":{"a":"s.safetensors\u0000"}})", "is no name of a file beside"},
      {R"({"weight_map":{"a":7}})", "the file of 'a' is number, not text"},
      {R"({"weight_map":{"a":"s.safetensors","\u0061":"s.safetensors"}})", "the key 'a' is given twice"},
      {R"({"weight_map":{},"weight_map":{}})", "the key 'weight_map' is given twice"},
      {R"({"weights":{}})", "has no weight_map"},
      {R"([])", "has no weight_map"},
      {R"({"weight_map":{)", "is not valid JSON at byte"},
      {std::string(R"({"weight_map":{}})") + '\0' + "x", "is not valid JSON at byte"},
      {std::string(R"({"a":)").append(100'000, '['), "nested more than 64 deep"},
  };
  for (const auto& [text, reason] : cases) {
    const std::string answer = refusal(index(text));
    EXPECT_NE(answer.find(reason), answer.npos) << text.substr(0, 100) << "\n  " << answer;
    EXPECT_TRUE(answer.starts_with(path("model.safetensors.index.json"))) << answer;
  }
  fs::resize_file(index("{"), uintmax_t(1) << 40);
  EXPECT_NE(refusal(path()).find("at most 100000000 are possible"), std::string::npos);
  fs::remove(path("model.safetensors.index.json"));
  EXPECT_NE(refusal(path()).find("holds neither model.safetensors nor model.safetensors.index.json"), std::string::npos);
}

TEST_F(ShardsTest, NamesOfAHugeFileAreReadWithoutItsTensors) {
  // A tebibyte of holes: only the header has blocks.
  const int64_t rows = int64_t(1) << 37;
  std::string header = R"({"big":{"dtype":"F32","shape":[)" + std::to_string(rows) + R"(,2],"data_offsets":[0,)" + std::to_string(rows * 8) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string file = path("model.safetensors");
  {
    std::ofstream out(file, std::ios::binary);
    const uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), 8) << header;
  }
  std::error_code error;
  fs::resize_file(file, uintmax_t(8 + header.size() + size_t(rows) * 8), error);
  if (error) GTEST_SKIP() << "this file system has no files of a tebibyte: " << error.message();
  const auto resident = [] {
    std::ifstream in("/proc/self/statm");
    int64_t total = 0, pages = 0;
    in >> total >> pages;
    return pages * int64_t(::sysconf(_SC_PAGESIZE));
  };
  const int64_t before = resident();
  const SafetensorsShards shards(path());
  EXPECT_EQ(shards.names(), std::vector<std::string>{"big"});
  EXPECT_EQ(shards.meta("big"), (Meta{Shape{rows, 2}, Dtype::f32}));
  const Tensor big = shards.view("big");
  EXPECT_EQ(big.view_as({1}, {1}, rows * 2 - 1).item(), 0) << "the last element is read alone";
  EXPECT_LT(resident() - before, int64_t(8) << 20);
}

TEST_F(ShardsTest, AHeaderThatNoReaderTakesIsNotWritten) {
  SKIP_IN_SLOW_BUILD();
  const SafetensorsMetadata metadata{{"k", std::string(100'000'001, 'x')}};
  try {
    save_safetensors(path("t"), {{"a", scalar(1)}}, metadata);
    ADD_FAILURE() << "written";
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("at most 100000000 can be read back"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(fs::is_empty(path()));
}

}  // namespace
}  // namespace spool::test
