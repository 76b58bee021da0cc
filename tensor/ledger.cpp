#include <spool/tensor/ledger.h>

#include <cstring>
#include <deque>
#include <numeric>
#include <unordered_map>

namespace spool {

std::string_view category_name(Category category) {
  constexpr std::string_view names[] = {"parameter", "gradient", "optimizer", "saved", "temporary", "scratch", "communication"};
  return names[size_t(category)];
}

int64_t CategoryBytes::total() const { return std::accumulate(bytes.begin(), bytes.end(), int64_t(0)); }

bool Event::operator==(const Event& other) const {
  return kind == other.kind && category == other.category && from == other.from && path == other.path && bytes == other.bytes && id == other.id &&
         moment == other.moment && std::strcmp(op, other.op) == 0;
}

namespace {
struct PathTable {
  std::mutex mutex;
  std::deque<std::string> names{""};
  std::unordered_map<std::string, uint32_t> ids{{"", 0}};
};
PathTable& path_table() {
  static PathTable table;
  return table;
}
}  // namespace

uint32_t intern_path(std::string_view path) {
  PathTable& table = path_table();
  const std::lock_guard lock(table.mutex);
  const auto [it, added] = table.ids.try_emplace(std::string(path), uint32_t(table.names.size()));
  if (added) table.names.emplace_back(path);
  return it->second;
}

const std::string& path_name(uint32_t id) {
  PathTable& table = path_table();
  const std::lock_guard lock(table.mutex);
  return table.names[id];
}

uint64_t Ledger::allocate(int64_t bytes, Category category, uint32_t path, const char* op) {
  const std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  live_[category] += bytes;
  live_total_ += bytes;
  if (live_total_ > peak_total_) {
    peak_total_ = live_total_;
    at_peak_ = live_;
  }
  if (recording_) events_.push_back({Event::Kind::allocate, category, path, op, bytes, id});
  return id;
}

void Ledger::release(uint64_t id, int64_t bytes, Category category) {
  const std::lock_guard lock(mutex_);
  live_[category] -= bytes;
  live_total_ -= bytes;
  if (recording_) events_.push_back({Event::Kind::release, category, 0, "", bytes, id});
}

void Ledger::mark(uint64_t id, int64_t bytes, Category from, Category to, uint32_t path, const char* op) {
  const std::lock_guard lock(mutex_);
  live_[from] -= bytes;
  live_[to] += bytes;
  if (recording_) events_.push_back({Event::Kind::mark, to, path, op, bytes, id, from});
}

void Ledger::phase(const char* name) {
  const std::lock_guard lock(mutex_);
  if (recording_) events_.push_back({Event::Kind::phase, Category::temporary, 0, name, 0, 0});
}

uint64_t Ledger::begin_scope(const char* name, uint32_t path) {
  uint64_t instance = 0;
  {
    const std::lock_guard lock(mutex_);
    instance = next_scope_++;
  }
  scope(instance, Event::Moment::begin, name, path);
  return instance;
}

void Ledger::scope(uint64_t instance, Event::Moment moment, const char* name, uint32_t path) {
  const std::lock_guard lock(mutex_);
  if (recording_) events_.push_back({.kind = Event::Kind::scope, .path = path, .op = name, .id = instance, .moment = moment});
}

void Ledger::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_total_ = live_total_;
  at_peak_ = live_;
}

std::vector<Event> Ledger::take_events() {
  const std::lock_guard lock(mutex_);
  std::vector<Event> taken = std::move(events_);
  events_ = {};
  if (recording_) events_.reserve(taken.size());  // the next step is likely to post as many
  return taken;
}

}  // namespace spool
