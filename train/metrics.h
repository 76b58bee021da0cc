#pragma once
// What a run says while it runs: metrics.jsonl for machines, a progress line for people.
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace spool::train {

/// A file of JSON objects, one a line, each handed to the system at once. Every object has an integer "step".
class MetricsFile {
 public:
  /// Opens for appending. A last line that was torn off is removed, and so are the lines of steps after `last_step`, if given: a run that
  /// resumes from a checkpoint repeats those steps. The cut is atomic.
  explicit MetricsFile(std::filesystem::path path, std::optional<int64_t> last_step = {});
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  /// Throws IoError if the disk is full; then no part of the line is left.
  void write(const nlohmann::ordered_json& line);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// Progress of a loop of known length, on stderr. On a terminal one line is redrawn; elsewhere lines are printed, not too often.
class Progress {
 public:
  struct Options {
    bool terminal = false;        ///< Redraw.
    int columns = 80;             ///< Width of the terminal; longer lines are cut.
    double redraw_seconds = 0.1;  ///< Least time between redraws.
    double line_seconds = 5;      ///< Least time between lines where nothing is redrawn.
    std::function<double()> now = nullptr;                       ///< Seconds, from any origin; default: a steady clock.
    std::function<void(std::string_view)> out = nullptr;         ///< Default: stderr.
  };
  /// `done` steps were made before (a resumed run): the time left is judged by this run's steps alone.
  Progress(int64_t total, int64_t done, Options options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Options for a stream: whether it is a terminal, and how wide.
  static Options options_for(std::FILE* stream);

  /// `done` of the total are made; `text` is shown after the time left ("loss 2.31, 12,345 tokens/s").
  void update(int64_t done, std::string_view text);
  /// A line of its own that stays.
  void note(std::string_view text);
  /// Leaves the last state standing, and ends the line.
  void finish();
  /// Seconds left, or NaN before the first step.
  double seconds_left() const;

 private:
  std::string line() const;
  void draw();
  int64_t total_, first_, done_;
  Options options_;
  double start_, last_drawn_;
  std::string text_;
  bool dirty_ = false, drawn_ = false, line_open_ = false;
};

}  // namespace spool::train
