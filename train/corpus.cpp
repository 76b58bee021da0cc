#include <fcntl.h>
#include <fmt/format.h>
#include <spool/tensor/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <array>
#include <cstring>
#include <optional>

#include "train/archive.h"
#include "train/data.h"
#include "train/files.h"
#include "train/format.h"

namespace spool::train {
namespace fs = std::filesystem;

// What makers of corpora may set.
struct CorpusMaker {
  static void set_split(Corpus& corpus, const fs::path& path) {
    const bool known = is_enwik8(path, corpus.size_);
    corpus.split_ = known ? enwik8_split(corpus.size_) : proportional_split(corpus.size_);
    corpus.note_ = fmt::format("{} bytes, split {} / {} / {}{}", format_count(corpus.size_), format_count(corpus.split_.train.size()),
                               format_count(corpus.split_.validation.size()), format_count(corpus.split_.test.size()), known ? " as enwik8" : "");
  }
  static void set_split(Corpus& corpus, const Split& split, std::string note) { corpus.split_ = split, corpus.note_ = std::move(note); }
};

namespace {

constexpr std::string_view lfs_start = "version https://git-lfs.github.com/spec/";

void refuse_pointer(const fs::path& path, std::string_view start, int64_t size) {
  if (start.starts_with(lfs_start))
    fail<IoError>(fmt::format("{}: is a git-lfs pointer of {} bytes, not the data; fetch it with `git lfs pull`, or get the file elsewhere",
                              path.string(), size));
}
void refuse_empty(const fs::path& path, int64_t size) {
  if (size == 0) fail<IoError>(fmt::format("{}: is empty; there is nothing to learn from", path.string()));
}

class FileCorpus : public Corpus {
 public:
  explicit FileCorpus(const fs::path& path) : Corpus(path.string(), 0), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail_io("read", path, errno);
    struct stat info {};
    const int failed = ::fstat(fd_, &info) != 0 ? errno : 0;
    if (failed || !S_ISREG(info.st_mode)) {
      ::close(fd_);
      if (failed) fail_io("read", path, failed);
      fail<IoError>(fmt::format("{}: is neither a file nor a directory", path.string()));
    }
    size_ = info.st_size;
  }
  ~FileCorpus() override { ::close(fd_); }
  FileCorpus(const FileCorpus&) = delete;
  FileCorpus& operator=(const FileCorpus&) = delete;

  void read(int64_t offset, std::span<uint8_t> out) const override {
    for (size_t done = 0; done < out.size();) {
      const ssize_t n = ::pread(fd_, out.data() + done, out.size() - done, offset + int64_t(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_io("read", name_, errno);
      if (n == 0)
        fail<IoError>(fmt::format("{}: was shortened while in use: it had {} bytes, but now ends at {}; restore it, then resume", name_,
                                  format_count(size_), format_count(offset + int64_t(done))));
      done += size_t(n);
    }
  }

 private:
  int fd_;
};

class MemoryCorpus : public Corpus {
 public:
  MemoryCorpus(std::string name, std::vector<uint8_t> bytes) : Corpus(std::move(name), int64_t(bytes.size())), bytes_(std::move(bytes)) {}
  void read(int64_t offset, std::span<uint8_t> out) const override {
    if (offset < 0 || offset + int64_t(out.size()) > size_)
      fail<IndexError>(name_, ": asked for bytes ", offset, " to ", offset + int64_t(out.size()), " of ", size_);
    std::copy_n(bytes_.begin() + offset, out.size(), out.begin());
  }

 private:
  std::vector<uint8_t> bytes_;
};

std::string_view text_of(std::span<const uint8_t> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::shared_ptr<MemoryCorpus> in_memory(const fs::path& path, std::vector<uint8_t> bytes) {
  refuse_empty(path, int64_t(bytes.size()));
  refuse_pointer(path, text_of(bytes).substr(0, 200), int64_t(bytes.size()));
  return std::make_shared<MemoryCorpus>(path.string(), std::move(bytes));
}

CorpusPtr open_file(const fs::path& path) {
  auto file = std::make_shared<FileCorpus>(path);
  refuse_empty(path, file->size());
  std::vector<uint8_t> start(size_t(std::min<int64_t>(file->size(), 200)));
  file->read(0, start);
  refuse_pointer(path, text_of(start), file->size());
  const Packing packing = packing_of(text_of(start));
  const std::string extension = path.extension().string();
  if (packing == Packing::none && (extension == ".gz" || extension == ".zip"))
    fail<IoError>(fmt::format("{}: is not a {} file, though its name says so", path.string(), extension.substr(1)));
  std::shared_ptr<Corpus> corpus = file;
  if (packing != Packing::none) corpus = in_memory(path, packing == Packing::gzip ? read_gzip(path) : read_zip(path));
  CorpusMaker::set_split(*corpus, path);
  return corpus;
}

struct TextFile {
  fs::path path;
  std::vector<uint8_t> bytes;
};

bool hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

// All text files below a directory that `wanted` likes, in order of their paths.
template <class Wanted> std::vector<TextFile> text_files(const fs::path& directory, Wanted&& wanted) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::recursive_directory_iterator it(directory, error), end;
  for (; !error && it != end; it.increment(error)) {
    if (it->is_directory(error)) {
      if (hidden(it->path()) || !wanted(it->path(), true)) it.disable_recursion_pending();
    } else if (it->is_regular_file(error) && !hidden(it->path()) && wanted(it->path(), false)) {
      paths.push_back(it->path());
    }
  }
  if (error) fail_io("read directory", directory, error.value());
  std::ranges::sort(paths, {}, [](const fs::path& path) { return path.generic_string(); });
  std::vector<TextFile> out;
  for (const fs::path& path : paths) {
    const std::string content = read_file(path);
    refuse_pointer(path, content, int64_t(content.size()));
    const bool binary = std::string_view(content).substr(0, 8192).find('\0') != std::string_view::npos || packing_of(content) != Packing::none;
    if (!binary && !content.empty()) out.push_back({path, {content.begin(), content.end()}});
  }
  return out;
}

std::vector<uint8_t> joined(std::vector<TextFile>& files) {
  std::vector<uint8_t> bytes;
  for (const TextFile& file : files) bytes.insert(bytes.end(), file.bytes.begin(), file.bytes.end());
  return bytes;
}

bool names_part(const TextFile& file, std::initializer_list<std::string_view> words) {
  std::string name = file.path.filename().string() + ".";
  std::ranges::replace_if(name, [](char c) { return c == '-' || c == '_'; }, '.');
  return std::ranges::any_of(words, [&](auto word) { return ("." + name).find(fmt::format(".{}.", word)) != std::string::npos; });
}

// The parts that files' names tell: one training file, one validation file, at most one test file, and nothing else.
std::optional<Split> order_named_parts(std::vector<TextFile>& files) {
  std::array<std::vector<TextFile*>, 3> parts;
  for (TextFile& file : files) {
    const size_t part = names_part(file, {"train"}) ? 0 : names_part(file, {"valid", "validation", "val"}) ? 1 : names_part(file, {"test"}) ? 2 : 3;
    if (part == 3) return {};
    parts[part].push_back(&file);
  }
  if (parts[0].size() != 1 || parts[1].size() != 1 || parts[2].size() > 1) return {};
  std::vector<TextFile> ordered;
  std::array<Part, 3> ranges;
  int64_t at = 0;
  for (size_t i = 0; i < 3; ++i) {
    ranges[i].begin = at;
    for (TextFile* file : parts[i]) at += int64_t(file->bytes.size()), ordered.push_back(std::move(*file));
    ranges[i].end = at;
  }
  files = std::move(ordered);
  return Split{ranges[0], ranges[1], ranges[2]};
}

CorpusPtr open_directory(const fs::path& path) {
  auto files = text_files(path, [](const fs::path&, bool) { return true; });
  if (files.empty()) fail<IoError>(fmt::format("{}: this directory holds no text files", path.string()));
  const size_t count = files.size();
  const auto named = order_named_parts(files);
  auto corpus = in_memory(path, joined(files));
  if (named)
    CorpusMaker::set_split(*corpus, *named, fmt::format("{} bytes, split by file name {} / {} / {}", format_count(corpus->size()),
                           format_count(named->train.size()), format_count(named->validation.size()), format_count(named->test.size())));
  else
    CorpusMaker::set_split(*corpus, proportional_split(corpus->size()), fmt::format("{} bytes of {} files, split 90 / 5 / 5 %",
                           format_count(corpus->size()), count));
  return corpus;
}

CorpusPtr project_text(const fs::path& source_dir) {
  const auto wanted = [&](const fs::path& path, bool directory) {
    if (directory) return path.parent_path() != source_dir || (path.filename() != "build" && path.filename() != "runs" && path.filename() != "data");
    const auto extension = path.extension();
    return extension == ".md" || extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".txt" || extension == ".cmake";
  };
  auto files = text_files(source_dir, wanted);
  if (files.empty()) fail<IoError>(fmt::format("{}: no text files of the project here; give data with --data", source_dir.string()));
  auto corpus = in_memory(source_dir, joined(files));
  CorpusMaker::set_split(*corpus, proportional_split(corpus->size()),
                         fmt::format("{} bytes of {} text files of the project", format_count(corpus->size()), files.size()));
  return corpus;
}

}  // namespace

CorpusPtr open_corpus(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    fail<IoError>(fmt::format("{}: no such file or directory; give a file, .gz, .zip or directory of text with --data", path.string()));
  if (error) fail_io("read", path, error.value());
  return fs::is_directory(status) ? open_directory(path) : open_file(path);
}

CorpusPtr memory_corpus(std::string name, std::vector<uint8_t> bytes) {
  auto corpus = in_memory(name, std::move(bytes));
  CorpusMaker::set_split(*corpus, name);
  return corpus;
}

DefaultCorpus open_default_corpus(const fs::path& working_dir, const fs::path& source_dir) {
  for (const fs::path& root : {working_dir, source_dir})
    for (const auto name : {"enwik8", "enwik8.zip", "enwik8.gz"}) {
      std::error_code ignored;
      const fs::path path = root / "data" / name;
      if (fs::exists(path, ignored)) return {open_corpus(path), ""};
    }
  const std::string advice = "for enwik8, get http://mattmahoney.net/dc/enwik8.zip and put it at data/enwik8.zip, or give other data with --data";
  std::error_code ignored;
  if (!fs::is_directory(source_dir, ignored)) fail<IoError>(fmt::format("no data/enwik8 here; {}", advice));
  return {project_text(source_dir), fmt::format("no data/enwik8 here, so this run learns from the project's own text files; {}", advice)};
}

}  // namespace spool::train
