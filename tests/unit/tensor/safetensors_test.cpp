// The safetensors reader and writer: files that must and must not be accepted, round trips to the bit, failures that leave no trace.
#include <spool/tensor.h>
#include <tests/support.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

namespace spool::test {
namespace {

namespace fs = std::filesystem;

/// A fresh directory, removed at the end of the test.
class SafetensorsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "spool-safetensors-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string path(const std::string& name = "t.safetensors") const { return (directory_ / name).string(); }
  size_t files() const { return size_t(std::distance(fs::directory_iterator(directory_), {})); }

  /// A file with this header and this many bytes of data.
  std::string file_with(const std::string& header, size_t data = 0) const {
    std::ofstream out(path(), std::ios::binary);
    const uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header << std::string(data, '\0');
    return path();
  }

 private:
  fs::path directory_;
};

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string refusal(const std::string& path) {
  try {
    load_safetensors(path);
  } catch (const IoError& error) {
    return error.what();
  }
  return "accepted";
}

template <class T>
Tensor with_bits(const std::vector<uint64_t>& bits, const Shape& shape) {
  Tensor t = empty(shape, dtype_of<T>);
  for (size_t i = 0; i < bits.size(); ++i) std::memcpy(static_cast<std::byte*>(t.raw()) + i * sizeof(T), &bits[i], sizeof(T));
  return t;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && (a.numel() == 0 || std::memcmp(a.raw(), b.raw(), size_t(a.nbytes())) == 0);
}

/// What each file of the manifest that is to be accepted holds, as its remarks say.
NamedTensors accepted_values(const std::string& name) {
  if (name == "ok_two_header_order_differs.safetensors") return {{"b", from({3})}, {"a", from({1, 2})}};
  if (name == "ok_zero_size.safetensors") return {{"z", empty({0, 3})}, {"a", from({5})}};
  if (name == "ok_bf16_f16_i64_bool.safetensors")
    return {{"bf", from({1, -2}, {}, Dtype::bf16)}, {"h", from({1, 65504}, {}, Dtype::f16)}, {"i", from({-5}, {}, Dtype::i64)}, {"m", from({1, 0, 1}, {}, Dtype::boolean)}};
  if (name == "ok_empty_object.safetensors") return {};
  if (name == "ok_unicode_name.safetensors") return {{"gewichté\n\"x\"", from({1})}};
  return name == "ok_minimal.safetensors" ? NamedTensors{{"a", from({1, 2})}} : NamedTensors{{"a", from({1})}};
}

TEST_F(SafetensorsTest, TheVerdictsOfTheManifest) {
  SPOOL_REQUIRE_DATA("safetensors/MANIFEST.tsv");
  const fs::path data = data_path("safetensors");
  std::ifstream manifest(data / "MANIFEST.tsv");
  std::map<std::string, int> cases;
  for (std::string line; std::getline(manifest, line);) {
    std::istringstream fields(line);
    std::string name, verdict;
    fields >> name >> verdict;
    ++cases[verdict];
    const std::string file = (data / name).string(), answer = refusal(file);
    if (verdict == "ACCEPT") {
      EXPECT_EQ(answer, "accepted") << name;
      const NamedTensors loaded = load_safetensors(file), expected = accepted_values(name);
      ASSERT_EQ(loaded.size(), expected.size()) << name;
      for (size_t i = 0; i < loaded.size(); ++i) {
        EXPECT_TRUE(same_bytes(loaded[i].second, expected[i].second)) << name << ": " << loaded[i].first << ' ' << to_string(loaded[i].second);
        EXPECT_EQ(loaded[i].first, expected[i].first) << name;
      }
      continue;
    }
    // EITHER is white space before the header's brace: refused here, see the header of tensor/safetensors.h.
    EXPECT_TRUE(answer.starts_with(file + ": ")) << name << ": " << answer;
    EXPECT_EQ(answer.find('\n'), answer.npos) << answer;
    if (verdict == "EITHER") {
      EXPECT_NE(answer.find("does not begin with '{'"), answer.npos) << answer;
    }
  }
  EXPECT_EQ(cases, (std::map<std::string, int>{{"ACCEPT", 8}, {"REJECT", 19}, {"EITHER", 1}}));
  SafetensorsFile empty_metadata((data / "ok_metadata_empty.safetensors").string());
  EXPECT_TRUE(empty_metadata.metadata().empty());
}

/// Bytes of address space that the process may have: a header's claim must not be believed before it is checked.
TEST_F(SafetensorsTest, AHugeClaimAllocatesNothing) {
  SKIP_IN_SLOW_BUILD();
  SPOOL_REQUIRE_DATA("safetensors/MANIFEST.tsv");
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &old), 0);
  const rlimit tight{rlim_t(pages * ::sysconf(_SC_PAGESIZE) + (32 << 20)), old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  std::vector<std::string> answers;
  for (const char* name : {"bad_header_len_huge.safetensors", "bad_header_len_gt_file.safetensors"}) answers.push_back(refusal((data_path("safetensors") / name).string()));
  ::setrlimit(RLIMIT_AS, &old);
  for (const std::string& answer : answers) EXPECT_NE(answer.find("the header claims"), answer.npos) << answer;
}

TEST_F(SafetensorsTest, MalformedHeadersAreRefusedWithTheReason) {
  const std::tuple<const char*, size_t, const char*> cases[] = {
      {R"([])", 0, "does not begin with '{'"},
      {R"( {})", 0, "does not begin with '{'"},
      {R"({)", 0, "not valid JSON"},
      {R"({} x)", 0, "not valid JSON"},
      {R"({}{})", 0, "not valid JSON"},
      {R"({"a":5})", 0, "'a': a number where an object is needed"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"\u0061":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "'a' is given twice"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "tensor 'a': the field dtype is given twice"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "tensor 'a': unknown field 'x'"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "tensor 'a': the field shape is missing"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "tensor 'a': the dtype 'F31' is unknown"},
      {R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4, "dtype is a number, not text"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "shape is a number, not an array"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "an array in its shape"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "a negative number in its shape"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "not an integer of 64 bits in its shape"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "more than 8 dimensions"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "do not fit 63 bits"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,0,4294967296],"data_offsets":[0,0]}})", 0, "do not fit 63 bits"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0]}})", 0, "does not fit 63 bits"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "hold 8 bytes, but f32[3] takes 12"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "run backwards"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "needs two numbers, got 1"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "more than two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3, "the offset 4 lies behind the 3 bytes"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551616]}})", 4, "not an integer of 64 bits in data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})", 4, "lies behind"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "4 bytes at the end of the file"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "bytes 0 to 4 belong to no tensor"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12,
       "tensor 'b': begins at byte 4 inside another"},
      {R"({"__metadata__":{"step":5}})", 0, "the value of 'step' is a number; values must be text"},
      {R"({"__metadata__":null})", 0, "null where an object is needed"},
      {R"({"__metadata__":{"k":"a","k":"b"}})", 0, "'k' is given twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "'__metadata__' is given twice"},
      {"{\"\xff\":{}}", 0, "not valid JSON"},
      {R"({"a\nb":{}})", 0, "tensor 'a?b': the field dtype is missing"},
  };
  for (const auto& [header, data, expected] : cases) {
    const std::string answer = refusal(file_with(header, data));
    EXPECT_NE(answer.find(expected), answer.npos) << header << "\n  " << answer;
    EXPECT_TRUE(answer.starts_with(path())) << answer;
  }
  std::string zero = "{}";
  zero += '\0';
  EXPECT_NE(refusal(file_with(zero + "{}")).find("not valid JSON"), std::string::npos) << "text behind a zero byte must be seen";
  EXPECT_EQ(refusal(file_with("{} \n\t ")), "accepted");
}

TEST_F(SafetensorsTest, FilesThatAreNoSafetensors) {
  EXPECT_NE(refusal(path("missing")).find("cannot open the file: No such file"), std::string::npos);
  EXPECT_NE(refusal(path("")).find("not a regular file"), std::string::npos);
  std::ofstream(path()) << "";
  EXPECT_NE(refusal(path()).find("0 bytes are too short"), std::string::npos);
  std::ofstream(path()) << "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
  EXPECT_NE(refusal(path()).find("pointer of git-lfs"), std::string::npos);
  const uint64_t lengths[] = {uint64_t(1) << 63, 100'000'001, 99'999'999, ~uint64_t(0)};
  for (const uint64_t length : lengths) {
    std::ofstream(path(), std::ios::binary).write(reinterpret_cast<const char*>(&length), 8) << "{}";
    EXPECT_NE(refusal(path()).find("the header claims"), std::string::npos) << length;
  }
}

TEST_F(SafetensorsTest, RoundTripKeepsEveryBit) {
  const NamedTensors saved{
      {"f32", with_bits<float>({0x7fc12345, 0xff800001, 0x80000000, 1, 0x7f800000, 0x3f800000}, {2, 3})},
      {"f64", with_bits<double>({0x7ff8000000012345, 0xfff0000000000001, 1}, {3})},
      {"bf16", with_bits<bfloat16>({0x7f81, 0xffc5, 0x8000}, {3, 1})},
      {"f16", with_bits<float16>({0x7c01, 0xfe55, 0x8000}, {1, 3})},
      {"i32", with_bits<int32_t>({0x80000000}, {1})},
      {"i64", with_bits<int64_t>({0x8000000000000000, 7}, {2})},
      {"u8", with_bits<uint8_t>({255, 0, 1}, {3})},
      {"bool", with_bits<bool>({1, 0, 1}, {3})},
      {"scalar", scalar(2.5)},
      {"zero", empty({0, 3})},
      {"zero.2", empty({2, 0}, Dtype::u8)},
      {"", scalar(1)},
      {"имя \"ключ\" \\ \n 𝔘", scalar(3, Dtype::f64)},
  };
  const SafetensorsMetadata metadata{{"format", "pt"}, {"ключ", "\"значение\"\n"}, {"", ""}};
  save_safetensors(path(), saved, metadata);
  EXPECT_EQ(files(), 1u) << "no temporary file stays";
  const SafetensorsFile file(path());
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.entries().size(), saved.size());
  for (const auto& [name, tensor] : saved) {
    ASSERT_TRUE(file.contains(name));
    EXPECT_TRUE(same_bytes(file.view(name), tensor)) << name;
    EXPECT_TRUE(same_bytes(file.read(name), tensor)) << name;
    EXPECT_EQ(std::bit_cast<uintptr_t>(file.view(name).raw()) % dtype_size(tensor.dtype()), 0u);
  }
  const std::string bytes = bytes_of(path());
  EXPECT_EQ((uint64_t(static_cast<unsigned char>(bytes[0])) | uint64_t(static_cast<unsigned char>(bytes[1])) << 8) % 8, 0u);
  save_safetensors(path("reversed"), {saved.rbegin(), saved.rend()}, metadata);
  EXPECT_EQ(bytes_of(path("reversed")), bytes) << "the order given does not show";
  save_safetensors(path("again"), load_safetensors(path()), metadata);
  EXPECT_EQ(bytes_of(path("again")), bytes);
  save_safetensors(path("none"), {});
  EXPECT_TRUE(SafetensorsFile(path("none")).entries().empty());
}

TEST_F(SafetensorsTest, ViewsBorrowAndCopiesOwn) {
  save_safetensors(path(), {{"a", from({1, 2, 3})}});
  const std::string before = bytes_of(path());
  auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  Tensor view = load_safetensors(path())[0].second;
  EXPECT_EQ(ledger->allocations(), 0u);
  fs::remove(path());
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{1, 2, 3})) << "the view keeps the mapping";
  save_safetensors(path(), {{"a", view}});
  const SafetensorsFile file(path());
  fill(file.view("a"), 9);
  EXPECT_EQ(bytes_of(path()), before) << "a write to a view stays in memory";
  const Tensor copy = file.read("a");
  EXPECT_EQ(ledger->live(), copy.nbytes());
}

TEST_F(SafetensorsTest, UnalignedElementsAreCopied) {
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})";
  file_with(header);
  const double value = 1.25;
  std::ofstream(path(), std::ios::binary | std::ios::app).write("\7", 1).write(reinterpret_cast<const char*>(&value), 8);
  EXPECT_EQ(SafetensorsFile(path()).view("b").item(), 1.25);
}

TEST_F(SafetensorsTest, BooleansAreCheckedWhenRead) {
  file_with(R"({"b":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})");
  std::ofstream(path(), std::ios::binary | std::ios::app).write("\1\2", 2);
  EXPECT_NE(refusal(path()).find("tensor 'b': element 1 of a BOOL is 2"), std::string::npos);
}

TEST_F(SafetensorsTest, StridedTensorsAreWrittenRowMajor) {
  const Tensor t = from({{1, 2, 3}, {4, 5, 6}});
  save_safetensors(path(), {{"transposed", t.view_as({3, 2}, {1, 3}, 0)}});
  save_safetensors(path("row"), {{"row", t.view_as({2}, {1}, 4)}, {"other", t.view_as({3}, {1}, 0)}});
  save_safetensors(path("expanded"), {{"e", scalar(2).view_as({3}, {0}, 0)}});
  EXPECT_EQ(SafetensorsFile(path()).view("transposed").to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(SafetensorsFile(path("row")).view("row").to_vector<float>(), (std::vector<float>{5, 6}));
  EXPECT_EQ(SafetensorsFile(path("expanded")).view("e").to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

TEST_F(SafetensorsTest, WhatCannotBeWrittenIsRefused) {
  const Tensor t = from({1, 2, 3});
  const std::pair<NamedTensors, const char*> cases[] = {
      {{{"a", t}, {"b", t}}, "tensors 'a' and 'b' share bytes"},
      {{{"a", t}, {"b", t.view_as({2}, {1}, 1)}}, "share bytes"},
      {{{"a", t}, {"a", scalar(1)}}, "two tensors are named 'a'"},
      {{{"__metadata__", t}}, "cannot be named __metadata__"},
      {{{"a", Tensor()}}, "tensor 'a': undefined"},
      {{{"a", empty({1}, Dtype::f32, meta())}}, "has no bytes on this host"},
      {{{"\xff", t}}, "is not UTF-8"},
  };
  for (const auto& [tensors, expected] : cases) {
    try {
      save_safetensors(path(), tensors);
      ADD_FAILURE() << expected;
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(SafetensorsTest, AFailedSaveLeavesTheOldFile) {
  save_safetensors(path(), {{"a", from({1, 2, 3})}});
  const std::string before = bytes_of(path());
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string answer;
  try {
    save_safetensors(path(), {{"a", zeros({100'000})}});
  } catch (const IoError& error) {
    answer = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(answer.find("cannot write the file: File too large"), std::string::npos) << answer;
  EXPECT_EQ(bytes_of(path()), before);
  EXPECT_EQ(files(), 1u);

  EXPECT_THROW(save_safetensors(path("missing/t"), {}), IoError);
  fs::create_directory(path("taken"));
  EXPECT_THROW(save_safetensors(path("taken"), {}), IoError);
  EXPECT_EQ(files(), 2u) << "the temporary file is gone";
}

}  // namespace
}  // namespace spool::test
