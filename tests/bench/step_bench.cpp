// Whole training steps of the Performer (gradient and Adam) in configuration II, full and in slices, and linear attention alone.
// Run: build/release/tests/spool_bench --benchmark_filter='step|attention'
#include <benchmark/benchmark.h>
#include <spool/spool.h>

namespace spool {
namespace {

/// Multiply-adds of the linear maps of one step, counted twice as flops: 3 × forward for the full gradient, 4 × in slices.
double product_flops(const nn::PerformerConfig& c, int64_t positions, bool sliced) {
  const double d = double(c.d_model), each = double(c.layers) * (3 * d * d + 2 * d * double(c.d_ff)) + d * double(c.vocab);
  return 2 * each * double(positions) * (sliced ? 4 : 3);
}

void step(benchmark::State& state) {
  const nn::PerformerConfig config{.d_model = 512, .layers = 3, .heads = 8, .d_ff = 2048};
  const int64_t length = 1024, chunk = state.range(0);
  nn::Performer model(nn::root({.seed = 1}), config);
  Adam adam(model.named_parameters(), {.lr = 1e-4});
  const nn::TokenBatch batch = nn::token_batch(Rng(2).integers({1, length}, 0, 256, Dtype::u8));
  const auto ledger = std::make_shared<Ledger>();
  for (auto _ : state) {
    {
      const With on(&Ambient::ledger, ledger);
      Tape tape;
      tape.backward(chunk ? model.chunked_loss(batch, chunk) : model.loss(batch));
    }
    adam.step();
    adam.zero_grad();
  }
  const double times = double(state.iterations());
  state.counters["tokens/s"] = benchmark::Counter(double(length - 1) * times, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] = benchmark::Counter(product_flops(config, length - 1, chunk > 0) * times * 1e-9, benchmark::Counter::kIsRate);
  state.counters["peak MiB"] = double(ledger->peak()) / 1048576;
}
BENCHMARK(step)->Name("step/configuration II/chunk")->Arg(0)->Arg(1024)->Arg(256)->Arg(64)->Arg(16)->Unit(benchmark::kMillisecond)->UseRealTime();

void attention(benchmark::State& state) {
  const int64_t length = 4096, heads = 16, dim = 64;
  const auto f32 = [](const Tensor& t) {
    Tensor out = empty(t.shape());
    copy(out, t);
    return out;
  };
  Rng rng(3);
  const Tensor q = f32(rng.normal({1, length, heads, dim})), k = f32(rng.normal({1, length, heads, dim})), v = f32(rng.normal({1, length, heads, dim}));
  const bool backward = state.range(0);
  for (const Tensor& t : {q, k, v}) t.requires_grad(backward);
  for (auto _ : state) {
    Tape tape;
    const auto result = linear_attention(q, k, v, {}, {.feature = Feature::sqr});
    if (backward) tape.backward(Tensors{result.out}, Tensors{});
    for (const Tensor& t : {q, k, v}) t.set_grad({});
  }
  const double flops = (backward ? 16.0 : 4.0) * double(length * heads * dim * dim);
  state.counters["GFLOP/s"] = benchmark::Counter(flops * double(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
}
BENCHMARK(attention)->Name("attention/L=4096,16 heads of 64/backward")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace spool
