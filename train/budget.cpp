#include "train/budget.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spool/tensor/error.h>

#include <algorithm>

#include "train/format.h"

namespace spool::train {
namespace {

constexpr const char* chosen_keys[] = {"train.recompute", "train.recompute_ops", "train.loss_chunk", "train.feed_forward_chunk", "train.chunk", "train.state"};

std::string text_of(const RunConfig& config, const char* key) {
  const Fields fields = fields_of(config);
  return to_text(value_of(*fields.find(key)));
}

bool sliced(const RunConfig& config) { return config.model.type == ModelType::performer; }
bool in_pieces(const RunConfig& config) { return config.train.feed_forward_chunk > 0 && config.train.feed_forward_chunk < config.data.seq - 1; }

/// Powers of two below `length`, from the largest on.
std::vector<int64_t> pieces_below(int64_t length, int64_t least) {
  std::vector<int64_t> out;
  int64_t size = 1;
  while (2 * size < length) size *= 2;
  for (; size >= least; size /= 2) out.push_back(size);
  return out;
}

/// Results that can be made again, cheapest for the bytes first.
std::vector<std::vector<std::string>> remakes(const RunConfig& config) {
  if (config.model.type != ModelType::llama) return {{}, {"linear"}, {"layer_norm", "linear"}};
  if (in_pieces(config)) return {{}, {"swiglu"}, {"rms_norm", "swiglu"}};
  return {{}, {"swiglu"}, {"add_rms_norm", "rms_norm", "swiglu"}};
}

bool less_work(const Way& a, const std::optional<Way>& b) { return !b || a.extra_work < b->extra_work; }
bool less_memory(const Way& a, const std::optional<Way>& b) { return !b || a.peak < b->peak || (a.peak == b->peak && a.extra_work < b->extra_work); }

}  // namespace

std::string settings_text(const RunConfig& config, const Way& way) {
  std::string out;
  for (const char* key : chosen_keys) {
    std::string value = text_of(way.config, key);
    if (value == text_of(config, key)) continue;
    const bool list = value.starts_with('[');
    std::erase_if(value, [&](char c) { return !list && c == '"'; });
    out += fmt::format("{}--set {}{}={}{}", out.empty() ? "" : " ", list ? "'" : "", key, value, list ? "'" : "");
  }
  return out;
}

Budget::Budget(RunConfig config, std::set<std::string> fixed) : config_(std::move(config)), fixed_(std::move(fixed)) {
  if (config_.train.mode == Mode::finetune) fixed_.insert({"train.chunk", "train.state"});  // the first half has no slices
  TrainConfig& t = config_.train;
  if (free("train.recompute")) t.recompute = nn::Recompute::none;
  if (free("train.recompute_ops")) t.recompute_ops.clear();
  if (free("train.loss_chunk")) t.loss_chunk = 0;
  if (free("train.feed_forward_chunk")) t.feed_forward_chunk = 0;
  if (free("train.chunk")) {
    t.chunk.reset();
    t.mode = Mode::automatic;
  }
  if (free("train.state")) t.state = StatePolicy::subtract64;
  plain_work_ = figures(config_).work;
  plain_ = way(config_);
}

/// The peak of whichever kind of step needs more, from the closed form or, where there is none, from the plan.
Budget::Figures Budget::figures(const RunConfig& config) const {
  const TrainConfig& t = config.train;
  const std::string key = fmt::format("{};{};{};{};{};{}", to_string(t.recompute), fmt::join(t.recompute_ops, ","), t.loss_chunk, t.feed_forward_chunk, t.chunk.value_or(0), int(t.state));
  const auto [found, added] = known_.try_emplace(key);
  if (!added) return found->second;
  Figures& out = found->second;
  std::set<bool> kinds{config.train.chunked_at(0), config.train.chunked_at(config.train.steps - 1)};
  for (const bool chunked : kinds) {
    if (const auto known = closed_form(config, chunked)) {
      out.peak = std::max(out.peak, known->peak.bytes);
      out.work = std::max(out.work, known->work);
    } else {
      out.peak = std::max(out.peak, plan_step(config, chunked).step.peak);
      RunConfig without = config;
      without.train.recompute_ops.clear();
      if (const auto similar = closed_form(without, chunked)) out.work = std::max(out.work, similar->work);
    }
  }
  return out;
}

Way Budget::way(RunConfig config) const {
  const Figures f = figures(config);
  return {std::move(config), f.peak, plain_work_ > 0 ? f.work / plain_work_ - 1 : 0};
}

/// f(configuration) with each choice of pieces and of results made again, the plainest first.
template <class F>
void Budget::each_piece(const F& f) const {
  std::vector<int64_t> feed_forward{0}, loss{0};
  const int64_t length = config_.data.seq - 1;
  if (free("train.feed_forward_chunk"))
    for (const int64_t size : pieces_below(length, 256)) feed_forward.push_back(size);
  if (free("train.loss_chunk"))
    for (const int64_t size : pieces_below(config_.data.batch * length, 128)) loss.push_back(size);
  for (const int64_t ff : feed_forward)
    for (const int64_t rows : loss) {
      RunConfig config = config_;
      if (free("train.feed_forward_chunk")) config.train.feed_forward_chunk = ff;
      if (free("train.loss_chunk")) config.train.loss_chunk = rows;
      if (!free("train.recompute_ops")) {
        f(config);
        continue;
      }
      for (auto& names : remakes(config)) {
        config.train.recompute_ops = names;
        f(config);
      }
    }
}

/// Of policies that run all blocks again, in what groups.
std::vector<nn::Recompute> Budget::policies() const {
  std::vector<nn::Recompute> out{nn::Recompute::attention, nn::Recompute::block};
  for (const int64_t size : pieces_below(config_.model.blocks(), 2)) {
    out.push_back(nn::Recompute::groups(size));
    out.push_back(nn::Recompute::groups(size, true));
  }
  return out;
}

/// The fewest blocks from the first on whose recomputation fits. The peak falls with their number.
std::optional<Way> Budget::first_blocks(const RunConfig& config, nn::Recompute::Scope scope, int64_t bytes) const {
  const auto with = [&](int64_t count) {
    RunConfig changed = config;
    changed.train.recompute = {scope, count, 1, false};
    if (count == config_.model.blocks()) changed.train.recompute.first = 0;  // all of them
    return way(std::move(changed));
  };
  int64_t low = 0, high = config_.model.blocks();
  if (with(high).peak > bytes) return {};
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (with(middle).peak <= bytes ? high : low) = middle;
  }
  return with(high);
}

std::optional<Way> Budget::choose_blocks(int64_t bytes) const {
  std::optional<Way> best;
  const auto consider = [&](std::optional<Way> way) {
    if (way && way->peak <= bytes && less_work(*way, best)) best = std::move(way);
  };
  each_piece([&](const RunConfig& config) {
    const Way none = way(config);
    if (!less_work(none, best)) return;  // recomputing on top of it is no less
    if (none.peak <= bytes || !free("train.recompute")) return consider(none);
    consider(first_blocks(config, nn::Recompute::Scope::attention, bytes));
    std::optional<Way> blocks = first_blocks(config, nn::Recompute::Scope::block, bytes);
    if (blocks) return consider(std::move(blocks));
    for (const nn::Recompute& policy : policies()) {
      RunConfig grouped = config;
      grouped.train.recompute = policy;
      consider(way(std::move(grouped)));
    }
  });
  return best;
}

std::vector<RunConfig> Budget::slices() const {
  std::vector<RunConfig> out{config_};
  std::vector<int64_t> chunks = pieces_below(config_.data.seq - 1, 1);
  if (!free("train.chunk")) chunks.assign(config_.train.chunk ? 1 : 0, config_.train.chunk.value_or(0));
  for (const int64_t chunk : chunks)
    for (const StatePolicy state : {StatePolicy::subtract64, StatePolicy::subtract, StatePolicy::store}) {
      if (!free("train.state") && state != config_.train.state) continue;
      RunConfig config = config_;
      config.train.chunk = chunk;
      config.train.state = state;
      out.push_back(std::move(config));
    }
  if (!free("train.recompute_ops")) return out;
  std::vector<RunConfig> all;
  for (const RunConfig& config : out)
    for (auto& names : remakes(config)) {
      all.push_back(config);
      all.back().train.recompute_ops = names;
    }
  return all;
}

std::optional<Way> Budget::choose_slices(int64_t bytes) const {
  // Subtraction in f32 lets rounding grow along the sequence: only where nothing else fits.
  std::optional<Way> best, drifting;
  for (RunConfig& config : slices()) {
    std::optional<Way>& group = free("train.state") && config.train.state == StatePolicy::subtract ? drifting : best;
    if (Way candidate = way(std::move(config)); candidate.peak <= bytes && less_work(candidate, group)) group = std::move(candidate);
  }
  return best ? best : drifting;
}

std::optional<Way> Budget::choose(int64_t bytes) const { return sliced(config_) ? choose_slices(bytes) : choose_blocks(bytes); }

Way Budget::least() const {
  std::optional<Way> best;
  const auto consider = [&](RunConfig config) {
    if (Way candidate = way(std::move(config)); less_memory(candidate, best)) best = std::move(candidate);
  };
  if (sliced(config_)) {
    for (RunConfig& config : slices()) consider(std::move(config));
  } else {
    each_piece([&](const RunConfig& config) {
      consider(config);
      if (!free("train.recompute")) return;
      for (const nn::Recompute& policy : policies()) {
        RunConfig grouped = config;
        grouped.train.recompute = policy;
        consider(std::move(grouped));
      }
    });
  }
  return *best;
}

std::vector<Budget::Offer> Budget::offers(int64_t bytes, int rows) const {
  std::vector<Offer> out;
  std::optional<Way> last = choose(bytes);
  if (!last) return out;
  const int64_t gap = plain_.peak - last->peak;
  int64_t step = int64_t(1) << 30;  // GiB by GiB, or less where that is all there is to gain
  while (step > (1 << 20) && 4 * step > gap) step /= 2;
  for (int64_t more = step; int(out.size()) < rows && last->extra_work > 0; more += step) {
    if (more > gap + step) break;
    std::optional<Way> next = choose(bytes + more);
    if (!next || next->extra_work > last->extra_work - 0.002) continue;  // not worth a line
    last = next;
    out.push_back({bytes + more, std::move(*next)});
  }
  return out;
}

BudgetChoice choose_within(const RunConfig& config, std::set<std::string> fixed, int64_t budget) {
  const Budget ways(config, std::move(fixed));
  std::optional<Way> best = ways.choose(budget);
  if (!best) {
    const Way least = ways.least();
    const std::string how = settings_text(config, least);
    fail<PlanError>(fmt::format("--budget: {} is less than the least that {} can take, {}{}; make the batch or the sequence smaller, or take an optimizer or a type that keeps less",
                                format_bytes(budget), config.name, format_bytes(least.peak), how.empty() ? "" : " with " + how));
  }
  if (const int64_t peak = plan_run(best->config).step.peak; peak != best->peak)
    fail<PlanError>(fmt::format("--budget: the choice {} was computed to peak at {}, but its plan peaks at {}", settings_text(config, *best), format_bytes(best->peak), format_bytes(peak)));
  return {config, budget, std::move(*best), ways.plain(), ways.offers(budget)};
}

std::string budget_text(const BudgetChoice& c) {
  const auto share = [](double extra) { return extra < 0.0005 ? std::string("less than 0.1 % more arithmetic") : fmt::format("{:.1f} % more arithmetic", 100 * extra); };
  const auto how = [&](const Way& way) {
    const std::string text = settings_text(c.given, way);
    return text.empty() ? std::string("as it is configured") : text;
  };
  std::string out = fmt::format("budget           {}\n  chosen         {}\n  peak           {}, {}\n", format_bytes(c.budget), how(c.way), format_bytes(c.way.peak),
                                c.way.extra_work > 0 ? share(c.way.extra_work) + " than with everything kept" : "nothing is recomputed");
  if (c.way.extra_work > 0) out += fmt::format("  everything kept would take {}\n", format_bytes(c.plain.peak));
  for (const Budget::Offer& offer : c.offers)
    out += fmt::format("  with {:<10}{}: {}\n", binary_size(offer.budget), offer.way.extra_work > 0 ? share(offer.way.extra_work) : "nothing recomputed", how(offer.way));
  return out;
}

nlohmann::ordered_json budget_json(const BudgetChoice& c) {
  const auto way = [&](const Way& w) -> nlohmann::ordered_json { return {{"how", settings_text(c.given, w)}, {"peak", w.peak}, {"extra_work", w.extra_work}}; };
  nlohmann::ordered_json offers = nlohmann::ordered_json::array();
  for (const Budget::Offer& offer : c.offers) {
    nlohmann::ordered_json entry = {{"budget", offer.budget}};
    entry.update(way(offer.way));
    offers.push_back(std::move(entry));
  }
  return {{"budget", c.budget}, {"chosen", way(c.way)}, {"everything_kept", way(c.plain)}, {"with_more", offers}};
}

std::vector<Suggestion> suggestions(const RunConfig& config) {
  const Budget exactly(config, {std::begin(chosen_keys), std::end(chosen_keys)});
  const int64_t peak = exactly.plain().peak;
  std::vector<std::pair<std::string, RunConfig>> changes;
  const auto change = [&](std::string text, const auto& edit) {
    RunConfig changed = config;
    edit(changed.train);
    changes.push_back({std::move(text), std::move(changed)});
  };
  const int64_t length = config.data.seq - 1, rows = config.data.batch * length, blocks = config.model.blocks();
  const std::vector<std::string> names = remakes(config).back();
  if (config.train.recompute_ops != names) change("make norms and activations again in backward", [&](TrainConfig& t) { t.recompute_ops = names; });
  if (sliced(config)) {
    const int64_t now = config.train.chunk.value_or(length);
    for (const int64_t chunk : pieces_below(now, 1)) {
      if (chunk < now / 64 || config.train.mode == Mode::finetune) break;
      change(fmt::format("slices of {}", format_count(chunk)), [&](TrainConfig& t) {
        t.chunk = chunk;
        if (t.mode == Mode::full) t.mode = Mode::automatic;
      });
    }
    if (config.train.chunk && config.train.state == StatePolicy::store) change("states by subtraction instead of stored", [](TrainConfig& t) { t.state = StatePolicy::subtract64; });
  } else {
    if (config.train.recompute == nn::Recompute::none) {
      if (blocks > 3) change(fmt::format("recompute the first {} of {} blocks", blocks / 2, blocks), [&](TrainConfig& t) { t.recompute = nn::Recompute::first_blocks(blocks / 2); });
      change("recompute the attention part of every block", [](TrainConfig& t) { t.recompute = nn::Recompute::attention; });
    }
    if (config.train.recompute != nn::Recompute::block) change("recompute every block", [](TrainConfig& t) { t.recompute = nn::Recompute::block; });
    for (const int64_t size : pieces_below(blocks, 2))
      if (size * size <= 2 * blocks) {
        change(fmt::format("recompute blocks in nested groups of {}", size), [&](TrainConfig& t) { t.recompute = nn::Recompute::groups(size, true); });
        break;
      }
    for (const int64_t size : {int64_t(1024), int64_t(256)})
      if (size < rows && (!config.train.loss_chunk || size < config.train.loss_chunk)) change(fmt::format("the loss {} rows at a time", format_count(size)), [&](TrainConfig& t) { t.loss_chunk = size; });
    for (const int64_t size : {int64_t(4096), int64_t(512)})
      if (size < length && (!config.train.feed_forward_chunk || size < config.train.feed_forward_chunk))
        change(fmt::format("feed-forward blocks {} positions at a time", format_count(size)), [&](TrainConfig& t) {
          t.feed_forward_chunk = size;
          std::erase(t.recompute_ops, "add_rms_norm");
        });
  }
  std::vector<Suggestion> out;
  for (auto& [text, changed] : changes) {
    const Budget other(changed, {std::begin(chosen_keys), std::end(chosen_keys)});
    const Way way{changed, other.plain().peak, 0};
    if (way.peak >= peak) continue;
    out.push_back({.change = text, .how = settings_text(config, way), .peak = way.peak, .extra_work = other.plain_work() / exactly.plain_work() - 1});
  }
  const std::vector<Suggestion> all = out;
  std::erase_if(out, [&](const Suggestion& s) {  // another saves as much for less
    return std::any_of(all.begin(), all.end(), [&](const Suggestion& o) { return o.peak <= s.peak && o.extra_work <= s.extra_work && (o.peak < s.peak || o.extra_work < s.extra_work); });
  });
  std::sort(out.begin(), out.end(), [&](const Suggestion& a, const Suggestion& b) {
    const auto worth = [&](const Suggestion& s) { return double(peak - s.peak) / std::max(s.extra_work, 1e-6); };
    return worth(a) > worth(b);
  });
  return out;
}

}  // namespace spool::train
