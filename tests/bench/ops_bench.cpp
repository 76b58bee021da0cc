// Every registered op on its own samples, in f32, with the rates that its cost declares. Run: build/release/tests/spool_bench --benchmark_filter=op/
#include <benchmark/benchmark.h>
#include <spool/spool.h>

namespace spool {
namespace {

/// f64 samples as f32; other types as they are.
Tensor narrowed(const Tensor& t) {
  if (!t.defined() || t.dtype() != Dtype::f64) return t;
  Tensor out = empty(t.shape(), Dtype::f32);
  copy(out, t);
  return out;
}

void run_sample(benchmark::State& state, const OpInfo& op, Tensors inputs, const AttrsPtr& attrs) {
  Metas metas;
  for (const Tensor& t : inputs) metas.push_back(meta_of(t));
  const Cost cost = op.cost(metas, attrs.get());
  for (auto _ : state) benchmark::DoNotOptimize(dispatch(op, inputs, attrs.get()));
  const double times = double(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(cost.flops * times * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(cost.bytes * times * 1e-9, benchmark::Counter::kIsRate);
}

const bool registered = [] {
  for (const OpInfo* op : registered_ops()) {
    Rng rng(1);
    for (const Sample& sample : op->samples(rng)) {
      const AttrsPtr attrs = sample.attrs ? sample.attrs : op->default_attrs;
      Tensors inputs;
      for (const Tensor& t : sample.inputs) inputs.push_back(narrowed(t));
      try {  // some samples exist in f64 only (an f64 state)
        dispatch(*op, inputs, attrs.get());
      } catch (const Error&) {
        inputs = sample.inputs;
      }
      const std::string name = "op/" + std::string(op->name) + "/" + sample.label;
      benchmark::RegisterBenchmark(name.c_str(), [op, inputs, attrs](benchmark::State& state) { run_sample(state, *op, inputs, attrs); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace spool
