// LLaMA of 4 layers and width 512: training steps, decoding, and blockwise attention alone.
// Run: build/release/tests/spool_bench --benchmark_filter='llama|blockwise'
#include <benchmark/benchmark.h>
#include <spool/spool.h>

namespace spool {
namespace {

const nn::LlamaConfig config{.vocab_size = 256, .hidden_size = 512, .num_hidden_layers = 4, .num_attention_heads = 8, .num_key_value_heads = 4, .max_position_embeddings = 4096};

/// Flops of a forward pass over `length` tokens: linear maps, and attention of the visible half.
double forward_flops(int64_t length) {
  const double h = double(config.hidden_size), kv = double(config.key_value_heads() * config.head_size()), f = double(config.feed_forward_size()), l = double(length);
  const double maps = double(config.num_hidden_layers) * (2 * h * h + 2 * h * kv + 3 * h * f) + h * double(config.vocab_size);
  return 2 * maps * l + double(config.num_hidden_layers) * 2 * h * l * (l + 1);
}

Tensor some_tokens(int64_t count) { return Rng(2).integers({1, count}, 0, config.vocab_size, Dtype::u8); }

/// Gradient and AdamW. recompute 0: none, 1: attention, 2: block.
void train(benchmark::State& state) {
  const int64_t length = state.range(0);
  const nn::LossOptions options{.recompute = state.range(1) == 2 ? nn::Recompute::block : state.range(1) == 1 ? nn::Recompute::attention : nn::Recompute::none};
  nn::Llama model(nn::root({.seed = 1}), config);
  AdamW optimizer(model.named_parameters(), {.lr = 1e-4});
  const nn::TokenBatch batch = nn::token_batch(some_tokens(length + 1));
  const auto ledger = std::make_shared<Ledger>();
  for (auto _ : state) {
    {
      const With on(&Ambient::ledger, ledger);
      Tape tape;
      tape.backward(model.training_loss(batch, options));
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  const double times = double(state.iterations());
  state.counters["tokens/s"] = benchmark::Counter(double(length) * times, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] = benchmark::Counter(3 * forward_flops(length) * times * 1e-9, benchmark::Counter::kIsRate);
  state.counters["peak MiB"] = double(ledger->peak()) / 1048576;
}
BENCHMARK(train)->Name("llama/train/length/recompute")->Args({1024, 0})->Args({1024, 1})->Args({1024, 2})->Args({4096, 0})->Unit(benchmark::kMillisecond)->UseRealTime();

/// One token at a time, with `position` tokens in the cache.
void decode(benchmark::State& state) {
  const int64_t before = state.range(0);
  const nn::Llama model(nn::root({.seed = 1}), config);
  const auto cache = model.begin(1, before + 1);
  const Tensor prompt = some_tokens(before), token = some_tokens(1);
  model.decode(*cache, prompt);
  for (auto _ : state) {
    cache->position = before;
    benchmark::DoNotOptimize(model.decode(*cache, token));
  }
  state.counters["tokens/s"] = benchmark::Counter(double(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(decode)->Name("llama/decode/position")->Arg(128)->Arg(2048)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Causal attention of 8 heads of 64, forward or forward and backward; blockwise, or with the score matrix.
void attend(benchmark::State& state) {
  const int64_t length = state.range(0);
  const bool backward = state.range(1), whole = state.range(2);
  Rng rng(3);
  const auto leaf = [&] { return cast(rng.normal({1, length, 8, 64}), Dtype::f32).detach(); };
  const Tensor q = leaf(), k = leaf(), v = leaf(), dout = leaf();
  for (const Tensor& t : {q, k, v}) t.requires_grad(backward);
  for (auto _ : state) {
    Tape tape;
    const AttentionResult r = whole ? attention_reference(q, k, v) : attention_with_lse(q, k, v);
    if (backward) tape.backward(Tensors{r.out}, Tensors{dout});
    for (const Tensor& t : {q, k, v}) t.set_grad({});
  }
  const double flops = (backward ? 14.0 : 4.0) * 8 * 64 * double(length) * double(length + 1) / 2;
  state.counters["GFLOP/s"] = benchmark::Counter(flops * double(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
}
BENCHMARK(attend)->Name("blockwise/length/backward/materialised")->Args({512, 1, 0})->Args({512, 1, 1})->Args({2048, 0, 0})->Args({2048, 1, 0})->Args({2048, 1, 1})->Args({8192, 1, 0})->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace spool
