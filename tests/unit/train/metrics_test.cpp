// metrics.jsonl, the progress line, and numbers as text.
#include "train/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/unit/train/support.h"
#include "train/files.h"
#include "train/format.h"

namespace spool::train {
namespace {
using testing::message_of;
using testing::TemporaryDirectory;

TEST(Metrics, AppendsLines) {
  const TemporaryDirectory dir;
  for (const int step : {1, 2}) MetricsFile(dir / "m.jsonl").write({{"step", step}, {"loss", 0.5}, {"bad", std::nan("")}});
  EXPECT_EQ(read_file(dir / "m.jsonl"), "{\"step\":1,\"loss\":0.5,\"bad\":null}\n{\"step\":2,\"loss\":0.5,\"bad\":null}\n");
}

TEST(Metrics, ResumeCutsTornAndRepeatedLines) {
  const TemporaryDirectory dir;
  const std::string text = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4,\"lo";
  dir.write("m.jsonl", text);
  { MetricsFile file(dir / "m.jsonl"); }
  EXPECT_EQ(read_file(dir / "m.jsonl"), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  MetricsFile(dir / "m.jsonl", 2).write({{"step", 3}, {"again", true}});
  EXPECT_EQ(read_file(dir / "m.jsonl"), "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"again\":true}\n");
  EXPECT_EQ(testing::names_in(dir.path()), std::vector<std::string>{"m.jsonl"});
}

TEST(Metrics, FullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const TemporaryDirectory dir;
  std::filesystem::create_symlink("/dev/null", dir / "m.jsonl");
  EXPECT_NO_THROW(MetricsFile(dir / "m.jsonl").write({{"step", 1}}));
  EXPECT_EQ(message_of<IoError>([&] { MetricsFile(dir / "no/m.jsonl"); }), "cannot create " + (dir / "no/m.jsonl").string() + ": No such file or directory");
}

struct Screen {
  double time = 0;
  std::string text;
  Progress::Options options(bool terminal) {
    return {.terminal = terminal, .columns = 60, .now = [this] { return time; }, .out = [this](std::string_view s) { text += s; }};
  }
};

TEST(Progress, LinesElsewhere) {
  Screen screen;
  {
    Progress progress(1000, 0, screen.options(false));
    screen.time = 1;
    progress.update(100, "loss 2.5");
    screen.time = 2;
    progress.update(200, "loss 2.4");  // too soon
    screen.time = 7;
    progress.update(700, "loss 2.3");
    progress.note("saved");
    screen.time = 10;
    progress.update(1000, "loss 2.2");
    progress.finish();
  }
  EXPECT_EQ(screen.text,
            "step 100/1,000 10%  9.0 s left  loss 2.5\nstep 700/1,000 70%  3.0 s left  loss 2.3\nsaved\nstep 1,000/1,000 100%  10.0 s  loss 2.2\n");
}

TEST(Progress, RedrawsOnATerminal) {
  Screen screen;
  {
    Progress progress(10, 0, screen.options(true));
    screen.time = 1;
    progress.update(1, "a");
    screen.time = 1.01;
    progress.update(2, "b");
    EXPECT_EQ(screen.text, "\rstep 1/10 10%  9.0 s left  a\x1b[K");
    screen.text.clear();
    progress.note("saved");
    EXPECT_TRUE(screen.text.starts_with("\r\x1b[Ksaved\n\rstep 2/10")) << screen.text;
    screen.text.clear();
    screen.time = 5;
    progress.update(5, std::string(100, 'x'));
    EXPECT_EQ(screen.text.size(), 1 + 59 + 3U);
    screen.text.clear();
  }
  EXPECT_EQ(screen.text, "\n");  // the line is ended even if the loop was left by an error
}

TEST(Progress, ResumedRunJudgesByItsOwnSteps) {
  Screen screen;
  Progress progress(1000, 900, screen.options(false));
  EXPECT_TRUE(std::isnan(progress.seconds_left()));
  screen.time = 10;
  progress.update(910, "");
  EXPECT_DOUBLE_EQ(progress.seconds_left(), 90);
}

TEST(Format, SizesAreRead) {
  EXPECT_EQ(parse_bytes("2GiB", "--limit"), int64_t(2) << 30);
  EXPECT_EQ(parse_bytes("1.5 MiB", "--limit"), 3 << 19);
  EXPECT_EQ(parse_bytes("3KiB", "--limit"), 3072);
  EXPECT_EQ(parse_bytes("100000", "--limit"), 100000);
  EXPECT_EQ(parse_bytes("7 B", "--limit"), 7);
  EXPECT_EQ(parse_bytes("1TiB", "--limit"), int64_t(1) << 40);
  for (const char* text : {"", "GiB", "2GB", "2 gib", "-1", "0", "0.5", "nan", "inf", "1e99", "2GiB ", "2  GiB", "0x10", "1,000"}) {
    const std::string message = message_of<ConfigError>([&] { parse_bytes(text, "--limit"); });
    EXPECT_EQ(message, concat("--limit: \"", text, "\" is no size; write a number of bytes, or one with KiB, MiB, GiB or TiB, such as 2GiB"));
  }
}

TEST(Format, Numbers) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-1234), "-1,234");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(format_count(INT64_MIN), "-9,223,372,036,854,775,808");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1234567), "1,234,567 B (1.18 MiB)");
  EXPECT_EQ(format_bytes(int64_t(5) << 30), "5,368,709,120 B (5.00 GiB)");
  EXPECT_EQ(format_bytes(-2048), "-2,048 B (-2.00 KiB)");
  EXPECT_EQ(format_rate(24690, 2, "tokens"), "12,345 tokens/s");
  EXPECT_EQ(format_rate(5, 2, "steps"), "2.5 steps/s");
  EXPECT_EQ(format_rate(5, 0, "steps"), "? steps/s");
}

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(0.45), "450 ms");
  EXPECT_EQ(format_duration(3.24), "3.2 s");
  EXPECT_EQ(format_duration(59.96), "1 min 00 s");
  EXPECT_EQ(format_duration(125), "2 min 05 s");
  EXPECT_EQ(format_duration(3720), "1 h 02 min");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600), "3 d 04 h");
  EXPECT_EQ(format_duration(std::nan("")), "?");
  EXPECT_EQ(format_duration(-1), "?");
}

}  // namespace
}  // namespace spool::train
