// What stands between the products, out of cache and in the arena of a planned step, as the share of the rate at which the machine copies.
// Counted are the bytes that must move: each input read once, each result written once.
// Run: build/release/tests/spool_bench --benchmark_filter=bandwidth
#include <benchmark/benchmark.h>
#include <spool/autograd/arena.h>
#include <spool/spool.h>

#include <cstring>
#include <map>

namespace spool {
namespace {

constexpr int64_t rows = 4096, columns = 2048;

Tensor random(const Shape& shape, uint64_t seed) { return cast(Rng(seed).normal(shape), Dtype::f32).detach(); }

/// Bytes a second of copying 32 MiB with all threads, measured once.
double copy_rate() {
  static const double rate = [] {
    const Tensor from = random({rows, columns}, 1), to = zeros({rows, columns});
    double best = 1e9;
    for (int i = 0; i < 15; ++i) {
      const auto began = std::chrono::steady_clock::now();
      copy(to, from);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    }
    return 2.0 * double(from.nbytes()) / best;
  }();
  return rate;
}

struct Case {
  const char* name;
  std::vector<Shape> shapes;           ///< Of the inputs, all of which want gradients where there is a backward pass.
  std::function<Tensor(const Tensors&)> run;
  double passes;                       ///< Over a tensor of [rows, columns]: inputs read and results written.
  bool backward = false;               ///< Forward and backward; `passes` counts both.
};

const Shape whole{rows, columns}, row{columns};
const Tensor targets = Rng(5).integers({rows}, 0, columns), ids = Rng(6).integers({16384}, 0, 32000);
const Case cases[] = {
    {"copy", {whole}, [](const Tensors& in) { return contiguous_copy(in[0]); }, 2},
    {"add", {whole, whole}, [](const Tensors& in) { return add(in[0], in[1]); }, 3},
    {"mul_scalar", {whole}, [](const Tensors& in) { return mul_scalar(in[0], 2); }, 2},
    {"exp", {whole}, [](const Tensors& in) { return exp(in[0]); }, 2},
    {"tanh", {whole}, [](const Tensors& in) { return tanh(in[0]); }, 2},
    {"gelu (erf)", {whole}, [](const Tensors& in) { return gelu(in[0]); }, 2},
    {"gelu (tanh)", {whole}, [](const Tensors& in) { return gelu(in[0], Gelu::tanh); }, 2},
    {"gelu (erf), both", {whole}, [](const Tensors& in) { return gelu(in[0]); }, 2 + 3, true},
    {"swiglu", {whole, whole}, [](const Tensors& in) { return swiglu(in[0], in[1]); }, 3},
    {"swiglu, both", {whole, whole}, [](const Tensors& in) { return swiglu(in[0], in[1]); }, 3 + 5, true},
    {"layer_norm", {whole, row, row}, [](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); }, 2},
    {"layer_norm, both", {whole, row, row}, [](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); }, 2 + 3, true},
    {"rms_norm", {whole, row}, [](const Tensors& in) { return rms_norm(in[0], in[1]); }, 2},
    {"rms_norm, both", {whole, row}, [](const Tensors& in) { return rms_norm(in[0], in[1]); }, 2 + 3, true},
    {"softmax", {whole}, [](const Tensors& in) { return softmax(in[0]); }, 2},
    {"softmax, both", {whole}, [](const Tensors& in) { return softmax(in[0]); }, 2 + 3, true},
    {"dropout", {whole}, [](const Tensors& in) { return dropout(in[0], 0.1, RandomKey(3)); }, 2},
    {"sum", {whole}, [](const Tensors& in) { return sum(in[0]); }, 1},
    {"sum over rows", {whole}, [](const Tensors& in) { return sum(in[0], 0); }, 1},
    {"prefix_sum, outer axis", {whole}, [](const Tensors& in) { return prefix_sum(in[0], 0); }, 2},
    {"prefix_sum, inner axis", {whole}, [](const Tensors& in) { return prefix_sum(in[0], 1); }, 2},
    {"cross_entropy, both", {whole}, [](const Tensors& in) { return cross_entropy(in[0], targets); }, 1 + 2, true},
    {"embedding of 32,000", {Shape{32000, 512}}, [](const Tensors& in) { return embedding(in[0], ids); }, 2},
};

void bandwidth(benchmark::State& state, const Case& c) {
  Tensors inputs;
  for (const Shape& shape : c.shapes) inputs.push_back(random(shape, inputs.size() + 7).requires_grad(c.backward));
  Tensor seed = c.backward ? random(c.run(inputs).shape(), 9) : Tensor();
  const auto step = [&](const Tensors& in, const Tensor& cotangent) {
    Tape tape;
    const Tensor y = c.run(in);
    if (c.backward) tape.backward(Tensors{y}, Tensors{cotangent});
    for (const Tensor& t : in) t.set_grad({});
  };
  // One step tells the arena where its results go.
  const auto ledger = std::make_shared<Ledger>();
  std::shared_ptr<Arena> arena;
  {
    const With on(&Ambient::ledger, ledger);
    arena = std::make_shared<Arena>(record_plan(ledger, [&] { step(inputs, seed); }));
  }
  const double rate = copy_rate();
  for (auto _ : state) {
    const ArenaStep in(arena);
    step(inputs, seed);
  }
  const double bytes = c.passes * double(rows * columns) * 4;
  state.counters["GB/s"] = benchmark::Counter(bytes * double(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
  state.counters["of copy"] = benchmark::Counter(bytes * double(state.iterations()) / rate, benchmark::Counter::kIsRate);
}

/// AdamW over 10.5 million parameters: parameter, gradient and two moments read, three written.
void adamw(benchmark::State& state) {
  const Tensor w = random({10'500, 1000}, 1).requires_grad(true);
  w.set_grad(random({10'500, 1000}, 2));
  AdamW adam({{"w", w}});
  adam.step();
  const double rate = copy_rate(), bytes = 7.0 * double(w.nbytes());
  for (auto _ : state) adam.step();
  state.counters["GB/s"] = benchmark::Counter(bytes * double(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
  state.counters["of copy"] = benchmark::Counter(bytes * double(state.iterations()) / rate, benchmark::Counter::kIsRate);
}

[[maybe_unused]] const bool registered = [] {
  for (const Case& c : cases) benchmark::RegisterBenchmark(concat("bandwidth/", c.name).c_str(), [&c](benchmark::State& state) { bandwidth(state, c); })->Unit(benchmark::kMillisecond)->UseRealTime();
  benchmark::RegisterBenchmark("bandwidth/AdamW", adamw)->Unit(benchmark::kMillisecond)->UseRealTime();
  return true;
}();

}  // namespace
}  // namespace spool
