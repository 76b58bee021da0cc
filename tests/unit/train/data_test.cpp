// Splits, windows, the copying task, batches.
#include "train/data.h"

#include <set>

#include "tests/unit/train/support.h"
#include "tests/support.h"
#include "train/dataset.h"

namespace spool::train {
namespace {
using testing::message_of;
using testing::TemporaryDirectory;

std::vector<int64_t> sizes(const Split& split) { return {split.train.size(), split.validation.size(), split.test.size()}; }

CorpusPtr counting(int64_t size) {
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(i * 7 + i / 251);
  return memory_corpus("memory", std::move(bytes));
}
std::vector<int32_t> tokens_of(const CorpusPtr& corpus, int64_t begin, int64_t size) {
  std::vector<uint8_t> out(static_cast<size_t>(size));
  corpus->read(begin, out);
  return {out.begin(), out.end()};
}

TEST(Split, Proportional) {
  EXPECT_EQ(sizes(proportional_split(4154399)), (std::vector<int64_t>{3738959, 207719, 207721}));
  EXPECT_EQ(sizes(proportional_split(100)), (std::vector<int64_t>{90, 5, 5}));
  EXPECT_EQ(sizes(proportional_split(1)), (std::vector<int64_t>{0, 0, 1}));
  for (int64_t n = 0; n < 3000; ++n) {
    const Split s = proportional_split(n);
    EXPECT_EQ(s.train.size(), n * 9 / 10);
    EXPECT_EQ(s.validation.size(), n / 20);
    EXPECT_EQ(s.train.begin, 0);
    EXPECT_EQ(s.validation.begin, s.train.end);
    EXPECT_EQ(s.test.begin, s.validation.end);
    EXPECT_EQ(s.test.end, n);
  }
  EXPECT_EQ(proportional_split(INT64_MAX).test.end, INT64_MAX);
}

TEST(Split, Enwik8) {
  EXPECT_EQ(sizes(enwik8_split(100000000)), (std::vector<int64_t>{90000000, 5000000, 5000000}));
  EXPECT_EQ(sizes(enwik8_split(96000000)), (std::vector<int64_t>{90000000, 5000000, 1000000}));
  EXPECT_TRUE(is_enwik8("a/anything", 100000000));
  EXPECT_TRUE(is_enwik8("a/enwik8.zip", 95000000));
  EXPECT_FALSE(is_enwik8("a/enwik8.prefix", 94999999));
  EXPECT_FALSE(is_enwik8("a/enwik9", 1000000000));
}

TEST(Permuted, IsABijectionForEverySizeAndKey) {
  for (const int64_t count : {1, 2, 3, 16, 17, 100, 4097}) {
    for (const uint64_t seed : {1, 2}) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = permuted(i, count, RandomKey(seed));
        ASSERT_GE(at, 0);
        ASSERT_LT(at, count);
        seen.insert(at);
      }
      EXPECT_EQ(int64_t(seen.size()), count);
    }
  }
  int64_t fixed = 0, kept = 0;
  for (int64_t i = 0; i + 1 < 4096; ++i) {
    fixed += permuted(i, 4096, RandomKey(3)) == i;
    kept += permuted(i + 1, 4096, RandomKey(3)) == permuted(i, 4096, RandomKey(3)) + 1;
  }
  EXPECT_LT(fixed, 10) << "a random order of 4,096 has one fixed point on average";
  EXPECT_LT(kept, 10);
}

TEST(ShuffledWindows, EveryEpochSeesEveryWindowOnceInAnOrderOfItsOwn) {
  std::vector<uint8_t> bytes(5000);
  Generator random(9);
  for (uint8_t& byte : bytes) byte = uint8_t(random.next());  // so that ten bytes say where they are from
  const CorpusPtr corpus = memory_corpus("memory", std::move(bytes));
  const Part part{100, 4165};
  const ShuffledWindows windows(token_stream(corpus, part), 10, RandomKey(4), "training");
  EXPECT_EQ(windows.count(), (4065 - 9) / 10);
  std::vector<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> order;
    std::vector<int32_t> out(10);
    for (int64_t i = 0; i < windows.count(); ++i) {
      windows.read(epoch * windows.count() + i, out);
      for (int64_t at = part.begin; at + 10 <= part.end; ++at)
        if (tokens_of(corpus, at, 10) == out) order.push_back(at);
    }
    ASSERT_EQ(int64_t(order.size()), windows.count()) << "each is a window of the part";
    std::set<int64_t> phases;
    for (const int64_t at : order) phases.insert((at - part.begin) % 10);
    EXPECT_EQ(phases.size(), 1u) << "one grid an epoch";
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), order.size()) << "no window twice";
    orders.push_back(std::move(order));
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(Windows, InOrderAndAround) {
  const CorpusPtr corpus = counting(1000);
  const Windows windows(token_stream(corpus, {100, 165}), 10, "training");
  EXPECT_EQ(windows.count(), 6);
  std::vector<int32_t> out(10);
  for (const int64_t step : {0, 1, 5, 6, 13}) {
    windows.read(step, out);
    EXPECT_EQ(out, tokens_of(corpus, 100 + step % 6 * 10, 10));
  }
  EXPECT_EQ(message_of<IoError>([&] { Windows(token_stream(corpus, {100, 165}), 66, "training"); }),
            "memory: too short: the training part has 65 of the 1,000 bytes, but 66 are needed; use longer data, or set data.seq or data.batch lower");
  std::vector<int32_t> wrong(11);
  EXPECT_THROW(windows.read(0, wrong), IndexError);
  EXPECT_THROW(windows.read(-1, out), IndexError);
}

TEST(Windows, FixedSets) {
  EXPECT_EQ(fixed_windows(5, 0), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(fixed_windows(5, 9), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(fixed_windows(10, 4), (std::vector<int64_t>{0, 2, 5, 7}));
  EXPECT_EQ(fixed_windows(0, 4), std::vector<int64_t>{});
}

TEST(CopyTask, Shape) {
  std::vector<int32_t> out(512);
  std::array<int, 256> seen{};
  for (int64_t step = 0; step < 200; ++step) {
    copy_sequence(42, "train", step, 0, out);
    EXPECT_EQ(out[0], 0);
    EXPECT_EQ(out[256], 0);
    for (size_t i = 0; i < 256; ++i) EXPECT_EQ(out[i], out[i + 256]);
    for (size_t i = 1; i < 256; ++i) ++seen[size_t(out[i])];
  }
  EXPECT_EQ(seen[0], 0);
  double chi = 0;  // 254 degrees of freedom: mean 254, deviation 22.5
  for (size_t v = 1; v < 256; ++v) chi += (seen[v] - 200.0) * (seen[v] - 200.0) / 200.0;
  EXPECT_GT(chi, 160);
  EXPECT_LT(chi, 350);
}

TEST(CopyTask, PureFunctionOfItsArguments) {
  const auto make = [](uint64_t seed, std::string_view stream, int64_t step, int64_t row) {
    std::vector<int32_t> out(64);
    copy_sequence(seed, stream, step, row, out);
    return out;
  };
  std::set<std::vector<int32_t>> different;
  for (const uint64_t seed : {1, 2})
    for (const auto stream : {"train", "validation"})
      for (const int64_t step : {int64_t(0), int64_t(1), int64_t(1) << 32})
        for (const int64_t row : {0, 1}) {
          different.insert(make(seed, stream, step, row));
          EXPECT_EQ(make(seed, stream, step, row), make(seed, stream, step, row));
        }
  EXPECT_EQ(different.size(), 24U);
  EXPECT_THROW(
      {
        std::vector<int32_t> odd(7);
        copy_sequence(1, "train", 0, 0, odd);
      },
      ConfigError);
}

TEST(Dataset, Copy) {
  const Dataset set = Dataset::open({.task = Task::copy, .seq = 16, .batch = 3}, {});
  const Batch batch = set.train(7);
  EXPECT_EQ(batch.rows, 3);
  EXPECT_EQ(batch.scored, 24);
  ASSERT_EQ(batch.mask.size(), 48U);
  for (size_t i = 0; i < 48; ++i) EXPECT_EQ(batch.mask[i], i % 16 >= 8 ? 1 : 0);
  EXPECT_EQ(set.validation_count(), 64);
  const Batch all = set.validation(0, 64), tail = set.validation(60, 16);
  EXPECT_EQ(all.rows, 64);
  EXPECT_EQ(tail.rows, 4);
  EXPECT_TRUE(std::equal(tail.tokens.begin(), tail.tokens.end(), all.tokens.begin() + 60 * 16));
  EXPECT_THROW(set.validation(64, 1), IndexError);
}

TEST(Dataset, TextIsStatelessAndInOrder) {
  const TemporaryDirectory dir;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += char('a' + i % 26 + i / 700);
  const auto file = dir.write("text", text);
  const DataConfig data{.path = file.string(), .seq = 10, .batch = 4};
  const Dataset set = Dataset::open(data, {}), resumed = Dataset::open(data, {.seed = 1, .eval_windows = 3});
  EXPECT_EQ(set.tokens_per_epoch(), 1800);
  for (const int64_t step : {0, 44, 45, 97}) {
    const Batch batch = set.train(step);
    EXPECT_EQ(std::string(batch.tokens.begin(), batch.tokens.end()), text.substr(size_t(step % 45) * 40, 40));
    EXPECT_EQ(resumed.train(step).tokens, batch.tokens);
    EXPECT_EQ(batch.scored, 36);
    EXPECT_TRUE(batch.mask.empty());
  }
  EXPECT_EQ(set.validation_count(), 10);
  EXPECT_EQ(resumed.validation_count(), 3);
  const Batch validation = set.validation(8, 16);
  EXPECT_EQ(std::string(validation.tokens.begin(), validation.tokens.end()), text.substr(1880, 20));
}

TEST(Dataset, TooShort) {
  const TemporaryDirectory dir;
  const auto file = dir.write("short", std::string(100, 'x'));
  EXPECT_EQ(message_of<IoError>([&] { Dataset::open({.path = file.string(), .seq = 512}, {}); }),
            file.string() + ": too short: the training part has 90 of the 100 bytes, but 512 are needed; use longer data, or set data.seq or data.batch lower");
  EXPECT_EQ(message_of<IoError>([&] { Dataset::open({.path = file.string(), .seq = 20}, {}); }).find(file.string() + ": too short: the validation part has 5 of"), 0U);
}

TEST(Dataset, RealText) {
  SPOOL_REQUIRE_DATA("enwik8/enwik8.prefix");
  const auto file = test::data_path("enwik8/enwik8.prefix");
  const Dataset set = Dataset::open({.path = file.string(), .seq = 1024}, {});
  EXPECT_EQ(sizes(set.corpus()->split()), (std::vector<int64_t>{3738959, 207719, 207721}));
  EXPECT_EQ(set.validation_count(), 202);
  const Batch batch = set.train(0);
  EXPECT_EQ(std::string(batch.tokens.begin(), batch.tokens.begin() + 10), "<mediawiki");
  std::set<int32_t> seen;
  for (int64_t step = 0; step < 3651; ++step)
    for (const int32_t byte : set.train(step).tokens) seen.insert(byte);
  EXPECT_GT(seen.size(), 190U);
  EXPECT_LE(seen.size(), 200U);
}

}  // namespace
}  // namespace spool::train
