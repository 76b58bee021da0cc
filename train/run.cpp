#include "train/run.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spool/autograd/arena.h>
#include <spool/autograd/tape.h>
#include <spool/tensor/error.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>

#include "train/checkpoint.h"
#include "train/config_text.h"
#include "train/files.h"
#include "train/format.h"
#include "train/metrics.h"
#include "train/run_report.h"

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

/// Loss of one batch without a tape; a long sequence goes through in slices, so that validation never needs more memory than training.
double batch_loss(const RunConfig& config, const nn::Performer& model, const nn::TokenBatch& batch) {
  const NoGrad quiet;
  const int64_t slice = config.train.chunk.value_or(4096);
  return batch.tokens.size(1) - 1 > slice ? model.chunked_loss(batch, slice, StatePolicy::subtract64).item() : model.loss(batch).item();
}

/// Everything a run holds.
struct Training {
  const RunConfig& config;
  const RunOptions& options;
  Dataset data;
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  With<std::shared_ptr<Ledger>> on{&Ambient::ledger, ledger};
  std::unique_ptr<nn::Performer> model;
  std::unique_ptr<Optimizer> optimizer;
  RunState state;
  StepPlan plan;
  std::shared_ptr<Arena> arena_full, arena_chunked;
  Plan measured;

  Training(const RunConfig& c, const RunOptions& o)
      : config(c), options(o), data(Dataset::open(c.data, uint64_t(c.train.seed), c.train.eval_windows, o.source_dir)) {}

  std::shared_ptr<Arena>& arena_for(int64_t step) { return config.train.chunked_at(step) ? arena_chunked : arena_full; }

  /// Runs in the arena of its plan. The batch itself is part of the plan.
  StepResult step(int64_t index, bool record) {
    const auto body = [&] {
      const nn::TokenBatch batch = to_tensors(data.train(index));
      return train_step(config, *model, *optimizer, batch, index);
    };
    std::shared_ptr<Arena>& arena = arena_for(index);
    if (!arena) arena = std::make_shared<Arena>(plan_step(config, config.train.chunked_at(index)).step);
    const ArenaStep inside(arena);
    if (!record) return body();
    StepResult result;
    measured = record_plan(ledger, [&] { result = body(); });
    return result;
  }
};

void check_directory(const RunOptions& options) {
  const bool holds = newest_checkpoint(options.out).has_value() || fs::exists(options.out / "config.toml");
  if (options.resume && !newest_checkpoint(options.out)) fail<ConfigError>("--resume: ", options.out.string(), " holds no checkpoint to go on from");
  if (!options.resume && holds) fail<ConfigError>("--out: ", options.out.string(), " holds a run already; add --resume to go on with it, or choose another directory");
}

}  // namespace

Evaluation evaluate(const RunConfig& config, nn::Performer& model, const Dataset& data, const std::function<bool(int64_t, int64_t)>& keep_going) {
  model.eval();
  Evaluation out;
  double total = 0;
  for (int64_t at = 0; at < data.validation_count(); at += config.data.batch) {
    if (keep_going && !keep_going(at, data.validation_count())) break;
    const nn::TokenBatch batch = to_tensors(data.validation(at, config.data.batch));
    total += batch_loss(config, model, batch) * double(batch.scored);
    out.tokens += batch.scored;
  }
  model.train();
  out.loss = out.tokens ? total / double(out.tokens) : nan;
  return out;
}

Evaluation evaluate_bytes(const RunConfig& config, nn::Performer& model, const CorpusPtr& corpus) {
  model.eval();
  Evaluation out;
  double total = 0;
  for (int64_t at = 0; at + 1 < corpus->size(); at += config.data.seq) {
    Batch batch{.rows = 1, .seq = std::min(config.data.seq, corpus->size() - at), .tokens = {}, .mask = {}, .scored = 0};
    if (batch.seq < 2) break;
    batch.tokens.resize(size_t(batch.seq));
    corpus->read(at, batch.tokens);
    batch.scored = batch.seq - 1;
    const int64_t scored = batch.scored;
    total += batch_loss(config, model, to_tensors(std::move(batch))) * double(scored);
    out.tokens += scored;
  }
  if (out.tokens == 0) fail<IoError>(corpus->name(), ": ", corpus->size(), " bytes are too few; at least 2 are needed");
  out.loss = total / double(out.tokens);
  return out;
}

LoadedRun load_run(const fs::path& run) {
  const auto checkpoint = newest_checkpoint(run);
  if (!fs::exists(run / "config.toml") || !checkpoint) fail<IoError>(run.string(), ": holds no run with a checkpoint; give the directory that `spool train --out` wrote");
  LoadedRun out;
  out.config = resolve({.preset = {}, .file = run / "config.toml", .settings = {}});
  out.model = make_model(out.config);
  out.model->load((*checkpoint / "model.safetensors").string());
  out.step = nlohmann::json::parse(read_file(*checkpoint / "state.json"), nullptr, false).value("step", int64_t(0));
  return out;
}

RunOutcome run_training(const RunConfig& config, const RunOptions& options) {
  check_directory(options);
  Training run(config, options);
  make_directories(options.out);
  remove_temporaries(options.out);
  if (fs::exists(options.out / "checkpoints")) remove_temporaries(options.out / "checkpoints");

  run.plan = plan_run(config);
  run.model = make_model(config);
  run.optimizer = make_optimizer(config, *run.model);
  run.optimizer->prepare();
  if (options.resume) run.state = load_checkpoint(*newest_checkpoint(options.out), *run.model, *run.optimizer);
  if (options.resume && run.state.step >= config.train.steps)
    fail<ConfigError>(fmt::format("--steps: the run in {} has made its {} steps; say how many there shall be, --steps {} for as many again", options.out.string(),
                                  format_count(config.train.steps), 2 * config.train.steps));
  write_file_atomic(options.out / "config.toml", to_toml(fields_of(config)));
  MetricsFile metrics(options.out / "metrics.jsonl", options.resume ? std::optional(run.state.step) : std::nullopt);
  const int64_t first = run.state.step, steps = config.train.steps;
  Progress progress(steps, first, Progress::options_for(stderr));
  if (!run.data.notice().empty()) progress.note(run.data.notice());
  progress.note(fmt::format("{}: {} parameters, {}; a step needs {}", config.name, format_count(run.model->parameter_count()), run.data.note(), format_bytes(run.plan.step.peak)));

  const SignalWatch watch;
  RunOutcome outcome{.steps = first, .loss = nan, .validation_loss = nan};
  double since = now(), interval_loss = 0, training_seconds = 0;
  int64_t interval_steps = 0, tokens = 0;
  std::string last_text;
  const auto validate = [&](int64_t step) {
    const Evaluation e = evaluate(config, *run.model, run.data, [&](int64_t done, int64_t of) {
      progress.update(step, fmt::format("validating, {} of {} sequences", format_count(done), format_count(of)));
      return !caught_signal;
    });
    progress.update(step, last_text);
    if (caught_signal) return;  // a part of the sequences is not comparable with all of them
    outcome.validation_loss = e.loss;
    if (!run.state.best || e.loss < *run.state.best) run.state.best = e.loss;
    metrics.write({{"step", step}, {"validation_loss", e.loss}, {"validation_bits_per_byte", bits_per_byte(e.loss)}, {"validation_tokens", e.tokens}});
    progress.note(fmt::format("step {}: validation {:.4f} bits per byte ({} bytes)", format_count(step), bits_per_byte(e.loss), format_count(e.tokens)));
  };
  for (int64_t step = first; step < steps && !caught_signal; ++step) {
    const double begin = now();
    const StepResult result = run.step(step, step == steps - 1);
    training_seconds += now() - begin;
    if (result.skipped) {
      ++run.state.skipped;
      progress.note(fmt::format("step {}: loss or gradient is not finite; nothing was updated", format_count(step + 1)));
    } else {
      interval_loss += result.loss;
      ++interval_steps;
    }
    tokens += config.data.batch * (config.data.seq - 1);
    const int64_t done = step + 1;
    run.state.step = done;
    outcome.steps = done;
    const bool last = done == steps;
    if (interval_steps && (done % config.train.log_every == 0 || last)) {
      outcome.loss = interval_loss / double(interval_steps);
      const double rate = double(tokens) / training_seconds;
      outcome.tokens_per_second = rate;
      metrics.write({{"step", done}, {"loss", outcome.loss}, {"bits_per_byte", bits_per_byte(outcome.loss)}, {"learning_rate", learning_rate(config, step)},
                     {"grad_norm", result.grad_norm}, {"tokens_per_second", rate}, {"peak_bytes", run.ledger->peak()}, {"skipped", run.state.skipped}});
      interval_loss = 0;
      interval_steps = 0;
    }
    const double shown = std::isnan(outcome.loss) ? result.loss : outcome.loss;
    last_text = fmt::format("loss {:.3f} ({:.2f} bits per byte), {}", shown, bits_per_byte(shown), format_rate(double(tokens), training_seconds, "bytes"));
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
  progress.finish();
  outcome.signal = caught_signal;
  outcome.planned_peak = run.plan.step.peak;
  outcome.measured_peak = run.measured.events.empty() ? run.ledger->peak() : run.measured.peak;
  write_reports(options.out, config, run.plan, run.measured);
  return outcome;
}

}  // namespace spool::train
