// The memory report of a step whose tape has about 2,000 ops: analysis, layout, and what is written.
// Run: build/release/tests/spool_bench --benchmark_filter=report
#include <benchmark/benchmark.h>
#include <spool/spool.h>

namespace spool {
namespace {

struct Step {
  Plan plan;
  std::vector<Event> before;
  int64_t ops = 0;
};
const Step& step() {
  static const Step made = [] {
    const auto ledger = std::make_shared<Ledger>();
    ledger->recording(true);
    const With on(&Ambient::ledger, ledger);
    const nn::Llama model(nn::root({.device = meta()}), {.vocab_size = 256, .hidden_size = 64, .num_hidden_layers = 110, .num_attention_heads = 4, .max_position_embeddings = 256});
    Step out;
    out.before = ledger->take_events();
    out.plan = record_plan(ledger, [&] {
      Tape tape;
      const Tensor loss = model.training_loss(nn::token_batch(empty({1, 129}, Dtype::u8, meta())), {});
      out.ops = tape.size();
      tape.backward(loss);
    });
    return out;
  }();
  return made;
}

void run(benchmark::State& state, const std::function<void()>& f) {
  for (auto _ : state) f();
  state.counters["ops"] = double(step().ops);
  state.counters["events"] = double(step().plan.events.size());
}
MemoryReport whole() {
  MemoryReport report = make_report(step().plan, step().before);
  report.addresses = address_map(step().plan, arena_layout(step_buffers(step().plan)));
  return report;
}

void analyse(benchmark::State& state) {
  run(state, [] { benchmark::DoNotOptimize(make_report(step().plan, step().before)); });
}
BENCHMARK(analyse)->Name("report/analyse")->Unit(benchmark::kMillisecond);

void lay_out(benchmark::State& state) {
  run(state, [] { benchmark::DoNotOptimize(arena_layout(step_buffers(step().plan))); });
}
BENCHMARK(lay_out)->Name("report/lay_out")->Unit(benchmark::kMillisecond);

template <auto written>
void write(benchmark::State& state) {
  const MemoryReport report = whole();
  run(state, [&] { benchmark::DoNotOptimize(written(report)); });
}
std::string text(const MemoryReport& report) { return report_text(report); }
BENCHMARK(write<text>)->Name("report/text")->Unit(benchmark::kMillisecond);
BENCHMARK(write<report_json>)->Name("report/json")->Unit(benchmark::kMillisecond);
BENCHMARK(write<report_html>)->Name("report/html")->Unit(benchmark::kMillisecond);

/// All of it, as at the end of a run.
void everything(benchmark::State& state) {
  run(state, [] {
    const MemoryReport report = whole();
    benchmark::DoNotOptimize(report_text(report));
    benchmark::DoNotOptimize(report_json(report));
    benchmark::DoNotOptimize(report_html(report));
  });
}
BENCHMARK(everything)->Name("report/everything")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace spool
