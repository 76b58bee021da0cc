#include <spool/autograd/arena.h>
#include <spool/autograd/placement.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

// Under the address sanitizer, bytes that are not handed out cannot be read or written.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define SPOOL_FORBID(address, bytes) __asan_poison_memory_region(address, size_t(bytes))
#define SPOOL_PERMIT(address, bytes) __asan_unpoison_memory_region(address, size_t(bytes))
#else
#define SPOOL_FORBID(address, bytes) ((void)(address), (void)(bytes))
#define SPOOL_PERMIT(address, bytes) ((void)(address), (void)(bytes))
#endif

namespace spool {
namespace {

constexpr int64_t huge_page = int64_t(2) << 20, page = 4096;

int64_t rounded(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

/// One allocation of the plan.
struct Slot {
  int64_t offset = 0, bytes = 0;
  const char* op = "";
  uint32_t path = 0;
  bool lasting = false;                  ///< Not released within the step.
  bool live = false;
  std::vector<uint32_t> before;          ///< Slots that had these addresses last and must have been released.
};

std::string described(const char* op, uint32_t path) {
  std::string text = *op ? op : "no op";
  if (path) text += concat(" in ", path_name(path));
  return text;
}

/// Who had which addresses last, as planned time goes by.
class Owners {
 public:
  /// Gives [low, high) to `owner`; returns who had any of it.
  std::vector<uint32_t> take(int64_t low, int64_t high, uint32_t owner) {
    std::vector<uint32_t> before;
    auto range = ranges_.lower_bound(low);
    if (range != ranges_.begin() && std::prev(range)->second.first > low) --range;
    while (range != ranges_.end() && range->first < high) {
      const auto [begin, value] = *range;
      const auto [end, who] = value;
      if (std::find(before.begin(), before.end(), who) == before.end()) before.push_back(who);
      range = ranges_.erase(range);
      if (begin < low) ranges_[begin] = {low, who};
      if (end > high) ranges_[high] = {end, who};
    }
    ranges_[low] = {high, owner};
    return before;
  }

 private:
  std::map<int64_t, std::pair<int64_t, uint32_t>> ranges_;  ///< Begin to {end, owner}.
};

}  // namespace

ArenaLayout arena_layout(const std::vector<StepBuffer>& buffers) {
  ArenaLayout out;
  std::vector<PlacedBuffer> placed;
  for (const StepBuffer& b : buffers) {
    placed.push_back({b.begin, b.end, b.lasting ? 0 : b.bytes});
    out.offsets.push_back(out.lasting);
    if (b.lasting) out.lasting += rounded(b.bytes, allocation_alignment);
  }
  const Placement rest = place(placed, allocation_alignment);
  for (size_t k = 0; k < buffers.size(); ++k)
    if (!buffers[k].lasting) out.offsets[k] = out.lasting + rest.offsets[k];
  out.size = out.lasting + rest.size;
  out.bound = out.lasting + rest.bound;
  return out;
}

struct Arena::Impl {
  ArenaOptions options;
  std::vector<Slot> slots;
  int64_t size = 0, lasting = 0, bound = 0;
  std::byte* block = nullptr;

  mutable std::mutex mutex;
  std::unordered_map<const std::byte*, uint32_t> taken;  ///< Live block to slot.
  size_t next = 0;
  bool stepping = false;
  int64_t high_water = 0, live = 0, spilled = 0, steps = 0, transient_live = 0;

  void lay_out(const Plan& plan);
  void take_block();
  void require_free(const Slot& slot) const;
  int64_t read(const int64_t& counter) const {
    const std::lock_guard lock(mutex);
    return counter;
  }
  bool owns(const void* address) const { return address >= block && address < block + size; }
};

void Arena::Impl::lay_out(const Plan& plan) {
  const std::vector<StepBuffer> buffers = step_buffers(plan);
  const ArenaLayout layout = arena_layout(buffers);
  lasting = layout.lasting;
  size = layout.size;
  bound = layout.bound;
  Owners owners;
  for (size_t k = 0; k < buffers.size(); ++k) {
    const StepBuffer& b = buffers[k];
    slots.push_back({.offset = layout.offsets[k], .bytes = b.bytes, .op = b.op, .path = b.path, .lasting = b.lasting});
    Slot& slot = slots.back();
    if (!slot.lasting) slot.before = owners.take(slot.offset, slot.offset + rounded(slot.bytes, allocation_alignment), uint32_t(k));
  }
}

void Arena::Impl::take_block() {
  if (size == 0) return;
  const int64_t alignment = size >= huge_page ? huge_page : page;
  block = static_cast<std::byte*>(std::aligned_alloc(size_t(alignment), size_t(rounded(size, alignment))));
  if (!block) fail<OutOfMemory>("arena: the system has no ", size, " bytes for the planned step; use a smaller batch, chunk or model");
#ifdef MADV_HUGEPAGE
  if (options.huge_pages && size >= huge_page) madvise(block, size_t(rounded(size, alignment)), MADV_HUGEPAGE);
#endif
  if (options.poison) {
    std::memset(block, 0xff, size_t(size));
  } else if (options.touch) {
    for (int64_t at = 0; at < size; at += page) *const_cast<volatile std::byte*>(block + at) = std::byte(0);
  }
  SPOOL_FORBID(block, size);
}

void Arena::Impl::require_free(const Slot& slot) const {
  for (const uint32_t before : slot.before) {
    const Slot& holder = slots[before];
    if (!holder.live) continue;
    fail<PlanError>("arena: ", described(slot.op, slot.path), " is planned to reuse bytes of ", described(holder.op, holder.path), ", whose ", holder.bytes,
                    " bytes are still alive; release them as the planned step does, or plan the step as it runs");
  }
}

Arena::Arena(const Plan& plan, ArenaOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->lay_out(plan);
  impl_->take_block();
}

Arena::~Arena() {
  SPOOL_PERMIT(impl_->block, impl_->size);
  std::free(impl_->block);
}

void Arena::begin_step() {
  Impl& m = *impl_;
  const std::lock_guard lock(m.mutex);
  if (m.transient_live > 0) {
    const auto held = std::find_if(m.slots.begin(), m.slots.end(), [](const Slot& s) { return s.live && !s.lasting; });
    fail<PlanError>("arena: ", held->bytes, " bytes of ", described(held->op, held->path),
                    " from the step before are still alive, but were planned to be released in it; drop the tensor, or plan the step as it runs");
  }
  m.next = 0;
  m.stepping = true;
  ++m.steps;
}

void Arena::end_step() noexcept {
  const std::lock_guard lock(impl_->mutex);
  impl_->stepping = false;
}

void Arena::require_complete() const {
  const Impl& m = *impl_;
  const std::lock_guard lock(m.mutex);
  if (m.next == m.slots.size()) return;
  const Slot& missing = m.slots[m.next];
  fail<PlanError>("arena: the step made ", m.next, " of ", m.slots.size(), " planned allocations; the next was to be ", missing.bytes, " bytes by ",
                  described(missing.op, missing.path), "; plan the step as it runs");
}

void* Arena::allocate(int64_t bytes) {
  Impl& m = *impl_;
  const Ambient& around = ambient();
  const std::lock_guard lock(m.mutex);
  const auto asked = [&] { return concat(described(around.op, around.path), " asks for ", bytes, " bytes"); };
  if (!m.stepping) fail<PlanError>("arena: ", asked(), " outside a step; begin one with ArenaStep, or use another allocator");
  if (m.next == m.slots.size()) fail<PlanError>("arena: ", asked(), ", one allocation more than the ", m.slots.size(), " planned; plan the step as it runs");
  Slot& slot = m.slots[m.next];
  if (slot.bytes != bytes || (slot.op != around.op && std::strcmp(slot.op, around.op) != 0)) {
    fail<PlanError>("arena: ", asked(), ", but allocation ", m.next, " of the step is planned as ", slot.bytes, " bytes by ", described(slot.op, slot.path),
                    "; plan the step as it runs");
  }
  if (slot.lasting && slot.live) {
    ++m.next;
    m.spilled += bytes;
    return system_allocator()->allocate(bytes);
  }
  m.require_free(slot);
  std::byte* address = m.block + slot.offset;
  m.taken[address] = uint32_t(m.next++);
  slot.live = true;
  m.live += bytes;
  if (!slot.lasting) ++m.transient_live;
  m.high_water = std::max(m.high_water, slot.offset + rounded(bytes, allocation_alignment));
  SPOOL_PERMIT(address, bytes);
  return address;
}

void Arena::deallocate(void* address, int64_t bytes) noexcept {
  Impl& m = *impl_;
  if (!m.owns(address)) return system_allocator()->deallocate(address, bytes);
  const std::lock_guard lock(m.mutex);
  const auto found = m.taken.find(static_cast<std::byte*>(address));
  Slot& slot = m.slots[found->second];
  m.taken.erase(found);
  slot.live = false;
  m.live -= bytes;
  if (!slot.lasting) --m.transient_live;
  if (m.options.poison) std::memset(address, 0xff, size_t(bytes));
  SPOOL_FORBID(address, rounded(bytes, allocation_alignment));
}

int64_t Arena::size() const { return impl_->size; }
int64_t Arena::lasting_bytes() const { return impl_->lasting; }
int64_t Arena::bound() const { return impl_->bound; }

int64_t Arena::high_water() const { return impl_->read(impl_->high_water); }
int64_t Arena::live_bytes() const { return impl_->read(impl_->live); }
int64_t Arena::spilled_bytes() const { return impl_->read(impl_->spilled); }
int64_t Arena::steps() const { return impl_->read(impl_->steps); }

ArenaStep::ArenaStep(const std::shared_ptr<Arena>& arena) : arena_(arena), allocator_(&Ambient::allocator, (arena->begin_step(), arena)) {}
ArenaStep::~ArenaStep() { arena_->end_step(); }

}  // namespace spool
