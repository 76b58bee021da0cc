#pragma once
// Running totals of the memory report: by name, and by part of the step. Private.
#include <spool/autograd/report.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace spool::detail {

/// Running totals by name.
class Shares {
 public:
  size_t index(const std::string& name) {
    const auto [found, added] = index_.try_emplace(name, shares_.size());
    if (added) {
      shares_.push_back({.name = name});
      live_.push_back(0);
    }
    return found->second;
  }
  void change(size_t share, int64_t bytes) {
    live_[share] += bytes;
    shares_[share].highest = std::max(shares_[share].highest, live_[share]);
  }
  void count(size_t share, int64_t bytes) {
    shares_[share].allocated += bytes;
    ++shares_[share].allocations;
  }
  void keep_as_peak() {
    for (size_t i = 0; i < shares_.size(); ++i) shares_[i].at_peak = live_[i];
  }
  std::vector<MemoryShare> take() {
    std::sort(shares_.begin(), shares_.end(), [](const MemoryShare& a, const MemoryShare& b) {
      return std::tie(b.at_peak, b.allocated, a.name) < std::tie(a.at_peak, a.allocated, b.name);
    });
    return std::move(shares_);
  }

 private:
  std::vector<MemoryShare> shares_;
  std::vector<int64_t> live_;
  std::unordered_map<std::string, size_t> index_;
};

/// Highest instants by part of the step.
class Candidates {
 public:
  explicit Candidates(bool marked) : marked_(marked) {}
  /// A part begins. What is in no phase is judged by its allocations alone: what earlier parts left behind is no peak of its own.
  void enter(const char* phase, int64_t event, const CategoryBytes& live) {
    if (std::string_view(phase_) == "backward") {  // its end counts even when nothing was allocated towards it
      past_ = true;
      see(live, event);
    }
    phase_ = phase;
    halfway_ = live[Category::saved] / 2;
    past_ = halfway_ == 0;
    if (*phase) see(live, event);
  }
  void see(const CategoryBytes& live, int64_t event) {
    if (!past_ && live[Category::saved] < halfway_) past_ = true;
    const std::string name = part();
    const auto found = std::find_if(all.begin(), all.end(), [&](const PeakCandidate& c) { return c.at == name; });
    const int64_t bytes = live.total();
    if (found == all.end()) all.push_back({name, bytes, event});
    else if (bytes > found->bytes) *found = {name, bytes, event};
  }
  /// Where we are.
  std::string part() const {
    if (!marked_) return "step";
    if (!*phase_) return "forward";
    if (std::string_view(phase_) != "backward") return phase_;
    return past_ ? "end of backward" : "start of backward";
  }
  std::vector<PeakCandidate> all;

 private:
  bool marked_, past_ = false;
  const char* phase_ = "";
  int64_t halfway_ = 0;
};

}  // namespace spool::detail
