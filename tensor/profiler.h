#pragma once
// When ops ran, for how long, and how much work they did: what `spool train --profile` shows. Off unless a Profiler is ambient; then each
// kernel posts one span. Spans do not nest, so their times add up, and what is left of a step is the tape, allocation and the like.
//
//   Profiler profiler;
//   With on(&Ambient::profiler, &profiler);
//   train_step(…);
//   for (const OpTime& t : profiler.by_op()) …
#include <cstdint>
#include <string>
#include <vector>

namespace spool {

/// One call of one kernel. Times are in ns since the profiler was made.
struct ProfileSpan {
  const char* op = "";
  const char* phase = "";  ///< "", "backward", "optimizer step".
  uint32_t path = 0;       ///< Interned module path.
  int64_t begin = 0, end = 0;
  double flops = 0, bytes = 0;  ///< As the op's cost declares them.
};

/// What the machine can do: the other end of the scale.
struct Roof {
  double flops = 0;  ///< A second, of a large f32 product.
  double bytes = 0;  ///< A second, read and written by a large copy.
  /// Seconds that work takes at the least: what is slower of arithmetic and moving.
  double seconds(double operations, double moved) const;
};
/// All calls of one op in one phase.
struct OpTime {
  std::string op, phase;
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

class Profiler {
 public:
  Profiler();
  int64_t now() const;  ///< ns since it was made.
  void post(const ProfileSpan& span) { spans_.push_back(span); }
  const std::vector<ProfileSpan>& spans() const { return spans_; }
  double seconds() const;              ///< Of all spans together.
  std::vector<OpTime> by_op() const;   ///< The costliest first.
  void clear() { spans_.clear(); }
  /// Trace Event Format for Perfetto and chrome://tracing: a complete event a span, with module, GFLOP/s and GB/s.
  std::string trace_json() const;

 private:
  int64_t start_;
  std::vector<ProfileSpan> spans_;
};

/// Times from here to the end of the C++ scope as one span of the ambient op, when there is an ambient profiler.
class [[nodiscard]] Timed {
 public:
  Timed();
  /// With the work known beforehand.
  Timed(double flops, double bytes) : Timed() { work(flops, bytes); }
  ~Timed();
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  explicit operator bool() const { return profiler_; }  ///< Whether anybody looks.
  void work(double flops, double bytes) {
    flops_ = flops;
    bytes_ = bytes;
  }

 private:
  Profiler* profiler_;
  int64_t begin_ = 0;
  double flops_ = 0, bytes_ = 0;
};

}  // namespace spool
