#pragma once
// The ledger: every allocation and release of tensor bytes as an event, with live and peak bytes for each category.
#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace spool {

/// What a buffer is for. `saved` means kept by the tape for backward; `scratch` is an op's declared working space.
enum class Category : uint8_t { parameter, gradient, optimizer, saved, temporary, scratch, communication };
inline constexpr int category_count = 7;
std::string_view category_name(Category category);

/// Bytes by category.
struct CategoryBytes {
  std::array<int64_t, category_count> bytes{};
  int64_t& operator[](Category c) { return bytes[size_t(c)]; }
  int64_t operator[](Category c) const { return bytes[size_t(c)]; }
  int64_t total() const;
};

/// One line of the ledger. `mark` moves a live buffer to another category (a temporary that the tape saves, a result that becomes a gradient).
/// `phase` says which part of a step begins (see Phase in ambient.h), and `scope` where a scope that recomputes has got to; both concern no
/// buffer.
struct Event {
  enum class Kind : uint8_t { allocate, release, mark, phase, scope };
  /// Of a `scope`: its forward begins and has ended, with what it keeps marked as saved; its second run begins and has ended; its backward is done.
  enum class Moment : uint8_t { begin, end, replay, replayed, done };
  Kind kind = Kind::allocate;
  Category category = Category::temporary;
  uint32_t path = 0;       ///< Module path, see `path_name`.
  const char* op = "";     ///< Op that allocated, or (for `mark`) that saved the buffer; the name of a `phase` or `scope`.
  int64_t bytes = 0;
  uint64_t id = 0;         ///< Allocation id: 1, 2, 3, … in the order of allocation on this ledger; of a `scope` its instance, counted alike; 0 for a `phase`.
  Category from = Category::temporary;  ///< For `mark`: the category before.
  Moment moment = Moment::begin;        ///< For `scope`.
  bool of_buffer() const { return kind != Kind::phase && kind != Kind::scope; }
  bool operator==(const Event& other) const;
};

/// Interned module paths ("layers.3.attention"). Id 0 is the empty path.
uint32_t intern_path(std::string_view path);
const std::string& path_name(uint32_t id);

/// Counts always; keeps the events while `recording(true)`. Safe to use from several threads.
class Ledger {
 public:
  uint64_t allocate(int64_t bytes, Category category, uint32_t path, const char* op);
  void release(uint64_t id, int64_t bytes, Category category);
  void mark(uint64_t id, int64_t bytes, Category from, Category to, uint32_t path, const char* op);

  void phase(const char* name);  ///< `name` is kept as it is: a literal.
  uint64_t begin_scope(const char* name, uint32_t path);  ///< The instance: each run of a scope's forward is one. `name` is kept as it is.
  void scope(uint64_t instance, Event::Moment moment, const char* name, uint32_t path);

  int64_t live() const { return live_total_; }
  int64_t peak() const { return peak_total_; }       ///< Highest live() since construction or reset_peak().
  const CategoryBytes& live_by_category() const { return live_; }
  const CategoryBytes& at_peak() const { return at_peak_; }  ///< Live bytes by category at the moment of the peak.
  void reset_peak();
  uint64_t allocations() const { return next_id_ - 1; }

  void recording(bool on) { recording_ = on; }
  const std::vector<Event>& events() const { return events_; }
  std::vector<Event> take_events();

 private:
  std::mutex mutex_;
  CategoryBytes live_, at_peak_;
  int64_t live_total_ = 0, peak_total_ = 0;
  uint64_t next_id_ = 1, next_scope_ = 1;
  bool recording_ = false;
  std::vector<Event> events_;
};

}  // namespace spool
