// What stands between the products, in the arena of a planned step, as the share of the rate at which the machine copies tensors of that size.
// Counted are the bytes that must move: each input read once, each result written once. Two sizes: tensors of 32 MiB, which the last cache of
// a server holds from step to step, and of 256 MiB, which come from memory.
// Run: build/release/tests/spool_bench --benchmark_filter='bandwidth/.*/in L3'
#include <benchmark/benchmark.h>
#include <spool/autograd/arena.h>
#include <spool/spool.h>

#include <map>

namespace spool {
namespace {

constexpr int64_t columns = 2048;

struct Size {
  const char* name;
  int64_t rows;
};
constexpr Size sizes[] = {{"in L3", 4096}, {"out of cache", 32768}};

Tensor random(const Shape& shape, uint64_t seed) { return normal(shape, RandomKey(seed)); }

/// An arena with a place for each result of `step`.
std::shared_ptr<Arena> arena_of(const std::function<void()>& step) {
  const auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  return std::make_shared<Arena>(record_plan(ledger, step));
}

/// Bytes a second of copying a tensor of this size into an arena with all threads, measured once.
double copy_rate(int64_t rows) {
  static std::map<int64_t, double> rates;
  double& rate = rates[rows];
  if (rate == 0) {
    const Tensor from = random({rows, columns}, 1);
    const auto copied = [&] { contiguous_copy(from); };
    const auto arena = arena_of(copied);
    double best = 1e9;
    for (int i = 0; i < 15; ++i) {
      const ArenaStep in(arena);
      const auto began = std::chrono::steady_clock::now();
      copied();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    }
    rate = 2.0 * double(from.nbytes()) / best;
  }
  return rate;
}

void report(benchmark::State& state, double bytes, double rate) {
  state.counters["GB/s"] = benchmark::Counter(bytes * double(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
  state.counters["of copy"] = benchmark::Counter(bytes * double(state.iterations()) / rate, benchmark::Counter::kIsRate);
}

struct Inputs {
  Tensors t;
  Tensor targets, ids;
};

struct Case {
  const char* name;
  std::vector<Shape> shapes;           ///< Of the inputs, all of which want gradients where there is a backward pass; a size of 0 stands for the rows.
  std::function<Tensor(const Inputs&)> run;
  double passes;                       ///< Over a tensor of [rows, columns]: inputs read and results written.
  bool backward = false;               ///< Forward and backward; `passes` counts both.
};

const Shape whole{0, columns}, row{columns};
const Case cases[] = {
    {"copy", {whole}, [](const Inputs& in) { return contiguous_copy(in.t[0]); }, 2},
    {"add", {whole, whole}, [](const Inputs& in) { return add(in.t[0], in.t[1]); }, 3},
    {"mul_scalar", {whole}, [](const Inputs& in) { return mul_scalar(in.t[0], 2); }, 2},
    {"exp", {whole}, [](const Inputs& in) { return exp(in.t[0]); }, 2},
    {"tanh", {whole}, [](const Inputs& in) { return tanh(in.t[0]); }, 2},
    {"gelu (erf)", {whole}, [](const Inputs& in) { return gelu(in.t[0]); }, 2},
    {"gelu (tanh)", {whole}, [](const Inputs& in) { return gelu(in.t[0], Gelu::tanh); }, 2},
    {"gelu (erf), both", {whole}, [](const Inputs& in) { return gelu(in.t[0]); }, 2 + 3, true},
    {"swiglu", {whole, whole}, [](const Inputs& in) { return swiglu(in.t[0], in.t[1]); }, 3},
    {"swiglu, both", {whole, whole}, [](const Inputs& in) { return swiglu(in.t[0], in.t[1]); }, 3 + 5, true},
    {"layer_norm", {whole, row, row}, [](const Inputs& in) { return layer_norm(in.t[0], in.t[1], in.t[2]); }, 2},
    {"layer_norm, both", {whole, row, row}, [](const Inputs& in) { return layer_norm(in.t[0], in.t[1], in.t[2]); }, 2 + 3, true},
    {"rms_norm", {whole, row}, [](const Inputs& in) { return rms_norm(in.t[0], in.t[1]); }, 2},
    {"rms_norm, both", {whole, row}, [](const Inputs& in) { return rms_norm(in.t[0], in.t[1]); }, 2 + 3, true},
    {"softmax", {whole}, [](const Inputs& in) { return softmax(in.t[0]); }, 2},
    {"softmax, both", {whole}, [](const Inputs& in) { return softmax(in.t[0]); }, 2 + 3, true},
    {"dropout", {whole}, [](const Inputs& in) { return dropout(in.t[0], 0.1, RandomKey(3)); }, 2},
    {"sum", {whole}, [](const Inputs& in) { return sum(in.t[0]); }, 1},
    {"sum over rows", {whole}, [](const Inputs& in) { return sum(in.t[0], 0); }, 1},
    {"prefix_sum, outer axis", {whole}, [](const Inputs& in) { return prefix_sum(in.t[0], 0); }, 2},
    {"prefix_sum, inner axis", {whole}, [](const Inputs& in) { return prefix_sum(in.t[0], 1); }, 2},
    {"cross_entropy, both", {whole}, [](const Inputs& in) { return cross_entropy(in.t[0], in.targets); }, 1 + 2, true},
    {"embedding of 32,000", {Shape{32000, 512}}, [](const Inputs& in) { return embedding(in.t[0], in.ids); }, 2},
};

void bandwidth(benchmark::State& state, const Case& c, int64_t rows) {
  Inputs inputs{{}, Rng(5).integers({rows}, 0, columns), Rng(6).integers({rows * columns / 512}, 0, 32000)};
  for (Shape shape : c.shapes) {
    if (shape[0] == 0) shape[0] = rows;
    inputs.t.push_back(random(shape, inputs.t.size() + 7).requires_grad(c.backward));
  }
  const Tensor seed = c.backward ? random(c.run(inputs).shape(), 9) : Tensor();
  const auto step = [&] {
    Tape tape;
    const Tensor y = c.run(inputs);
    if (c.backward) tape.backward(Tensors{y}, Tensors{seed});
    for (const Tensor& t : inputs.t) t.set_grad({});
  };
  const auto arena = arena_of(step);
  const double rate = copy_rate(rows);
  for (auto _ : state) {
    const ArenaStep in(arena);
    step();
  }
  report(state, c.passes * double(rows * columns) * 4, rate);
}

/// AdamW: parameter, gradient and two moments read, three written.
void adamw(benchmark::State& state, int64_t rows) {
  const Tensor w = random({rows, columns}, 1).requires_grad(true);
  w.set_grad(random({rows, columns}, 2));
  AdamW adam({{"w", w}});
  adam.step();
  const double rate = copy_rate(rows);
  for (auto _ : state) adam.step();
  report(state, 7.0 * double(w.nbytes()), rate);
}

[[maybe_unused]] const bool registered = [] {
  const auto add_one = [](const char* name, const Size& size, auto run) {
    benchmark::RegisterBenchmark(concat("bandwidth/", name, "/", size.name).c_str(), run)->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  for (const Size& size : sizes) {
    for (const Case& c : cases) add_one(c.name, size, [&c, &size](benchmark::State& state) { bandwidth(state, c, size.rows); });
    add_one("AdamW", size, [&size](benchmark::State& state) { adamw(state, size.rows); });
  }
  return true;
}();

}  // namespace
}  // namespace spool
