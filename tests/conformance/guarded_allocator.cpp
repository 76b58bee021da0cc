#include "guarded_allocator.h"

#include <spool/tensor/error.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

namespace spool::test {
namespace {

constexpr int64_t guard = 4096;
constexpr unsigned char mark = 0xa5;

bool intact(const std::byte* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i)
    if (at[i] != std::byte(mark)) return false;
  return true;
}

}  // namespace

struct GuardedAllocator::State {
  mutable std::mutex mutex;
  std::map<std::byte*, int64_t> live;
  std::string fault;
  std::string look(const std::byte* block, int64_t bytes) const {
    if (!intact(block - guard, guard)) return concat("a block of ", bytes, " bytes was written before its start");
    if (!intact(block + bytes, guard)) return concat("a block of ", bytes, " bytes was written past its end");
    return "";
  }
};

GuardedAllocator::GuardedAllocator() : state_(std::make_unique<State>()) {}
GuardedAllocator::~GuardedAllocator() = default;

void* GuardedAllocator::allocate(int64_t bytes) {
  const size_t room = size_t((bytes + 2 * guard + allocation_alignment - 1) / allocation_alignment * allocation_alignment);
  auto* base = static_cast<std::byte*>(std::aligned_alloc(size_t(allocation_alignment), room));
  if (!base) fail<OutOfMemory>("allocate: no ", bytes, " bytes");
  std::memset(base, mark, room);
  std::memset(base + guard, 0xff, size_t(bytes));
  const std::lock_guard lock(state_->mutex);
  state_->live[base + guard] = bytes;
  return base + guard;
}

void GuardedAllocator::deallocate(void* block, int64_t bytes) noexcept {
  const std::lock_guard lock(state_->mutex);
  auto* at = static_cast<std::byte*>(block);
  if (state_->fault.empty()) state_->fault = state_->look(at, bytes);
  state_->live.erase(at);
  std::free(at - guard);
}

std::string GuardedAllocator::fault() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->fault.empty()) return state_->fault;
  for (const auto& [block, bytes] : state_->live)
    if (const std::string text = state_->look(block, bytes); !text.empty()) return text;
  return "";
}

namespace {
std::atomic<bool> watching = false;  // all threads: a kernel's workers count too
std::atomic<int64_t> large = 0;
std::atomic<size_t> largest_seen = 0;

void* counted(size_t bytes, size_t alignment) {
  if (watching.load(std::memory_order_relaxed) && bytes > HeapWatch::handle) {
    ++large;
    if (bytes > largest_seen) largest_seen = bytes;
  }
  if (bytes == 0) bytes = 1;
  void* block = alignment ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : std::malloc(bytes);
  if (!block) throw std::bad_alloc();
  return block;
}
}  // namespace

HeapWatch::HeapWatch() {
  large = 0;
  largest_seen = 0;
  watching = true;
}
HeapWatch::~HeapWatch() { watching = false; }
int64_t HeapWatch::large_allocations() const { return large; }
size_t HeapWatch::largest() const { return largest_seen; }

void* take_counted(size_t bytes, size_t alignment) { return counted(bytes, alignment); }

}  // namespace spool::test

// The whole program's heap goes through these.
namespace spool::test {
void* take_counted(size_t bytes, size_t alignment);
}
void* operator new(size_t bytes) { return spool::test::take_counted(bytes, 0); }
void* operator new[](size_t bytes) { return spool::test::take_counted(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t alignment) { return spool::test::take_counted(bytes, size_t(alignment)); }
void* operator new[](size_t bytes, std::align_val_t alignment) { return spool::test::take_counted(bytes, size_t(alignment)); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { std::free(block); }
