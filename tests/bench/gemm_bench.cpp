// Speed of the CPU matrix product, in floating-point operations a second. Arguments: m, n, k, A transposed, B transposed, threads.
#include <cstdlib>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include <spool/ops/cpu/gemm.h>

namespace {

using namespace spool;

template <class In, class T>
void product(benchmark::State& state) {
  const kernels::GemmShape s{state.range(0), state.range(1), state.range(2)};
  const bool ta = state.range(3) != 0, tb = state.range(4) != 0;
  const int threads = static_cast<int>(state.range(5)), before = num_threads();
  set_num_threads(threads);
  std::vector<In> a(static_cast<size_t>(s.m * s.k), In(0.5f)), b(static_cast<size_t>(s.k * s.n), In(0.25f));
  std::vector<T> c(static_cast<size_t>(s.m * s.n));
  const size_t bytes = kernels::gemm_scratch_bytes(s, dtype_of<T>, threads);
  const std::unique_ptr<std::byte, decltype(&std::free)> scratch(static_cast<std::byte*>(std::aligned_alloc(64, bytes + 64)), &std::free);
  const kernels::GemmInput<In> left{a.data(), ta ? 1 : s.k, ta ? s.m : 1}, right{b.data(), tb ? 1 : s.n, tb ? s.k : 1};
  for (auto _ : state) {
    kernels::gemm(s, left, right, kernels::GemmOutput<T>{c.data(), s.n}, {}, {scratch.get(), bytes});
    benchmark::ClobberMemory();
  }
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * static_cast<double>(s.m * s.n * s.k), benchmark::Counter::kIsIterationInvariantRate);
  set_num_threads(before);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "ta", "tb", "threads"})->UseRealTime();
  for (int64_t threads : {1, 2}) {
    bench->Args({1024, 1024, 1024, 0, 0, threads})
        ->Args({2048, 512, 512, 0, 1, threads})
        ->Args({2048, 2048, 512, 0, 0, threads})
        ->Args({2048, 512, 2048, 0, 0, threads})
        ->Args({512, 512, 2048, 1, 0, threads})
        ->Args({64, 64, 64, 0, 0, threads})
        ->Args({16, 16, 16, 0, 0, threads})
        ->Args({1, 2048, 2048, 0, 0, threads});
  }
}

BENCHMARK(product<float, float>)->Apply(shapes);
BENCHMARK(product<double, double>)->Apply(shapes);
BENCHMARK(product<bfloat16, float>)->Apply(shapes);

}  // namespace
