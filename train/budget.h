#pragma once
// How to compute a step within a number of bytes: which recomputation, which pieces of the loss and of the feed-forward blocks, which slices.
// Every way is judged by its whole peak, what recomputation itself needs included, never by what it keeps alone.
#include <nlohmann/json_fwd.hpp>
#include <spool/autograd/report.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "train/step.h"

namespace spool::train {

/// A configuration's step, computed in some way.
struct Way {
  RunConfig config;
  int64_t peak = 0;        ///< Bytes, equal to the plan's.
  double extra_work = 0;   ///< Arithmetic beyond the plainest way's, as a share of that. See nn::Estimate::work.
};

/// What a way sets differently from `config`, as options: "--set train.recompute=block:4 --set train.loss_chunk=1024"; empty: nothing.
std::string settings_text(const RunConfig& config, const Way& way);

class Budget {
 public:
  /// Ways of `config`. What is in `fixed` ("train.loss_chunk") stays as it is; the rest of train.recompute, recompute_ops, loss_chunk,
  /// feed_forward_chunk, chunk and state is chosen, whatever `config` says of it.
  explicit Budget(RunConfig config, std::set<std::string> fixed = {});

  const Way& plain() const { return plain_; }  ///< Nothing recomputed, nothing in pieces, but for what is fixed.
  double plain_work() const { return plain_work_; }  ///< Its arithmetic, see nn::Estimate::work.
  /// The least work whose peak is at most `bytes`; of equal work, the largest pieces; StatePolicy::subtract only where nothing else fits.
  /// Nothing when no way fits.
  std::optional<Way> choose(int64_t bytes) const;
  Way least() const;  ///< The least peak of all.

  /// What more memory would buy: the choice for each of up to `rows` larger budgets, until nothing needs recomputing. Equal ones once.
  struct Offer {
    int64_t budget = 0;
    Way way;
  };
  std::vector<Offer> offers(int64_t bytes, int rows = 8) const;

 private:
  struct Figures {
    int64_t peak = 0;
    double work = 0;
  };
  Figures figures(const RunConfig& config) const;
  Way way(RunConfig config) const;
  template <class F> void each_piece(const F& f) const;
  std::vector<nn::Recompute> policies() const;
  std::optional<Way> first_blocks(const RunConfig& config, nn::Recompute::Scope scope, int64_t bytes) const;
  std::optional<Way> choose_blocks(int64_t bytes) const;
  std::optional<Way> choose_slices(int64_t bytes) const;
  std::vector<RunConfig> slices() const;
  bool free(const char* key) const { return !fixed_.contains(key); }

  RunConfig config_;
  std::set<std::string> fixed_;
  double plain_work_ = 0;
  Way plain_;
  mutable std::map<std::string, Figures> known_;  ///< By what is chosen.
};

/// What `--budget` comes to.
struct BudgetChoice {
  RunConfig given;
  int64_t budget = 0;
  Way way, plain;
  std::vector<Budget::Offer> offers;
};
/// Throws PlanError with the least peak that is feasible when the budget is below it.
BudgetChoice choose_within(const RunConfig& config, std::set<std::string> fixed, int64_t budget);
std::string budget_text(const BudgetChoice& choice);
nlohmann::ordered_json budget_json(const BudgetChoice& choice);

/// Changes to a step that lower its peak, one setting each, with their exact effect, for the report: most bytes for the work first.
std::vector<Suggestion> suggestions(const RunConfig& config);

}  // namespace spool::train
