#include "train/profile_report.h"

#include <fmt/format.h>
#include <spool/ops/matmul.h>
#include <spool/tensor/copy.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

#include "train/format.h"

namespace spool::train {
namespace {

double best_of(int runs, const std::function<void()>& f) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    const auto began = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return best;
}

}  // namespace

Roof measure_roof() {
  constexpr int64_t n = 1024, large = 8 << 20;
  const Tensor a = full({n, n}, 0.5), b = full({n, n}, 0.25), from = full({large}, 1), to = zeros({large});
  const double product = best_of(6, [&] { matmul(a, b); }), moved = best_of(6, [&] { copy(to, from); });
  return {.flops = 2.0 * double(n * n * n) / product, .bytes = 2.0 * double(from.nbytes()) / moved};
}

std::string profile_text(const Profiler& profiler, const Roof& roof, int64_t steps, double seconds) {
  constexpr size_t most = 10;
  const double each = 1e3 / double(std::max<int64_t>(steps, 1)), kernels = profiler.seconds();
  std::string text = fmt::format("profile of {} steps, {:.3g} ms each; this machine multiplies at {:.0f} GFLOP/s (1,024 x 1,024 x 1,024) and copies at {:.1f} GB/s\n\n", steps, seconds * each, roof.flops * 1e-9, roof.bytes * 1e-9);
  text += fmt::format("{:<28} {:<14} {:>8} {:>10} {:>7} {:>9} {:>7} {:>8}\n", "op", "phase", "calls", "ms a step", "share", "GFLOP/s", "GB/s", "of roof");
  const auto row = [&](const std::string& op, const std::string& phase, double calls, double time, double flops, double bytes) {
    const bool work = flops > 0 || bytes > 0;
    text += fmt::format("{:<28} {:<14} {:>8} {:>10.3f} {:>6.1f}% {:>9} {:>7} {:>8}\n", op, phase, calls > 0 ? format_count(int64_t(calls)) : "", time * each, 100 * time / seconds, work ? fmt::format("{:.1f}", flops / time * 1e-9) : "",
                        work ? fmt::format("{:.1f}", bytes / time * 1e-9) : "", work ? fmt::format("{:.0f}%", 100 * roof.seconds(flops, bytes) / time) : "");
  };
  const auto ops = profiler.by_op();
  double others = 0, at_roof = 0;
  int64_t rest = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    const OpTime& t = ops[i];
    at_roof += roof.seconds(t.flops, t.bytes);
    if (i < most) {
      row(t.op, t.phase.empty() ? "forward" : t.phase, double(t.calls) / double(std::max<int64_t>(steps, 1)), t.seconds, t.flops, t.bytes);
    } else {
      others += t.seconds;
      ++rest;
    }
  }
  if (rest) row(fmt::format("{} more", rest), "", 0, others, 0, 0);
  row("between the ops", "", 0, std::max(0.0, seconds - kernels), 0, 0);
  return text + fmt::format("\nat the roof all of it would take {:.3g} ms, {:.0f}% of a step\n", at_roof * each, 100 * at_roof / seconds);
}

}  // namespace spool::train
