#include <spool/nn/detail/performer_part.h>
#include <spool/nn/estimate.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::nn {
namespace {

using detail::PerformerEnds;
using detail::PerformerPart;
using detail::PerformerState;
using detail::Schedule;

/// All positions on one tape.
class FullStep {
 public:
  FullStep(const PerformerConfig& config, const StepSizes& sizes, Schedule& schedule, bool gathered) : state_(config, sizes), part_(config, sizes, state_, schedule, 0, sizes.length) {
    part_.gathered = gathered;
  }
  FullStep(const FullStep&) = delete;  // its part refers to its state
  void forward() { part_.forward(true); }
  void scaled() {}
  void backward() { part_.backward(); }

 private:
  const PerformerState state_;
  PerformerPart part_;
};

/// Algorithm 1. Between slices there are the states alone; backward runs each slice again, from the last to the first.
class SlicedStep {
 public:
  SlicedStep(const PerformerConfig& config, const StepSizes& sizes, Schedule& schedule, bool gathered)
      : gathered_(gathered), c_(config), z_(sizes), s_(schedule), state_(config, sizes), chunk_(std::min(*sizes.loss.chunk, sizes.length)), slices_((sizes.length + chunk_ - 1) / chunk_),
        states_(config.layers * state_.bytes), stores_(sizes.loss.state == StatePolicy::store), initial_(config.layers * state_.size),
        untouched_(stores_ || slices_ == 1 ? 0 : config.layers * sizes.batch * config.heads * config.features() * 4), loss_(sizes.dtype == Dtype::f64 ? 8 : 4), alike_(2 + (config.ngram - 2 + chunk_) / chunk_) {}

  void forward() {
    s_.op("initial states", initial_ + untouched_);
    double work = 0;  // of a slice
    for (int64_t n = 0; n < slices_; ++n) {
      if (const int64_t skipped = after_alike(n) - n; skipped > 0) {
        if (stores_) s_.op("states", skipped * states_);
        s_.work(double(skipped) * work);
        n += skipped;
      }
      work = s_.work();
      PerformerPart part = slice(n);
      part.ends.handed = true;
      part.forward(false);
      if (n > 0 && !stores_) s_.drop(states_);
      if (n == 0) s_.op("sum", 8);
      s_.op("sum", 8);
      s_.drop(8 + loss_);
      work = s_.work() - work;
    }
    s_.op("sum", loss_);
    s_.drop(8);
  }

  void scaled() {}

  void backward() {
    double work = 0;
    for (int64_t n = slices_ - 1; n >= 0; --n) {
      if (n == after_alike(alike_) - 1) {
        s_.work(double(n - std::min(n, alike_)) * work);
        n = std::min(n, alike_);
      }
      work = s_.work();
      const bool last = n == slices_ - 1;
      PerformerPart part = slice(n);
      part.gathered = gathered_ || !last;
      part.ends = {.handed = true, .inverted = n > 0 && !stores_, .replaces = n > 0 && !stores_ && !last, .cotangent = !last, .wanted = true, .shared_loss = true};
      part.forward(true);
      s_.drop(states_ + loss_);  // neither states nor loss of the second run are used
      part.backward();
      work = s_.work() - work;
    }
    const int64_t kept = stores_ ? slices_ : 1, reconstructed = !stores_ && slices_ > 1 ? 1 : 0;
    s_.drop((kept + reconstructed + 1) * states_ + initial_ + untouched_ + loss_);  // the one is the initial states' cotangents
  }

 private:
  PerformerPart slice(int64_t n) const { return PerformerPart(c_, z_, state_, s_, n * chunk_, std::min(z_.length, (n + 1) * chunk_)); }

  /// Slices in the middle are alike, but for states that are stored. Of those from `alike_` on, this is the first that is not passed over.
  int64_t after_alike(int64_t n) const { return n == alike_ ? std::max(n, slices_ - 3) : n; }

  const bool gathered_;
  const PerformerConfig& c_;
  const StepSizes& z_;
  Schedule& s_;
  const PerformerState state_;
  const int64_t chunk_, slices_;
  const int64_t states_;     // bytes of all layers' states
  const bool stores_;
  const int64_t initial_;    // bytes of the initial states: a zero each
  const int64_t untouched_;  // bytes of what tells which rows no slice has changed yet
  const int64_t loss_;       // bytes of a loss
  const int64_t alike_;
};

int64_t block_parameters(const PerformerConfig& c) {
  const int64_t h = c.d_model, f = c.d_ff;
  return 3 * (h * h + h) + (c.out_projection ? h * h + h : 0) + 2 * h * f + f + h + 4 * h;
}

void check(const StepSizes& sizes) {
  if (sizes.loss.recompute != Recompute::none || sizes.loss.loss_chunk || sizes.loss.feed_forward_chunk)
    fail<ConfigError>("estimate: recompute, loss_chunk, feed_forward_chunk: a Performer runs everything in slices; set chunk instead");
  if (sizes.loss.attention != AttentionKind::blockwise) fail<ConfigError>("estimate: attention: a Performer has no softmax attention whose matrix could be kept");
  if (sizes.loss.chunk && *sizes.loss.chunk < 1) fail<ConfigError>("estimate: chunk must be at least 1, got ", *sizes.loss.chunk);
}

}  // namespace

std::vector<ModuleEstimate> module_estimates(const PerformerConfig& config, const StepSizes& sizes) {
  detail::require_plain(sizes);
  Schedule schedule(0);
  const PerformerState state(config, sizes);
  PerformerPart part(config, sizes, state, schedule, 0, sizes.length);
  const PerformerPart::Kept kept = part.kept();
  const int64_t h = config.d_model, ids = sizes.batch * (sizes.length + 1) * ((sizes.byte_tokens ? 1 : 4) + (sizes.masked ? 1 : 0));
  return {{"embed", 1, config.vocab * (h / 2), 0},
          {"preceding.*", config.ngram - 1, (config.ngram - 1) * config.vocab * (h / 2), 0},
          {"layers.*", config.layers, config.layers * block_parameters(config), config.layers * kept.block},
          {"head", 1, config.vocab * h + config.vocab, kept.logits},
          {"", 1, 0, kept.embedded + kept.loss + ids}};
}

Estimate estimate(const PerformerConfig& config, const StepSizes& sizes) {
  config.validate();
  check(sizes);
  const int64_t h = config.d_model;
  const int64_t parameters = config.ngram * config.vocab * (h / 2) + config.layers * block_parameters(config) + config.vocab * h + config.vocab;
  const int64_t omega = config.feature.starts_with("favor") ? config.layers * config.heads * config.features() * (h / config.heads) : 0;
  if (sizes.loss.chunk) return detail::estimate_of(parameters, omega, sizes, [&](Schedule& s, bool gathered) { return SlicedStep(config, sizes, s, gathered); });
  return detail::estimate_of(parameters, omega, sizes, [&](Schedule& s, bool gathered) { return FullStep(config, sizes, s, gathered); });
}

}  // namespace spool::nn
