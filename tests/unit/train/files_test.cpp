// Publishing files: whole or not at all.
#include "train/files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/unit/train/support.h"

namespace spool::train {
namespace {
using testing::message_of;
using testing::names_in;
using testing::OrdinaryUser;
using testing::TemporaryDirectory;
using Names = std::vector<std::string>;

TEST(Files, StagedDirectoryAppearsWhole) {
  const TemporaryDirectory dir;
  const auto target = dir / "checkpoints/step-10";
  {
    StagedDirectory staged(target);
    write_file(staged.path() / "model", "weights");
    std::filesystem::create_directory(staged.path() / "sub");
    write_file(staged.path() / "sub/state.json", "{}");
    EXPECT_FALSE(std::filesystem::exists(target));
    EXPECT_TRUE(is_temporary(staged.path()));
    staged.publish();
  }
  EXPECT_EQ(names_in(dir / "checkpoints"), Names{"step-10"});
  EXPECT_EQ(read_file(target / "model"), "weights");
  EXPECT_EQ(read_file(target / "sub/state.json"), "{}");
}

TEST(Files, UnpublishedLeavesNothing) {
  const TemporaryDirectory dir;
  {
    StagedDirectory staged(dir / "step-10/");
    write_file(staged.path() / "model", "half");
  }
  EXPECT_EQ(names_in(dir.path()), Names{});
}

TEST(Files, PublishReplaces) {
  const TemporaryDirectory dir;
  for (const auto text : {"one", "two"}) {
    StagedDirectory staged(dir / "step-10");
    write_file(staged.path() / text, text);
    staged.publish();
  }
  EXPECT_EQ(names_in(dir.path()), Names{"step-10"});
  EXPECT_EQ(names_in(dir / "step-10"), Names{"two"});
}

TEST(Files, TemporaryNames) {
  EXPECT_TRUE(is_temporary("a/step-10.tmp-4711-0"));
  EXPECT_FALSE(is_temporary("step-10"));
  EXPECT_FALSE(is_temporary("step-10.tmp-"));
  EXPECT_FALSE(is_temporary("notes.tmp-mine"));
  const TemporaryDirectory dir;
  dir.write("step-10.tmp-4711-0/model", "half");
  dir.write("config.toml.tmp-4711-1", "half");
  dir.write("step-9/model", "whole");
  remove_temporaries(dir.path());
  EXPECT_EQ(names_in(dir.path()), Names{"step-9"});
  EXPECT_NO_THROW(remove_temporaries(dir / "absent"));
}

TEST(Files, AtomicFile) {
  const TemporaryDirectory dir;
  write_file_atomic(dir / "f", "one");
  write_file_atomic(dir / "f", "two");
  EXPECT_EQ(read_file(dir / "f"), "two");
  EXPECT_EQ(names_in(dir.path()), Names{"f"});
}

TEST(Files, APipeIsWrittenToAndNotReplaced) {
  const TemporaryDirectory dir;
  const auto pipe = dir / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_file_atomic(pipe, "bytes");
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 5);
  EXPECT_STREQ(got, "bytes");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(names_in(dir.path()), Names{"pipe"});
}

TEST(Files, FullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_EQ(message_of<IoError>([] { write_file("/dev/full", "x"); }), "cannot write /dev/full: No space left on device");
}

// A limit on the size of files stands in for a disk that fills up while a checkpoint is written; it holds for a whole process.
TEST(Files, FailingWriteKeepsTheLastGoodOne) {
  const TemporaryDirectory dir;
  const auto save = [&](const std::string& bytes) {
    StagedDirectory staged(dir / "step-10");
    write_file(staged.path() / "model", bytes);
    staged.publish();
  };
  save("good");
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    try {
      save(std::string(100000, 'x'));
    } catch (const IoError& e) {
      const std::string_view text = e.what();
      ::_exit(text.starts_with("cannot write ") && text.ends_with("/model: File too large") ? 0 : 3);
    }
    ::_exit(4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(names_in(dir.path()), Names{"step-10"});
  EXPECT_EQ(read_file(dir / "step-10/model"), "good");
}

TEST(Files, ErrorsNamePathAndReason) {
  const TemporaryDirectory dir;
  const std::string file = dir.write("file", "x").string();
  EXPECT_EQ(message_of<IoError>([&] { write_file(dir / "no/f", "x"); }), "cannot create " + (dir / "no/f").string() + ": No such file or directory");
  EXPECT_EQ(message_of<IoError>([&] { read_file(dir / "no"); }), "cannot read " + (dir / "no").string() + ": No such file or directory");
  EXPECT_EQ(message_of<IoError>([&] { read_file(dir.path()); }), "cannot read " + dir.path().string() + ": Is a directory");
  EXPECT_EQ(message_of<IoError>([&] { make_directories(dir / "file/sub"); }), "cannot create directory " + file + "/sub: Not a directory");
  EXPECT_EQ(message_of<IoError>([&] { make_directories(file); }), "cannot create directory " + file + ": Not a directory");
}

TEST(Files, NoPermission) {
  const TemporaryDirectory dir;
  std::filesystem::create_directory(dir / "closed");
  std::filesystem::permissions(dir / "closed", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  std::filesystem::permissions(dir.path(), std::filesystem::perms::all);
  const OrdinaryUser user;
  if (!user.works()) GTEST_SKIP() << "cannot give up the superuser's rights";
  const std::string text = message_of<IoError>([&] { StagedDirectory staged(dir / "closed/step-1"); });
  EXPECT_EQ(text.find("cannot create directory " + (dir / "closed/step-1.tmp-").string()), 0U) << text;
  EXPECT_TRUE(text.ends_with(": Permission denied")) << text;
}

}  // namespace
}  // namespace spool::train
