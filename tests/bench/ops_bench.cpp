// Every registered op with the rates that its cost declares, in f32: on its own samples, whose sizes are a few elements and whose time is
// the engine's overhead, and on the first of them enlarged to about a million elements ("/large"), whose time is the kernel's.
// Run: build/release/tests/spool_bench --benchmark_filter=op/
#include <benchmark/benchmark.h>
#include <spool/spool.h>

#include <algorithm>
#include <optional>

#include "bench/ops_bench.h"
#include "conformance/support.h"

namespace spool::test {
namespace {

constexpr int64_t large = int64_t(1) << 20;

bool runs(const OpInfo& op, const Sample& sample, const Tensors& inputs) {
  try {
    run(op, sample, inputs);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void bench_op(benchmark::State& state, const OpInfo& op, const Sample& sample, bool enlarge) {
  std::optional<Tensors> larger = enlarge ? enlarged(op, sample, large) : sample.inputs;
  if (!larger) return state.SkipWithError("its sizes are fixed by its attributes");
  Tensors inputs = *std::move(larger);
  if (const Tensors narrow = converted(inputs, Dtype::f32); runs(op, sample, narrow)) inputs = narrow;  // else f64: an f64 state, say
  Metas metas;
  for (const Tensor& t : inputs) metas.push_back(meta_of(t));
  const Cost cost = op.cost(metas, attrs_of(op, sample));
  for (auto _ : state) benchmark::DoNotOptimize(run(op, sample, inputs));
  state.counters["GFLOP/s"] = benchmark::Counter(cost.flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = benchmark::Counter(cost.bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace

void register_op_benchmarks() {
  for (const OpInfo* op : registered_ops()) {
    bool wanted = !op->view;  // views move nothing
    for (const Sample& sample : samples_of(*op)) {
      const std::string name = concat("op/", op->name, "/", sample.label);
      benchmark::RegisterBenchmark(name.c_str(), [op, sample](benchmark::State& state) { bench_op(state, *op, sample, false); })->UseRealTime();
      const bool empty = std::ranges::any_of(sample.inputs, [](const Tensor& t) { return t.defined() && t.numel() == 0; });
      if (!wanted || empty) continue;
      wanted = false;
      benchmark::RegisterBenchmark((name + "/large").c_str(), [op, sample](benchmark::State& state) { bench_op(state, *op, sample, true); })->UseRealTime();
    }
  }
}

}  // namespace spool::test
