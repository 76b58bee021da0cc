// The `spool` program: options, and errors as exit codes. 0 done, 1 failed while running, 2 wrong usage or configuration, 130 / 143 stopped
// by a signal after saving.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <cstdio>

#include "train/commands.h"
#include "train/process_memory.h"

namespace {

using namespace spool::train;

void add_config(CLI::App& app, ConfigOptions& options, const char* preset = "A preset; `spool presets` lists them") {
  app.add_option("preset", options.preset, preset);
  app.add_option("--config", options.config, "A TOML file");
  app.add_option("--hf", options.hf, "Hugging Face weights: the model is theirs, and training starts from them");
  app.add_option("--tokenizer", options.tokenizer, "A tokenizer's file or directory (default: the one with --hf, else bytes)");
  app.add_option("--chunk", options.chunk, "C: positions a slice (Algorithm 1); none for the full gradient");
  app.add_option("--batch", options.batch, "Sequences at a time");
  app.add_option("--seq", options.seq, "Tokens a sequence");
  app.add_option("--dtype", options.dtype, "f32, f64 or bf16");
  app.add_option("--optimizer", options.optimizer, "sgd, adam or adamw");
  app.add_option("--budget", options.budget, "A size such as 24GiB: recomputation, pieces and slices are chosen so that a step fits in it, for the least work");
  app.add_option("--set", options.set, "Any setting: --set optim.lr=1e-3 (may be repeated)");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Spool trains sequence models in bounded memory and knows the memory of a step before it runs.", "spool"};
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  int threads = 0;
  app.add_option("--threads", threads, "Threads to use (default: one a core); results do not depend on it")->check(CLI::PositiveNumber);

  TrainCommand train;
  train.resident = peak_resident_bytes();
#ifdef SPOOL_SOURCE_DIR
  train.source_dir = SPOOL_SOURCE_DIR;
#endif
  CLI::App* train_app = app.add_subcommand("train", "Train a model");
  add_config(*train_app, train.config);
  train_app->add_option("--data", train.config.data, "A file, .gz, .zip or directory of text (default: data/enwik8, else the project's own text)");
  train_app->add_option("--steps", train.config.steps, "Steps in the whole run");
  train_app->add_option("--seed", train.config.seed, "Seed of everything random");
  train_app->add_option("--out", train.out, "The run's directory (default: runs/NAME)");
  train_app->add_option("--limit", train.limit, "Bytes that a step may need, such as 2GiB: when it needs more, a report and no training");
  train_app->add_option("--profile", train.profile, "Write when each kernel of ten steps ran as a trace for Perfetto or chrome://tracing, and print the costliest ops");
  train_app->add_flag("--resume", train.resume, "Go on from the newest checkpoint in --out");
  train_app->add_flag("--json", train.json, "One JSON document on stdout");

  PlanCommand plan;
  CLI::App* plan_app = app.add_subcommand("plan", "The memory of a training step, without running it");
  add_config(*plan_app, plan.config, "A preset, a known model such as llama-2-7b (`spool presets` lists both), a run's directory, a .toml or a config.json; --seq counts the positions that a known model computes");
  plan_app->add_flag("--article", plan.article, "The formulas of \"LLM Training memory\" and others beside what is so (default: the article's example)");
  plan_app->add_flag("--json", plan.json, "One JSON document on stdout");

  EvalCommand eval;
  CLI::App* eval_app = app.add_subcommand("eval", "Loss of a trained model on data");
  eval_app->add_option("model", eval.model, "A run's directory, a Hugging Face directory, or a llama2.c .bin")->required();
  eval_app->add_option("--tokenizer", eval.tokenizer, "A tokenizer's file or directory (default: the model's)");
  eval_app->add_option("--seq", eval.seq, "Tokens a sequence (default: the run's)");
  auto* eval_data = eval_app->add_option("--data", eval.data, "A file, .gz, .zip or directory");
  auto* eval_text = eval_app->add_option("--text", eval.text, "The text itself");
  eval_data->excludes(eval_text);
  eval_app->add_flag("--json", eval.json, "One JSON document on stdout");

  GenerateCommand generate;
  CLI::App* generate_app = app.add_subcommand("generate", "Text from a trained model");
  generate_app->add_option("model", generate.model, "A run's directory, a Hugging Face directory, or a llama2.c .bin")->required();
  generate_app->add_option("--tokenizer", generate.tokenizer, "A tokenizer's file or directory (default: the model's)");
  generate_app->add_option("--prompt", generate.prompt, "What it starts with");
  generate_app->add_option("--tokens", generate.options.tokens, "How many to generate at most")->capture_default_str();
  SampleOptions& sampling = generate.options.sampling;
  generate_app->add_option("--temperature", sampling.temperature, "0 takes the likeliest token each time")->capture_default_str();
  generate_app->add_option("--top-k", sampling.top_k, "Draw from that many likeliest tokens; 0 for all")->capture_default_str();
  generate_app->add_option("--top-p", sampling.top_p, "Draw from the fewest likeliest tokens that have this probability")->capture_default_str();
  generate_app->add_option("--repetition-penalty", sampling.repetition_penalty, "Makes tokens that were there less likely; 1 for none")->capture_default_str();
  generate_app->add_option("--stop", generate.options.stop, "Ends before this text (may be repeated)")->allow_extra_args(false);
  generate_app->add_option("--seed", generate.options.seed, "Of the draws")->capture_default_str();
  generate_app->add_flag("--json", generate.json, "One JSON document on stdout");

  ReportCommand report;
  CLI::App* report_app = app.add_subcommand("report", "Where the bytes of a run's step went");
  report_app->add_option("run", report.run, "A run's directory")->required();
  auto* report_other = report_app->add_option("other", report.other, "Another run: how its report differs from the first");
  const auto report_option = [&](const char* name, std::optional<std::filesystem::path>& file, const char* text) {
    report_app->add_option(name, file, text)->excludes(report_other);
  };
  report_option("--html", report.html, "Write the report as one HTML file");
  report_option("--trace", report.trace, "Write the step's buffers as a trace for Perfetto or chrome://tracing");
  report_option("--csv", report.csv, "Write the step's buffers, when they live and where the arena puts them, as MiniMalloc's CSV");
  report_option("--snapshot", report.snapshot, "Write the step's buffers as a memory snapshot for PyTorch's viewer, pytorch.org/memory_viz");
  report_option("--folded", report.folded, "Write what is alive at the peak as folded stacks for flame graphs");
  report_app->add_flag("--json", report.json, "One JSON document on stdout");

  OpsCommand ops;
  bool presets_json = false;
  CLI::App* ops_app = app.add_subcommand("ops", "All ops: what each keeps for backward; or all about one");
  ops_app->add_option("NAME", ops.name, "An op or function: signature, formula, types, shapes, what it refuses");
  ops_app->add_flag("--json", ops.json, "One JSON document on stdout");
  ops_app->add_flag("--markdown", ops.markdown, "The reference page, ops/REFERENCE.md");
  CLI::App* presets_app = app.add_subcommand("presets", "Configurations and models known by name");
  presets_app->add_flag("--json", presets_json, "One JSON document on stdout");

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& error) {
    return app.exit(error);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "spool: {}; see `spool --help`\n", error.what());
    return 2;
  }
  try {
    if (threads) spool::set_num_threads(threads);
    if (*train_app) return run(train);
    if (*plan_app) run(plan);
    if (*eval_app) {
      if (eval.data.empty() && !eval.text) spool::fail<spool::ConfigError>("eval: say what to evaluate on: --data PATH or --text TEXT");
      run(eval);
    }
    if (*generate_app) run(generate);
    if (*report_app) run(report);
    if (*ops_app) run(ops);
    if (*presets_app) run_presets(presets_json);
  } catch (const spool::ConfigError& error) {
    fmt::print(stderr, "spool: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "spool: {}\n", error.what());
    return 1;
  }
  if (std::fflush(stdout) != 0) {
    fmt::print(stderr, "spool: cannot write to standard output\n");
    return 1;
  }
  return 0;
}
