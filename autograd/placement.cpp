#include <spool/autograd/placement.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace spool {
namespace {

constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

/// The buffers with bytes, with instants numbered densely and sizes rounded up.
struct Problem {
  std::vector<uint32_t> begin, end;
  std::vector<int64_t> bytes;
  std::vector<size_t> source;  ///< Index among the caller's buffers.
  std::vector<int64_t> live;   ///< Sum of sizes by instant.
  uint32_t instants = 0;
  int64_t bound = 0;
  uint32_t peak = 0;  ///< First instant of the largest live set.
  size_t size() const { return bytes.size(); }
};

void find_bound(Problem& p) {
  std::vector<int64_t> change(p.instants + 1, 0);
  for (size_t i = 0; i < p.size(); ++i) {
    change[p.begin[i]] += p.bytes[i];
    change[p.end[i]] -= p.bytes[i];
  }
  int64_t live = 0;
  for (uint32_t t = 0; t < p.instants; ++t) {
    live += change[t];
    p.live.push_back(live);
    if (live <= p.bound) continue;
    p.bound = live;
    p.peak = t;
  }
}

Problem make_problem(std::span<const PlacedBuffer> buffers, int64_t alignment) {
  if (alignment < 1) fail<PlanError>("place: the alignment must be at least 1, got ", alignment);
  Problem p;
  std::vector<int64_t> times;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const PlacedBuffer& b = buffers[i];
    if (b.bytes < 0) fail<PlanError>("place: buffer ", i, " has ", b.bytes, " bytes");
    if (b.end < b.begin) fail<PlanError>("place: buffer ", i, " ends at ", b.end, " before it begins at ", b.begin);
    if (b.bytes == 0 || b.end == b.begin) continue;
    p.source.push_back(i);
    p.bytes.push_back((b.bytes + alignment - 1) / alignment * alignment);
    times.push_back(b.begin);
    times.push_back(b.end);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto instant = [&](int64_t time) { return uint32_t(std::lower_bound(times.begin(), times.end(), time) - times.begin()); };
  for (const size_t i : p.source) {
    p.begin.push_back(instant(buffers[i].begin));
    p.end.push_back(instant(buffers[i].end));
  }
  p.instants = uint32_t(times.size());
  find_bound(p);
  return p;
}

/// What has been placed, sorted by offset. Finding room for a buffer means walking up past everything that is alive with it; comparing
/// lifetimes 64 at a time into a bit mask makes the walk cheap where nothing is.
class Shelf {
 public:
  explicit Shelf(size_t capacity) {
    for (auto* times : {&begin_, &end_}) times->reserve(capacity);
    for (auto* bytes : {&low_, &high_}) bytes->reserve(capacity);
  }

  /// The lowest offset with room for `bytes` during [begin, end).
  int64_t lowest(uint32_t begin, uint32_t end, int64_t bytes) const {
    int64_t top = 0;
    for (size_t first = 0; first < low_.size(); first += 64) {
      for (uint64_t mask = conflicts(first, begin, end); mask; mask &= mask - 1) {
        const size_t i = first + size_t(std::countr_zero(mask));
        if (low_[i] - top >= bytes) return top;
        top = std::max(top, high_[i]);
      }
    }
    return top;
  }
  void add(uint32_t begin, uint32_t end, int64_t low, int64_t high) {
    const auto at = std::upper_bound(low_.begin(), low_.end(), low) - low_.begin();
    low_.insert(low_.begin() + at, low);
    high_.insert(high_.begin() + at, high);
    begin_.insert(begin_.begin() + at, begin);
    end_.insert(end_.begin() + at, end);
  }

 private:
  uint64_t conflicts(size_t first, uint32_t begin, uint32_t end) const {
    const size_t count = std::min<size_t>(64, low_.size() - first);
    const uint32_t *b = begin_.data() + first, *e = end_.data() + first;
    uint8_t hit[64] = {};
    for (size_t i = 0; i < count; ++i) hit[i] = uint8_t((b[i] < end) & (e[i] > begin));
    uint64_t mask = 0;
    for (int byte = 0; byte < 8; ++byte) {  // gathers the low bits of eight bytes
      uint64_t eight = 0;
      for (int i = 0; i < 8; ++i) eight |= uint64_t(hit[8 * byte + i]) << (8 * i);
      mask |= ((eight * 0x0102040810204080u) >> 56) << (8 * byte);
    }
    return mask;
  }
  std::vector<uint32_t> begin_, end_;
  std::vector<int64_t> low_, high_;
};

/// Offsets by buffer and their end. `size` is `unlimited` when a pass gave up because it could not beat `limit`.
struct Layout {
  std::vector<int64_t> offsets;
  int64_t size = 0;
};

/// `failed`: receives the position in `order` of the buffer at which the pass gave up.
Layout place_in_order(const Problem& p, const std::vector<size_t>& order, int64_t limit, size_t* failed = nullptr) {
  Layout layout{std::vector<int64_t>(p.size()), 0};
  Shelf shelf(p.size());
  for (size_t k = 0; k < order.size(); ++k) {
    const size_t i = order[k];
    const int64_t offset = shelf.lowest(p.begin[i], p.end[i], p.bytes[i]);
    if (offset + p.bytes[i] >= limit) {
      if (failed) *failed = k;
      return {{}, unlimited};
    }
    shelf.add(p.begin[i], p.end[i], offset, offset + p.bytes[i]);
    layout.offsets[i] = offset;
    layout.size = std::max(layout.size, offset + p.bytes[i]);
  }
  return layout;
}

template <class Key>
std::vector<size_t> sorted_by(const Problem& p, Key key) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

/// By buffer: the largest live set that it is part of.
std::vector<int64_t> highest_load(const Problem& p) {
  std::vector<std::vector<int64_t>> highest(1, p.live);  // [k][t]: of 2^k instants from t on
  for (size_t width = 1; 2 * width <= p.live.size(); width *= 2) {
    const std::vector<int64_t>& half = highest.back();
    std::vector<int64_t> whole(half.size() - width);
    for (size_t t = 0; t < whole.size(); ++t) whole[t] = std::max(half[t], half[t + width]);
    highest.push_back(std::move(whole));
  }
  std::vector<int64_t> out(p.size());
  for (size_t i = 0; i < p.size(); ++i) {
    const auto k = size_t(std::bit_width(p.end[i] - p.begin[i])) - 1;
    out[i] = std::max(highest[k][p.begin[i]], highest[k][p.end[i] - (size_t(1) << k)]);
  }
  return out;
}

std::vector<size_t> offline_order(const Problem& p, PlacementMethod method) {
  const auto life = [&](size_t i) { return int64_t(p.end[i]) - p.begin[i]; };
  if (method == PlacementMethod::decreasing_size) return sorted_by(p, [&](size_t i) { return std::tuple(-p.bytes[i], -life(i), p.begin[i]); });
  if (method == PlacementMethod::size_then_time) return sorted_by(p, [&](size_t i) { return std::tuple(-p.bytes[i], p.begin[i]); });
  if (method == PlacementMethod::decreasing_area) {
    return sorted_by(p, [&](size_t i) { return std::tuple(-double(p.bytes[i]) * double(life(i)), -life(i), p.begin[i]); });
  }
  const auto distance = [&](size_t i) -> uint32_t {
    if (p.begin[i] > p.peak) return p.begin[i] - p.peak;
    return p.end[i] > p.peak ? 0 : p.peak - p.end[i] + 1;
  };
  return sorted_by(p, [&](size_t i) { return std::tuple(distance(i), -p.bytes[i], -life(i)); });
}

/// What is alive when room is short comes first.
std::vector<size_t> load_order(const Problem& p) {
  const std::vector<int64_t> load = highest_load(p);
  return sorted_by(p, [&](size_t i) { return std::tuple(-load[i], -p.bytes[i], int64_t(p.begin[i]) - p.end[i], p.begin[i]); });
}

/// A heap of free blocks that are merged with their neighbours; it grows at its top.
class Heap {
 public:
  explicit Heap(bool best_fit) : best_fit_(best_fit) {}
  int64_t size() const { return top_; }

  int64_t take(int64_t bytes) {
    auto block = free_.end();
    if (best_fit_) {
      const auto fit = by_size_.lower_bound({bytes, 0});
      if (fit != by_size_.end()) block = free_.find(fit->second);
    } else {
      block = std::find_if(free_.begin(), free_.end(), [&](const auto& b) { return b.second >= bytes; });
    }
    if (block == free_.end()) {  // a free block at the top grows
      const bool grows = !free_.empty() && std::prev(free_.end())->first + std::prev(free_.end())->second == top_;
      const int64_t offset = grows ? std::prev(free_.end())->first : top_;
      if (grows) erase(std::prev(free_.end()));
      top_ = offset + bytes;
      return offset;
    }
    const auto [offset, size] = *block;
    erase(block);
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }
  void give_back(int64_t offset, int64_t bytes) {
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        erase(before);
      }
    }
    insert(offset, bytes);
  }

 private:
  using Blocks = std::map<int64_t, int64_t>;
  Blocks::iterator erase(Blocks::iterator block) {
    by_size_.erase({block->second, block->first});
    return free_.erase(block);
  }
  void insert(int64_t offset, int64_t bytes) {
    free_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  bool best_fit_;
  int64_t top_ = 0;
  Blocks free_;  ///< Offset to size.
  std::set<std::pair<int64_t, int64_t>> by_size_;
};

Layout place_online(const Problem& p, bool best_fit) {
  const std::vector<size_t> begins = sorted_by(p, [&](size_t i) { return p.begin[i]; }), ends = sorted_by(p, [&](size_t i) { return p.end[i]; });
  Layout layout{std::vector<int64_t>(p.size()), 0};
  Heap heap(best_fit);
  auto ending = ends.begin();
  for (const size_t i : begins) {
    for (; p.end[*ending] <= p.begin[i]; ++ending) heap.give_back(layout.offsets[*ending], p.bytes[*ending]);
    layout.offsets[i] = heap.take(p.bytes[i]);
  }
  layout.size = heap.size();
  return layout;
}

/// Whatever found no room below the best layout so far comes earlier, halfway to the front or there. A round costs a pass or less.
Layout place_reordered(const Problem& p, int64_t limit) {
  const auto n = double(p.size());
  const int rounds = std::max(1, int(std::min(20.0, 8e7 / (n * n))));
  Layout best{{}, unlimited};
  const std::vector<size_t> starts[] = {load_order(p), offline_order(p, PlacementMethod::decreasing_area)};
  for (int search = 0; search < (rounds > 1 ? 4 : 1); ++search) {
    std::vector<size_t> order = starts[search / 2];
    for (int round = 0; round < rounds && limit > p.bound; ++round) {
      size_t failed = 0;
      Layout layout = place_in_order(p, order, limit, &failed);
      if (layout.size == unlimited) {
        const auto place = order.begin() + std::ptrdiff_t(failed);
        std::rotate(search % 2 ? order.begin() : order.begin() + std::ptrdiff_t(failed / 2), place, place + 1);
      } else {
        limit = layout.size;
        best = std::move(layout);
      }
    }
  }
  return best;
}

Layout run(const Problem& p, PlacementMethod method, int64_t limit) {
  if (method == PlacementMethod::online_best_fit) return place_online(p, true);
  if (method == PlacementMethod::time_order) return place_online(p, false);
  if (method == PlacementMethod::reordered) return place_reordered(p, limit);
  return place_in_order(p, offline_order(p, method), limit);
}

Placement finish(const Problem& p, const Layout& layout, PlacementMethod method, size_t count) {
  Placement result{std::vector<int64_t>(count, 0), layout.size, p.bound, method};
  for (size_t i = 0; i < p.size(); ++i) result.offsets[p.source[i]] = layout.offsets[i];
  return result;
}

}  // namespace

std::string_view placement_method_name(PlacementMethod method) {
  constexpr std::string_view names[placement_method_count] = {"online best fit", "time order", "decreasing size", "decreasing size in time order", "size × lifetime",
                                                              "from the peak outward", "reordered where there was no room"};
  return names[size_t(method)];
}

Placement place(std::span<const PlacedBuffer> buffers, int64_t alignment) {
  const Problem p = make_problem(buffers, alignment);
  Layout best{{}, unlimited};
  auto chosen = PlacementMethod::online_best_fit;
  for (int m = 0; m < placement_method_count && best.size > p.bound; ++m) {
    Layout layout = run(p, PlacementMethod(m), best.size);
    if (layout.size >= best.size) continue;
    best = std::move(layout);
    chosen = PlacementMethod(m);
  }
  return finish(p, best, chosen, buffers.size());
}

Placement place(std::span<const PlacedBuffer> buffers, PlacementMethod method, int64_t alignment) {
  const Problem p = make_problem(buffers, alignment);
  return finish(p, run(p, method, unlimited), method, buffers.size());
}

int64_t largest_live_set(std::span<const PlacedBuffer> buffers, int64_t alignment) { return make_problem(buffers, alignment).bound; }

}  // namespace spool
