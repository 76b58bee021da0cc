#include "train/commands.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spool/tensor/error.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "train/article.h"
#include "train/config_text.h"
#include "train/evaluate.h"
#include "train/files.h"
#include "train/format.h"
#include "train/loaded.h"
#include "train/models.h"
#include "train/op_page.h"
#include "train/presets.h"
#include "train/report_difference.h"
#include "train/run.h"
#include "train/run_report.h"
#include "train/step.h"

namespace spool::train {
namespace {

using Json = nlohmann::ordered_json;

void print_json(const Json& json) { fmt::print("{}\n", json.dump(2)); }
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

void show_notice(const LoadedModel& loaded) {
  if (!loaded.notice.empty()) fmt::print(stderr, "{}\n", loaded.notice);
}

void run_article(const PlanCommand& command) {
  ConfigOptions options = command.config;
  if (options.preset.empty() && options.config.empty() && options.hf.empty()) options.preset = "llama-2-7b";
  if (find_known_model(options.preset)) {
    if (!options.batch) options.batch = "8";
    if (!options.seq) options.seq = "2048";
  }
  const RunConfig config = options.resolve_plan();
  if (command.json) print_json(article_json(config));
  else fmt::print("{}", article_text(config));
}

}  // namespace

RunConfig ConfigOptions::resolve() const {
  if (preset.empty() && config.empty() && hf.empty()) fail<ConfigError>("say what to run: a preset (see `spool presets`), --config FILE or --hf DIR");
  return resolve(false);
}

RunConfig ConfigOptions::resolve_plan() const {
  if (preset.empty() && config.empty() && hf.empty()) fail<ConfigError>("say what to plan: a name, --config FILE or --hf DIR; ", plan_names());
  ConfigOptions options = *this;
  std::error_code ignored;
  if (find_known_model(preset)) {
    int64_t length = 0;
    const char* end = seq ? seq->data() + seq->size() : nullptr;
    if (seq && std::from_chars(seq->data(), end, length).ptr == end && length > 0 && length < INT64_MAX) options.seq = std::to_string(length + 1);
  } else if (!find_preset(preset) && std::filesystem::exists(preset, ignored)) {
    const std::filesystem::path place = std::exchange(options.preset, {});
    const bool run = std::filesystem::exists(place / "config.toml", ignored);
    (run || place.extension() == ".toml" ? options.config : options.hf) = run ? place / "config.toml" : place;
  }
  return options.resolve(true);
}

std::vector<Override> ConfigOptions::settings() const {
  std::vector<Override> out;
  const auto option = [&](const char* key, const std::optional<std::string>& value, const char* name) {
    if (value) out.push_back({key, *value, name});
  };
  option("data.path", data, "--data");
  option("data.tokenizer", tokenizer, "--tokenizer");
  option("train.steps", steps, "--steps");
  option("train.chunk", chunk, "--chunk");
  option("train.seed", seed, "--seed");
  option("data.batch", batch, "--batch");
  option("data.seq", seq, "--seq");
  option("train.dtype", dtype, "--dtype");
  option("optim.name", optimizer, "--optimizer");
  for (const std::string& text : set) out.push_back(parse_override(text));
  return out;
}
RunConfig ConfigOptions::resolve(bool plan) const { return spool::train::resolve({preset, config, hf, settings(), plan}); }
std::optional<BudgetChoice> ConfigOptions::fit(RunConfig& resolved) const {
  if (!budget) return {};
  std::set<std::string> given;
  for (const Override& setting : settings()) given.insert(setting.key);
  BudgetChoice choice = choose_within(resolved, std::move(given), parse_bytes(*budget, "--budget"));
  resolved = choice.way.config;
  return choice;
}

int run(const TrainCommand& command) {
  ConfigOptions options = command.config;
  if (command.resume && options.preset.empty() && options.config.empty() && !command.out.empty()) {
    options.config = command.out / "config.toml";
    if (!std::filesystem::exists(options.config)) fail<ConfigError>("--resume: ", command.out.string(), " holds no run to go on with");
  }
  const auto limit = command.limit ? std::optional(parse_bytes(*command.limit, "--limit")) : std::nullopt;
  RunConfig config = options.resolve();
  if (const auto choice = options.fit(config)) fmt::print(stderr, "{}", budget_text(*choice));
  const std::filesystem::path out = command.out.empty() ? std::filesystem::path("runs") / config.name : command.out;
  const RunOutcome r = run_training(config, {.out = out, .source_dir = command.source_dir, .hf = command.config.hf, .resume = command.resume, .limit = limit, .profile = command.profile, .resident = command.resident});
  const Json growth = r.process_growth ? Json(*r.process_growth) : Json(), outside = r.process_growth ? Json(*r.process_growth - r.planned_peak) : Json();
  if (command.json) {
    print_json({{"schema", "spool.train/1"}, {"steps", r.steps}, {"loss", number(r.loss)},
                {"validation", {{"loss", number(r.validation.loss())}, {"bits_per_byte", number(r.validation.bits_per_byte())}}},
                {"tokens_per_second", number(r.tokens_per_second)},
                {"peak", {{"closed_form", r.closed_form_peak ? Json(*r.closed_form_peak) : Json()}, {"planned", r.planned_peak}, {"measured", r.measured_peak}}},
                {"process", {{"growth", growth}, {"outside_the_plan", outside}}}, {"run", out.string()}});
  } else if (r.signal) {
    fmt::print(stderr, "stopped after {} steps; go on with --resume\n", format_count(r.steps));
  } else {
    fmt::print(stderr, "{} steps: loss {:.4f}, validation {:.4f} bits per byte, peak {} planned, {} measured{}; run in {}\n", format_count(r.steps), r.loss,
               r.validation.bits_per_byte(), format_bytes(r.planned_peak), format_bytes(r.measured_peak),
               r.process_growth ? fmt::format(", the process grew by {}", format_bytes(*r.process_growth)) : "", out.string());
  }
  return r.signal ? 128 + r.signal : 0;
}

void run(const PlanCommand& command) {
  if (command.article) return run_article(command);
  RunConfig config = command.config.resolve_plan();
  const auto choice = command.config.fit(config);
  const StepPlan plan = plan_run(config);
  const int64_t parameters = make_model(config, meta())->parameter_count();
  if (command.json) {
    Json document = plan_json(config, parameters, plan);
    if (choice) document["budget"] = budget_json(*choice);
    print_json(document);
  } else {
    fmt::print("{}{}", choice ? budget_text(*choice) + "\n" : "", plan_text(config, parameters, plan));
  }
}

void run(const EvalCommand& command) {
  LoadedModel loaded = load_model(command.model, command.tokenizer);
  if (command.seq) loaded.config.data.seq = *command.seq;
  validate(loaded.config);
  show_notice(loaded);
  const CorpusPtr corpus = command.text ? memory_corpus("--text", {command.text->begin(), command.text->end()}) : open_corpus(command.data);
  const Evaluation e = evaluate_text(loaded.config, *loaded.model, corpus, loaded.tokenizer);
  if (command.json)
    print_json({{"schema", "spool.eval/1"}, {"tokens", e.tokens}, {"bytes", e.bytes}, {"loss", number(e.loss())}, {"bits_per_byte", number(e.bits_per_byte())}});
  else
    fmt::print("{} tokens, {} bytes: loss {:.4f} nats a token, {:.4f} bits per byte\n", format_count(e.tokens), format_count(e.bytes), e.loss(), e.bits_per_byte());
}

void run(const GenerateCommand& command) {
  command.options.validate();
  const LoadedModel loaded = load_model(command.model, command.tokenizer);
  show_notice(loaded);
  std::string text = command.prompt;
  if (!command.json) fmt::print("{}", command.prompt);
  std::fflush(stdout);
  const Generated made = generate(*loaded.model, *loaded.tokenizer, command.prompt, command.options, [&](std::string_view piece) {
    if (command.json) text += piece;
    else std::fwrite(piece.data(), 1, piece.size(), stdout), std::fflush(stdout);
  });
  if (command.json) {
    const Json document{{"schema", "spool.generate/1"}, {"text", text}, {"prompt_tokens", made.prompt_tokens}, {"tokens", made.tokens}, {"ending", ending_name(made.ending)}};
    fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("\n");
  if (made.ending == Ending::positions)
    fmt::print(stderr, "ended after {} tokens: the model has no more positions\n", format_count(made.tokens));
}

void run(const ReportCommand& command) {
  const auto report_file = [](const std::filesystem::path& run, const char* name) {
    const auto file = run / name;
    if (!std::filesystem::exists(file)) fail<IoError>(run.string(), ": holds no ", name, "; a run writes it when it ends");
    return file;
  };
  if (command.other) {
    const auto read = [&](const std::filesystem::path& run) { return read_report(report_file(run, "report.json")); };
    const ReportDifference difference = compare_reports(read(command.run), read(*command.other));
    if (command.json) print_json(difference_json(difference, command.run.string(), command.other->string()));
    else fmt::print("{}", difference_text(difference, command.run.string(), command.other->string()));
    return;
  }
  const auto file = report_file(command.run, command.json ? "report.json" : "report.txt");
  if (command.html) write_file_atomic(*command.html, read_file(report_file(command.run, "report.html")));
  const bool planned = command.trace || command.csv || command.folded || command.snapshot;
  if (planned) {
    const RunConfig config = resolve({.preset = {}, .file = command.run / "config.toml", .hf = {}, .settings = {}});
    const StepPlan plan = plan_run(config);
    if (command.trace) write_file_atomic(*command.trace, plan_trace(plan));
    if (command.csv) write_file_atomic(*command.csv, plan_csv(plan));
    if (command.folded) write_file_atomic(*command.folded, plan_stacks(config, plan));
    if (command.snapshot) write_file_atomic(*command.snapshot, plan_snapshot(plan));
  }
  if ((command.html || planned) && !command.json) return;
  fmt::print("{}", read_file(file));
}

void run(const OpsCommand& command) {
  if (command.json) return print_json(ops_json());
  fmt::print("{}", command.markdown ? ops_markdown() : command.name.empty() ? ops_table() : op_text(command.name));
}

void run_presets(bool json) {
  Json list = Json::array();
  for (const Preset& p : presets()) {
    list.push_back({{"name", p.name}, {"doc", p.doc}});
    if (!json) fmt::print("{:<14} {}\n", p.name, p.doc);
  }
  Json models = Json::array();
  if (!json) fmt::print("\nModels, for `spool plan` alone:\n");
  for (const KnownModel& m : known_models()) {
    models.push_back({{"name", m.name}, {"doc", m.doc}, {"positions", m.length}});
    if (!json) fmt::print("{:<14} {}, L = {}\n", m.name, m.doc, format_count(m.length));
  }
  if (json) print_json({{"schema", "spool.presets/1"}, {"presets", list}, {"models", models}});
}

}  // namespace spool::train
