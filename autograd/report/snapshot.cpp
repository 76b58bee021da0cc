#include "pickle_writer.h"
#include "replay.h"

#include <spool/autograd/report_export.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <map>

namespace spool {
namespace {

using detail::Pickle;

constexpr int64_t arena_address = int64_t(1) << 32;

/// A buffer with an address of its own.
struct Block {
  int64_t address = 0, bytes = 0;
  const char* op = "";
  uint32_t path = 0;
  Category category = Category::temporary;
};

/// Innermost first, as a stack has them: the op, then the module and those around it.
void frames(Pickle& p, const Block& b) {
  const auto frame = [&p](std::string_view place, std::string_view name) {
    p.open_dict().entry("filename", place).entry("line", 0).entry("name", name).close_dict();
  };
  const std::string_view path = path_name(b.path);
  p.text("frames").open_list();
  frame(path.empty() ? "(no module)" : path, *b.op ? std::string_view(b.op) : category_name(b.category));
  for (size_t end = path.size(); end && end != path.npos; end = path.rfind('.', end - 1)) {
    const std::string_view module = path.substr(0, end);
    frame(module, module.substr(module.rfind('.') + 1));  // npos + 1: all of it
  }
  p.close_list();
}

void action(Pickle& p, const char* what, const Block& b, int64_t time) {
  p.open_dict().entry("action", what).entry("addr", b.address).entry("size", b.bytes).entry("stream", 0).entry("time_us", time);
  p.entry("category", category_name(b.category));
  frames(p, b);
  p.close_dict();
}

/// A stretch of addresses, with those of `blocks` that lie in it and gaps between them.
void segment(Pickle& p, int64_t address, int64_t size, const std::map<int64_t, Block>& blocks) {
  const auto first = blocks.lower_bound(address), last = blocks.lower_bound(address + size);
  int64_t used = 0;
  for (auto b = first; b != last; ++b) used += b->second.bytes;
  p.open_dict().entry("device", 0).entry("address", address).entry("total_size", size).entry("allocated_size", used).entry("active_size", used);
  p.entry("requested_size", used).entry("stream", 0).entry("segment_type", "large").text("segment_pool_id").pair(0, 0);
  p.text("is_expandable").boolean(false).text("frames").open_list().close_list().text("blocks").open_list();
  int64_t at = address;
  const auto gap = [&](int64_t end) {
    if (end > at) p.open_dict().entry("address", at).entry("size", end - at).entry("requested_size", 0).entry("state", "inactive").text("frames").open_list().close_list().close_dict();
  };
  for (auto b = first; b != last; ++b) {
    gap(b->first);
    p.open_dict().entry("address", b->first).entry("size", b->second.bytes).entry("requested_size", b->second.bytes).entry("state", "active_allocated");
    p.entry("category", category_name(b->second.category));
    frames(p, b->second);
    p.close_dict();
    at = b->first + b->second.bytes;
  }
  gap(address + size);
  p.close_list().close_dict();
}

}  // namespace

std::string memory_snapshot(const Plan& step, std::span<const int64_t> offsets, const std::vector<Event>& before) {
  const std::vector<StepBuffer> buffers = step_buffers(step);
  if (offsets.size() != buffers.size()) fail<PlanError>("memory_snapshot: ", offsets.size(), " offsets for ", buffers.size(), " buffers");
  std::unordered_map<uint64_t, int64_t> offset_of;
  int64_t arena = 0;
  for (size_t k = 0; k < buffers.size(); ++k) {
    offset_of[buffers[k].id] = offsets[k];
    arena = std::max(arena, offsets[k] + buffers[k].bytes);
  }

  std::unordered_map<uint64_t, Block> alive;  // by allocation
  const int64_t base_address = arena_address + (arena / 4096 + 1) * 4096;
  int64_t base = 0;
  const auto place = [&](Block b) {
    b.address = base_address + base;
    base += b.bytes;
    return b;
  };
  const detail::TrackedSet tracked = detail::alive_before(step, before);
  std::map<uint64_t, Block> own;  // in the order of their ids
  CategoryBytes unknown = make_report(step, before).base_by_category;  // of what was alive before, the part that no event names
  for (const auto& [id, b] : tracked) {
    unknown[b.category] -= b.bytes;
    if (b.bytes) own[id] = {0, b.bytes, b.op, b.path, b.category};
  }
  for (const auto& [id, b] : own) alive[id] = place(b);
  std::map<int64_t, Block> last;  // at the end of the step, by address
  for (int c = 0; c < category_count; ++c) {
    const auto category = Category(c);
    if (unknown[category] == 0) continue;
    const Block b = place({0, unknown[category], "not recorded", 0, category});
    last[b.address] = b;
  }

  const auto categories = detail::last_categories(step);
  Pickle p;
  p.open_dict().text("device_traces").open_list().open_list();
  for (size_t i = 0; i < step.events.size(); ++i) {
    const Event& e = step.events[i];
    if (!e.of_buffer() || e.bytes == 0 || e.kind == Event::Kind::mark) continue;
    if (e.kind == Event::Kind::allocate) {
      const Block b = alive[e.id] = {arena_address + offset_of.at(e.id), e.bytes, e.op, e.path, categories.at(e.id)};
      action(p, "alloc", b, int64_t(i));
    } else {
      action(p, "free_requested", alive.at(e.id), int64_t(i));
      action(p, "free_completed", alive.at(e.id), int64_t(i));
      alive.erase(e.id);
    }
  }
  p.close_list().close_list();
  for (const auto& [id, b] : alive) last[b.address] = b;
  p.text("segments").open_list();
  if (arena) segment(p, arena_address, arena, last);
  if (base) segment(p, base_address, base, last);
  return p.close_list().close_dict().take();
}

}  // namespace spool
