#include "train/run.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spool/autograd/arena.h>
#include <spool/autograd/region.h>
#include <spool/nn/llama_files.h>
#include <spool/tensor/error.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <new>

#include "train/checkpoint.h"
#include "train/config_text.h"
#include "train/files.h"
#include "train/format.h"
#include "train/loaded.h"
#include "train/metrics.h"
#include "train/process_memory.h"
#include "train/profile_report.h"
#include "train/run_report.h"
#include "train/step.h"

namespace spool::train {
namespace {

namespace fs = std::filesystem;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

volatile std::sig_atomic_t caught_signal = 0;

/// While it lives, the first SIGINT or SIGTERM is remembered instead of ending the process; further ones change nothing.
class SignalWatch {
 public:
  SignalWatch() {
    caught_signal = 0;
    struct sigaction action {};
    action.sa_handler = [](int signal) { caught_signal = signal; };
    sigaction(SIGINT, &action, &before_int_);
    sigaction(SIGTERM, &action, &before_term_);
  }
  ~SignalWatch() {
    sigaction(SIGINT, &before_int_, nullptr);
    sigaction(SIGTERM, &before_term_, nullptr);
  }

 private:
  struct sigaction before_int_ {}, before_term_ {};
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Everything a run holds.
struct Training {
  const RunConfig& config;
  const RunOptions& options;
  TokenizerPtr tokenizer;
  Dataset data;
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  With<std::shared_ptr<Ledger>> on{&Ambient::ledger, ledger};
  std::unique_ptr<nn::LanguageModel> model;
  std::unique_ptr<Optimizer> optimizer;
  RunState state;
  StepPlan plan;
  std::shared_ptr<Arena> arena_full, arena_chunked;
  Plan measured;
  Profiler profiler;
  int64_t profiled_steps = 0;
  double profiled_seconds = 0;

  Training(const RunConfig& c, const RunOptions& o)
      : config(c),
        options(o),
        tokenizer(tokenizer_of(c)),
        data(Dataset::open(c.data, {.seed = uint64_t(c.train.seed), .eval_windows = c.train.eval_windows, .source_dir = o.source_dir,
                                    .accumulate = c.train.accumulate, .tokenizer = tokenizer})) {}

  std::shared_ptr<Arena>& arena_for(int64_t step) { return config.train.chunked_at(step) ? arena_chunked : arena_full; }

  /// Gives the arenas' bytes back, so that what runs between steps (validation, above all) does not come on top of them.
  void release_arenas() {
    arena_full.reset();
    arena_chunked.reset();
  }

  /// Ten steps after the first two, which make what is made once; all of a run that is shorter.
  bool profiled(int64_t step, int64_t first) const { return options.profile && profiled_steps < 10 && (step >= first + 2 || config.train.steps - first < 4); }

  /// Runs in the arena of its plan. The micro-batches themselves are part of the plan.
  StepResult step(int64_t index, Batch batch, bool record) {
    const Feed parts = feed(config, std::move(batch));
    const auto body = [&] { return train_step(config, *model, *optimizer, parts, index); };
    std::shared_ptr<Arena>& arena = arena_for(index);
    if (!arena) release_arenas();  // the other kind's
    if (!arena) arena = std::make_shared<Arena>(plan_step(config, config.train.chunked_at(index)).step);
    const ArenaStep inside(arena);
    if (!record) return body();
    StepResult result;
    measured = record_plan(ledger, [&] { result = body(); });
    return result;
  }
};

/// Starts from the weights in a Hugging Face directory. They are read under a ledger of their own: the run's begins with the model.
void take_weights(nn::LanguageModel& model, const fs::path& hf) {
  const With on(&Ambient::ledger, std::make_shared<Ledger>());
  const Dtype dtype = model.named_parameters().front().second.dtype();
  model.load(nn::load_llama(hf, {.dtype = dtype})->named_parameters());
}

/// What other programs load: the weights in Hugging Face's layout, and the tokenizer beside them.
void write_weights(const Training& run) {
  const auto* llama = dynamic_cast<const nn::Llama*>(run.model.get());
  if (!llama) return;
  nn::LlamaTokens tokens;
  if (const auto begin = run.tokenizer->begin_token()) tokens.begin = *begin;
  for (const int32_t end : run.tokenizer->end_tokens()) tokens.end.push_back(end);
  nn::save_llama(*llama, run.options.out / "hf", int64_t(5) << 30, tokens);
  keep_tokenizer(run.config.data.tokenizer, *run.tokenizer, run.options.out / "hf");
}

void check_directory(const RunOptions& options) {
  const bool holds = newest_checkpoint(options.out).has_value() || fs::exists(options.out / "config.toml");
  if (options.resume && !newest_checkpoint(options.out)) fail<ConfigError>("--resume: ", options.out.string(), " holds no checkpoint to go on from");
  if (!options.resume && holds) fail<ConfigError>("--out: ", options.out.string(), " holds a run already; add --resume to go on with it, or choose another directory");
}

/// Throws OutOfMemory with a report for a reader when the step does not fit.
void require_fit(const RunConfig& config, const StepPlan& plan, int64_t limit) {
  if (plan.step.peak <= limit) return;
  fail<OutOfMemory>("--limit: a step needs ", format_bytes(plan.step.peak), ", the limit is ", format_bytes(limit), "; nothing was trained\n\n", limited_text(config, plan, limit),
                    "\nspool plan with these options and --budget instead of --limit looks for a step that fits.");
}

/// What the system refused, where the run stands, and where the bytes of a step go.
[[noreturn]] void fail_refused(const RunConfig& config, const RunOptions& options, const StepPlan& plan, const char* what) {
  const auto newest = newest_checkpoint(options.out);
  fail<OutOfMemory>(what, "; ", newest ? concat("the run goes on from ", newest->string(), " with --resume") : "there is no checkpoint yet", "\n\n", limited_text(config, plan, plan.step.peak));
}

RunOutcome train(Training& run) {
  const RunConfig& config = run.config;
  const RunOptions& options = run.options;
  const auto regions = std::make_shared<Regions>(std::vector<Event>(run.plan.history.begin(), run.plan.history.end() - std::ptrdiff_t(run.plan.step.events.size())));
  const auto in_regions = [&](const auto& make) {
    const With<std::shared_ptr<Allocator>> in(&Ambient::allocator, regions);
    make();
  };
  in_regions([&] { run.model = make_model(config); });
  if (!options.hf.empty() && !options.resume) take_weights(*run.model, options.hf);
  run.optimizer = make_optimizer(config, *run.model);
  in_regions([&] { run.optimizer->prepare(); });
  if (options.resume) run.state = load_checkpoint(*newest_checkpoint(options.out), *run.model, *run.optimizer);
  if (options.resume && run.state.step >= config.train.steps)
    fail<ConfigError>(fmt::format("--steps: the run in {} has made its {} steps; say how many there shall be, --steps {} for as many again", options.out.string(),
                                  format_count(config.train.steps), 2 * config.train.steps));
  write_file_atomic(options.out / "config.toml", to_toml(fields_of(config)));
  keep_tokenizer(config.data.tokenizer, *run.tokenizer, options.out);
  MetricsFile metrics(options.out / "metrics.jsonl", options.resume ? std::optional(run.state.step) : std::nullopt);
  const int64_t first = run.state.step, steps = config.train.steps;
  Progress progress(steps, first, Progress::options_for(stderr));
  if (!run.data.notice().empty()) progress.note(run.data.notice());
  if (!options.hf.empty() && config.data.tokenizer.empty()) progress.note(no_tokenizer_notice);
  progress.note(fmt::format("{}: {} parameters, {}; a step peaks at {} {}", config.name, format_count(run.model->parameter_count()), run.data.note(), format_bytes(run.plan.step.peak), peak_place(run.plan)));

  const SignalWatch watch;
  RunOutcome outcome{.steps = first, .loss = nan, .validation = {}};
  double since = now(), interval_loss = 0, interval_nats = 0, interval_bits = nan, training_seconds = 0;
  int64_t interval_steps = 0, interval_bytes = 0, tokens = 0;
  const std::string_view unit = is_bytes(run.tokenizer) ? "bytes" : "tokens";
  std::string last_text;
  const auto validate = [&](int64_t step) {
    run.release_arenas();
    const Evaluation e = evaluate(config, *run.model, run.data, [&](int64_t done, int64_t of) {
      progress.update(step, fmt::format("validating, {} of {} sequences", format_count(done), format_count(of)));
      return !caught_signal;
    });
    progress.update(step, last_text);
    if (caught_signal) return;  // a part of the sequences is not comparable with all of them
    outcome.validation = e;
    if (!run.state.best || e.loss() < *run.state.best) run.state.best = e.loss();
    metrics.write({{"step", step}, {"validation_loss", e.loss()}, {"validation_bits_per_byte", e.bits_per_byte()}, {"validation_tokens", e.tokens}, {"validation_bytes", e.bytes}});
    progress.note(fmt::format("step {}: validation {:.4f} bits per byte ({} {})", format_count(step), e.bits_per_byte(), format_count(e.tokens), unit));
  };
  for (int64_t step = first; step < steps && !caught_signal; ++step) {
    const double begin = now();
    Batch batch = run.data.train(step);
    const int64_t scored = batch.scored, bytes = batch.bytes, read = batch.rows * (batch.seq - 1);
    const bool profiled = run.profiled(step, first);
    const StepResult result = [&] {
      const With<Profiler*> on(&Ambient::profiler, profiled ? &run.profiler : nullptr);
      return run.step(step, std::move(batch), step == steps - 1);
    }();
    training_seconds += now() - begin;
    if (profiled) {
      ++run.profiled_steps;
      run.profiled_seconds += now() - begin;
    }
    if (result.skipped) {
      ++run.state.skipped;
      progress.note(fmt::format("step {}: loss or gradient is not finite; nothing was updated", format_count(step + 1)));
    } else {
      interval_loss += result.loss;
      interval_nats += result.loss * double(scored);
      interval_bytes += bytes;
      ++interval_steps;
    }
    tokens += read;
    const int64_t done = step + 1;
    run.state.step = done;
    outcome.steps = done;
    const bool last = done == steps;
    if (interval_steps && (done % config.train.log_every == 0 || last)) {
      outcome.loss = interval_loss / double(interval_steps);
      const double rate = double(tokens) / training_seconds;
      outcome.tokens_per_second = rate;
      interval_bits = bits_per_byte(interval_nats, interval_bytes);
      metrics.write({{"step", done}, {"loss", outcome.loss}, {"bits_per_byte", interval_bits}, {"learning_rate", learning_rate(config, step)},
                     {"grad_norm", result.grad_norm}, {"tokens_per_second", rate}, {"peak_bytes", run.ledger->peak()}, {"skipped", run.state.skipped}});
      interval_loss = interval_nats = 0;
      interval_steps = interval_bytes = 0;
    }
    const bool early = std::isnan(outcome.loss);  // no interval is full yet
    last_text = fmt::format("loss {:.3f} ({:.2f} bits per byte), {}", early ? result.loss : outcome.loss,
                            early ? bits_per_byte(result.loss * double(scored), bytes) : interval_bits, format_rate(double(tokens), training_seconds, unit));
    progress.update(done, last_text);
    if (!last && config.train.eval_every && done % config.train.eval_every == 0) validate(done);
    if (!last && config.train.save_every && done % config.train.save_every == 0) {
      run.state.seconds += now() - since;
      since = now();
      save_checkpoint(options.out, *run.model, *run.optimizer, run.state, config.train.keep);
    }
  }
  if (!caught_signal) validate(outcome.steps);
  run.state.seconds += now() - since;
  save_checkpoint(options.out, *run.model, *run.optimizer, run.state, config.train.keep);
  if (!caught_signal) write_weights(run);
  progress.finish();
  if (options.profile && run.profiled_steps) {
    write_file_atomic(*options.profile, run.profiler.trace_json());
    fmt::print(stderr, "{}\nthe trace is in {}, for ui.perfetto.dev\n", profile_text(run.profiler, measure_roof(), run.profiled_steps, run.profiled_seconds), options.profile->string());
  }
  outcome.signal = caught_signal;
  outcome.planned_peak = run.plan.step.peak;
  if (const auto known = closed_form(config, run.plan.chunked)) outcome.closed_form_peak = known->peak.bytes;
  outcome.measured_peak = run.measured.events.empty() ? run.ledger->peak() : run.measured.peak;
  if (options.resident) outcome.process_growth = peak_resident_bytes() - options.resident;
  write_reports(options.out, config, run.plan, run.measured, outcome.process_growth);
  return outcome;
}

}  // namespace

RunOutcome run_training(const RunConfig& config, const RunOptions& options) {
  check_directory(options);
  Training run(config, options);
  run.plan = plan_run(config);
  if (options.limit) require_fit(config, run.plan, *options.limit);
  if (options.profile) write_file_atomic(*options.profile, Profiler().trace_json());  // whether it can be written shows now, not after the run
  make_directories(options.out);
  remove_temporaries(options.out);
  if (fs::exists(options.out / "checkpoints")) remove_temporaries(options.out / "checkpoints");
  try {
    return train(run);
  } catch (const OutOfMemory& error) {
    fail_refused(config, options, run.plan, error.what());
  } catch (const std::bad_alloc&) {
    fail_refused(config, options, run.plan, "train: the system has no memory left beside the tensors");
  }
}

}  // namespace spool::train
