// What knowing the memory costs and brings: placing buffers, planning a large model, recording events during a step, and steps in an arena
// against the system's heap. Run: build/release/tests/spool_bench --benchmark_filter='placement|plan/|looking|arena'
#include <benchmark/benchmark.h>
#include <spool/spool.h>

#include <random>

namespace spool {
namespace {

/// Buffers whose lives are of all lengths up to the whole, most of them small.
void placement(benchmark::State& state) {
  const int64_t count = state.range(0);
  std::mt19937_64 rng(11);
  std::uniform_int_distribution<int64_t> time(0, 2 * count), bytes(0, 5000);
  std::exponential_distribution<double> life(4.0 / double(count));
  std::vector<PlacedBuffer> buffers;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = time(rng);
    buffers.push_back({begin, begin + 1 + int64_t(life(rng)), rng() % 4 ? bytes(rng) : bytes(rng) * 40});
  }
  Placement placed;
  for (auto _ : state) placed = place(buffers);
  state.counters["over the bound, %"] = 100 * (double(placed.size) / double(placed.bound) - 1);
}
BENCHMARK(placement)->Name("placement/buffers")->Arg(2000)->Arg(20000)->Unit(benchmark::kMillisecond)->UseRealTime();

/// A step of Llama 2 on meta, 4,096 positions: 0 of 7B, 1 of 70B.
void plan(benchmark::State& state) {
  const bool large = state.range(0);
  nn::LlamaConfig config{.vocab_size = 32000, .hidden_size = 4096, .intermediate_size = 11008, .num_hidden_layers = 32, .num_attention_heads = 32, .max_position_embeddings = 4096};
  if (large) config = {.vocab_size = 32000, .hidden_size = 8192, .intermediate_size = 28672, .num_hidden_layers = 80, .num_attention_heads = 64, .num_key_value_heads = 8, .max_position_embeddings = 4096};
  int64_t peak = 0;
  for (auto _ : state) {
    const auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    const nn::Llama model(nn::root({.dtype = Dtype::bf16, .device = meta()}), config);
    AdamW optimizer(model.named_parameters(), {.lr = 1e-4});
    optimizer.prepare();
    peak = record_plan(ledger, [&] {
      const nn::TokenBatch batch = nn::token_batch(empty({1, 4097}, Dtype::i32, meta()));
      Tape tape;
      tape.backward(model.training_loss(batch, {}));
      optimizer.step();
      optimizer.zero_grad();
    }).peak;
  }
  state.counters["peak GiB"] = double(peak) / double(int64_t(1) << 30);
}
BENCHMARK(plan)->Name("plan/Llama 2, 7B or 70B")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Two steps that allocate differently: a Performer in slices of 16 makes thousands of small buffers, a LLaMA few large ones.
struct Trainee {
  explicit Trainee(bool llama, Device device = cpu) {
    const With on(&Ambient::ledger, ledger);
    if (llama) {
      model = std::make_unique<nn::Llama>(nn::root({.seed = 1, .device = device}), nn::LlamaConfig{.hidden_size = 256, .num_hidden_layers = 4, .num_attention_heads = 8, .num_key_value_heads = 4});
    } else {
      model = std::make_unique<nn::Performer>(nn::root({.seed = 1, .device = device}), nn::PerformerConfig{.d_model = 256, .layers = 3, .heads = 4, .d_ff = 1024});
      options.chunk = 16;
    }
    optimizer = std::make_unique<AdamW>(model->named_parameters(), AdamWOptions{.lr = 1e-4});
    optimizer->prepare();
    batch = nn::token_batch(device.meta ? empty({1, 513}, Dtype::u8, meta()) : Rng(2).integers({1, 513}, 0, 256, Dtype::u8));
  }
  void step() {
    const With on(&Ambient::ledger, ledger);
    {
      Tape tape;
      tape.backward(model->training_loss(batch, options));
    }
    optimizer->step();
    optimizer->zero_grad();
  }
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  std::unique_ptr<nn::LanguageModel> model;
  std::unique_ptr<Optimizer> optimizer;
  nn::TokenBatch batch;
  nn::LossOptions options;
};

/// Arguments: LLaMA; recording.
void looking(benchmark::State& state) {
  Trainee trainee(state.range(0));
  trainee.ledger->recording(state.range(1));
  for (auto _ : state) {
    trainee.step();
    trainee.ledger->take_events();
  }
}
BENCHMARK(looking)->Name("looking/llama/recording")->ArgsProduct({{0, 1}, {0, 1}})->Unit(benchmark::kMillisecond)->UseRealTime();

/// Arguments: LLaMA; in an arena.
void arena(benchmark::State& state) {
  const bool llama = state.range(0), inside = state.range(1);
  Trainee trainee(llama), planned(llama, meta());
  planned.step();
  const auto place_of_step = std::make_shared<Arena>(record_plan(planned.ledger, [&] { planned.step(); }));
  trainee.step();
  for (auto _ : state) {
    if (inside) {
      const ArenaStep in(place_of_step);
      trainee.step();
    } else {
      trainee.step();
    }
  }
}
BENCHMARK(arena)->Name("arena/llama/inside")->ArgsProduct({{0, 1}, {0, 1}})->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace spool
