#include "train/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spool/tensor/error.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "train/files.h"
#include "train/format.h"

namespace spool::train {
namespace {

// The complete lines that a resumed run keeps.
std::string kept_lines(const std::string& text, std::optional<int64_t> last_step) {
  std::string out;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    const auto step = json.find("step");
    if (last_step && step != json.end() && step->is_number_integer() && step->get<int64_t>() > *last_step) continue;
    out += line + '\n';
  }
  return out;
}

double steady_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// At most `columns` characters; UTF-8 continuation bytes do not count.
std::string cut(const std::string& text, int columns) {
  int used = 0;
  for (size_t i = 0; i < text.size(); ++i)
    if ((uint8_t(text[i]) & 0xC0) != 0x80 && ++used > columns) return text.substr(0, i);
  return text;
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, std::optional<int64_t> last_step) : path_(std::move(path)) {
  if (std::filesystem::exists(path_)) {
    const std::string text = read_file(path_), kept = kept_lines(text, last_step);
    if (kept != text) write_file_atomic(path_, kept);
  }
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_io("create", path_, errno);
}

MetricsFile::~MetricsFile() { ::close(fd_); }

void MetricsFile::write(const nlohmann::ordered_json& line) {
  const std::string text = line.dump() + '\n';
  struct stat before {};
  const bool known = ::fstat(fd_, &before) == 0 && S_ISREG(before.st_mode);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error_number = errno;
      if (known && ::ftruncate(fd_, before.st_size) != 0) fail_io("write", path_, errno);
      fail_io("write", path_, error_number);
    }
    rest.remove_prefix(size_t(n));
  }
}

Progress::Options Progress::options_for(std::FILE* stream) {
  Options options;
  options.terminal = ::isatty(::fileno(stream)) != 0;
  winsize size{};
  if (options.terminal && ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) options.columns = size.ws_col;
  return options;
}

Progress::Progress(int64_t total, int64_t done, Options options) : total_(total), first_(done), done_(done), options_(std::move(options)) {
  if (!options_.now) options_.now = steady_seconds;
  if (!options_.out) options_.out = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr), std::fflush(stderr); };
  start_ = last_drawn_ = options_.now();
}

Progress::~Progress() {
  if (line_open_) options_.out("\n");
}

double Progress::seconds_left() const {
  if (done_ <= first_) return std::numeric_limits<double>::quiet_NaN();
  return (options_.now() - start_) / double(done_ - first_) * double(std::max<int64_t>(total_ - done_, 0));
}

std::string Progress::line() const {
  const std::string left = done_ < total_ ? fmt::format("{} left", format_duration(seconds_left())) : format_duration(options_.now() - start_);
  const int64_t percent = total_ > 0 ? int64_t(100.0 * double(done_) / double(total_)) : 100;
  return fmt::format("step {}/{} {}%  {}{}{}", format_count(done_), format_count(total_), percent, left, text_.empty() ? "" : "  ", text_);
}

void Progress::draw() {
  if (options_.terminal) {
    options_.out(fmt::format("\r{}\x1b[K", cut(line(), options_.columns - 1)));
    line_open_ = true;
  } else {
    options_.out(line() + "\n");
  }
  last_drawn_ = options_.now();
  drawn_ = true;
  dirty_ = false;
}

void Progress::update(int64_t done, std::string_view text) {
  done_ = done;
  text_ = text;
  dirty_ = true;
  const double least = options_.terminal ? options_.redraw_seconds : options_.line_seconds;
  if (!drawn_ || options_.now() - last_drawn_ >= least) draw();
}

void Progress::note(std::string_view text) {
  options_.out(fmt::format("{}{}\n", line_open_ ? "\r\x1b[K" : "", text));
  line_open_ = false;
  if (options_.terminal && drawn_) draw();
}

void Progress::finish() {
  if (dirty_) draw();
  if (line_open_) options_.out("\n");
  line_open_ = false;
}

}  // namespace spool::train
