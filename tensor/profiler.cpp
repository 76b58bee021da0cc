#include <spool/tensor/ambient.h>
#include <spool/tensor/profiler.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace spool {
namespace {

int64_t clock_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

double Roof::seconds(double operations, double moved) const { return std::max(flops > 0 ? operations / flops : 0, bytes > 0 ? moved / bytes : 0); }

Profiler::Profiler() : start_(clock_ns()) {}

int64_t Profiler::now() const { return clock_ns() - start_; }

double Profiler::seconds() const {
  int64_t total = 0;
  for (const ProfileSpan& span : spans_) total += span.end - span.begin;
  return double(total) * 1e-9;
}

std::vector<OpTime> Profiler::by_op() const {
  std::map<std::pair<std::string, std::string>, OpTime> table;
  for (const ProfileSpan& span : spans_) {
    OpTime& time = table[{span.op, span.phase}];
    time.op = span.op;
    time.phase = span.phase;
    ++time.calls;
    time.seconds += double(span.end - span.begin) * 1e-9;
    time.flops += span.flops;
    time.bytes += span.bytes;
  }
  std::vector<OpTime> sorted;
  for (auto& [key, time] : table) sorted.push_back(std::move(time));
  std::stable_sort(sorted.begin(), sorted.end(), [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  return sorted;
}

std::string Profiler::trace_json() const {
  using Json = nlohmann::ordered_json;
  Json events = Json::array();
  for (const ProfileSpan& span : spans_) {
    const double ns = double(std::max<int64_t>(span.end - span.begin, 1));
    events.push_back({{"name", span.op},
                      {"cat", *span.phase ? span.phase : "forward"},
                      {"ph", "X"},
                      {"ts", double(span.begin) * 1e-3},
                      {"dur", ns * 1e-3},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", {{"module", path_name(span.path)}, {"GFLOP/s", span.flops / ns}, {"GB/s", span.bytes / ns}}}});
  }
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump();
}

Timed::Timed() : profiler_(ambient().profiler) {
  if (profiler_) begin_ = profiler_->now();
}
Timed::~Timed() {
  if (!profiler_) return;
  const Ambient& around = ambient();
  profiler_->post({around.op, around.phase, around.path, begin_, profiler_->now(), flops_, bytes_});
}

}  // namespace spool
