// Where bytes come from: plain, compressed, directories, and everything that is refused.
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include "tests/unit/train/support.h"
#include "train/data.h"

namespace spool::train {
namespace {
using testing::message_of;
using testing::OrdinaryUser;
using testing::TemporaryDirectory;

std::string content(const CorpusPtr& corpus) {
  std::string out(size_t(corpus->size()), '\0');
  corpus->read(0, {reinterpret_cast<uint8_t*>(out.data()), out.size()});
  return out;
}
std::string refusal(const std::filesystem::path& path) {
  const std::string text = message_of<IoError>([&] { open_corpus(path); }), place = path.string() + ": ";
  EXPECT_EQ(text.find(place), 0U) << text;
  return text.substr(std::min(text.size(), place.size()));
}
std::string gzip(std::string_view text) {
  const TemporaryDirectory dir;
  const auto path = dir / "x.gz";
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), unsigned(text.size()));
  gzclose(file);
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void make_zip(const std::filesystem::path& path, const std::vector<std::pair<std::string, std::string>>& members) {
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  for (const auto& [name, text] : members) {
    if (name.ends_with('/')) zip_dir_add(archive, name.c_str(), 0);
    else zip_file_add(archive, name.c_str(), zip_source_buffer(archive, text.data(), text.size(), 0), 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}
std::string sample(size_t size) {
  std::string out;
  for (size_t i = 0; i < size; ++i) out += char(i * 31 % 251 + (i >> 8) % 3);
  return out;
}

TEST(Corpus, PlainFileByteForByte) {
  const TemporaryDirectory dir;
  const std::string text = "a\r\nb\x88\xff\0c\x1a" + sample(5000);
  const CorpusPtr corpus = open_corpus(dir.write("data", text));
  EXPECT_EQ(content(corpus), text);
  EXPECT_EQ(corpus->split().train.size(), int64_t(text.size()) * 9 / 10);
}

TEST(Corpus, Gzip) {
  const TemporaryDirectory dir;
  const std::string text = sample(3'000'000);
  EXPECT_EQ(content(open_corpus(dir.write("data.gz", gzip(text)))), text);
  EXPECT_EQ(content(open_corpus(dir.write("named-otherwise", gzip(text)))), text);
  EXPECT_EQ(content(open_corpus(dir.write("two.gz", gzip("one ") + gzip("two")))), "one two");
  EXPECT_EQ(refusal(dir.write("text.gz", "plain text")), "is not a gz file, though its name says so");
  std::string bytes = gzip(text);
  EXPECT_EQ(refusal(dir.write("cut.gz", bytes.substr(0, bytes.size() / 2))).find("is damaged or incomplete ("), 0U);
  bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 0x55);
  EXPECT_EQ(refusal(dir.write("flipped.gz", bytes)).find("is damaged or incomplete ("), 0U);
  EXPECT_EQ(refusal(dir.write("empty.gz", gzip(""))), "is empty; there is nothing to learn from");
}

TEST(Corpus, Zip) {
  const TemporaryDirectory dir;
  const std::string text = sample(3'000'000);
  make_zip(dir / "one.zip", {{"d/", ""}, {"d/enwik8", text}});
  EXPECT_EQ(content(open_corpus(dir / "one.zip")), text);
  make_zip(dir / "two.zip", {{"a", "x"}, {"b", "y"}});
  EXPECT_EQ(refusal(dir / "two.zip"), "this archive has 2 members (a, b), but exactly one is needed; unpack it and give a file or the directory");
  make_zip(dir / "many.zip", {{"a", "x"}, {"b", "y"}, {"c", "y"}, {"d", "y"}, {"e", "y"}, {"f", "y"}, {"g", "y"}});
  EXPECT_EQ(refusal(dir / "many.zip").find("this archive has 7 members (a, b, c, d, e and 2 more)"), 0U);
  make_zip(dir / "none.zip", {{"d/", ""}});
  EXPECT_EQ(refusal(dir / "none.zip"), "this archive has no members; exactly one is needed");
  std::ifstream in(dir / "one.zip", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(refusal(dir.write("cut.zip", bytes.substr(0, bytes.size() / 2))).find("is damaged or incomplete ("), 0U);
  std::string flipped = bytes;
  flipped[2000] = char(flipped[2000] ^ 0x55);
  EXPECT_EQ(refusal(dir.write("flipped.zip", flipped)).find("is damaged or incomplete ("), 0U);
  EXPECT_EQ(refusal(dir.write("text.zip", "plain text")), "is not a zip file, though its name says so");
}

TEST(Corpus, Directory) {
  const TemporaryDirectory dir;
  dir.write("b.txt", "two ");
  dir.write("a/z.txt", "one ");
  dir.write("c.txt", "three");
  dir.write(".hidden", "no");
  dir.write(".git/config", "no");
  dir.write("binary", std::string("no\0no", 5));
  dir.write("empty", "");
  const CorpusPtr corpus = open_corpus(dir.path());
  EXPECT_EQ(content(corpus), "one two three");
  EXPECT_EQ(corpus->note(), "13 bytes of 3 files, split 90 / 5 / 5 %");
  dir.write("d.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
  EXPECT_EQ(message_of<IoError>([&] { open_corpus(dir.path()); }).find((dir / "d.txt").string() + ": is a git-lfs pointer"), 0U);
}

TEST(Corpus, DirectoryWithNamedParts) {
  const TemporaryDirectory dir;
  dir.write("ptb.test.txt", "ttt");
  dir.write("ptb.train.txt", "aaaaaaaa");
  dir.write("ptb.valid.txt", "vv");
  const CorpusPtr corpus = open_corpus(dir.path());
  EXPECT_EQ(content(corpus), "aaaaaaaavvttt");
  EXPECT_EQ(corpus->split().train, (Part{0, 8}));
  EXPECT_EQ(corpus->split().validation, (Part{8, 10}));
  EXPECT_EQ(corpus->split().test, (Part{10, 13}));
  dir.write("other.txt", "ooo");
  EXPECT_EQ(open_corpus(dir.path())->split().train.size(), 14);
}

TEST(Corpus, Refused) {
  const TemporaryDirectory dir;
  EXPECT_EQ(refusal(dir / "missing"), "no such file or directory; give a file, .gz, .zip or directory of text with --data");
  EXPECT_EQ(refusal(dir.write("empty", "")), "is empty; there is nothing to learn from");
  std::filesystem::create_directory(dir / "nothing");
  EXPECT_EQ(refusal(dir / "nothing"), "this directory holds no text files");
  EXPECT_EQ(refusal("/dev/null"), "is neither a file nor a directory");
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 100000000\n";
  EXPECT_EQ(refusal(dir.write("enwik8", pointer)), "is a git-lfs pointer of 134 bytes, not the data; fetch it with `git lfs pull`, or get the file elsewhere");
  EXPECT_EQ(refusal(dir.write("enwik8.gz", pointer)).find("is a git-lfs pointer"), 0U);
}

TEST(Corpus, Unreadable) {
  const TemporaryDirectory dir;
  const auto file = dir.write("closed", "text");
  std::filesystem::permissions(dir.path(), std::filesystem::perms::all);
  std::filesystem::permissions(file, std::filesystem::perms::none);
  const OrdinaryUser user;
  if (!user.works()) GTEST_SKIP() << "cannot give up the superuser's rights";
  EXPECT_EQ(message_of<IoError>([&] { open_corpus(file); }), "cannot read " + file.string() + ": Permission denied");
}

TEST(Corpus, ShortenedWhileInUse) {
  const TemporaryDirectory dir;
  const auto file = dir.write("data", sample(100000));
  const CorpusPtr corpus = open_corpus(file);
  ASSERT_EQ(::truncate(file.c_str(), 50000), 0);
  std::vector<uint8_t> out(1000);
  EXPECT_NO_THROW(corpus->read(0, out));
  EXPECT_EQ(message_of<IoError>([&] { corpus->read(49500, out); }),
            file.string() + ": was shortened while in use: it had 100,000 bytes, but now ends at 50,000; restore it, then resume");
}

TEST(Corpus, Default) {
  const TemporaryDirectory work, source;
  source.write("README.md", "readme ");
  source.write("tensor/a.h", "header ");
  source.write("tensor/a.cpp", "source");
  source.write("build/b.h", "no");
  source.write("picture.png", "no");
  const DefaultCorpus own = open_default_corpus(work.path(), source.path());
  EXPECT_EQ(content(own.corpus), "readme sourceheader ");
  EXPECT_NE(own.notice.find("http://mattmahoney.net/dc/enwik8.zip"), std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { open_default_corpus(work.path(), work / "absent"); }).find("http://mattmahoney.net/dc/enwik8.zip"), std::string::npos);

  make_zip((source.write("data/x", ""), source / "data/enwik8.zip"), {{"enwik8", "zipped"}});
  const DefaultCorpus zipped = open_default_corpus(work.path(), source.path());
  EXPECT_EQ(content(zipped.corpus), "zipped");
  EXPECT_EQ(zipped.notice, "");
  work.write("data/enwik8", "plain");
  EXPECT_EQ(content(open_default_corpus(work.path(), source.path()).corpus), "plain");
}

}  // namespace
}  // namespace spool::train
