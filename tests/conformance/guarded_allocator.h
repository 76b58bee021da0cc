#pragma once
// An allocator that notices writes beyond a block and poisons what it hands out, and a count of the heap memory that a piece of code takes.
#include <spool/tensor/allocator.h>

#include <cstddef>
#include <memory>
#include <string>

namespace spool::test {

class GuardedAllocator : public Allocator {
 public:
  ~GuardedAllocator() override;
  void* allocate(int64_t bytes) override;   ///< Filled with 0xFF: NaN in every float type.
  void deallocate(void* block, int64_t bytes) noexcept override;
  /// Empty, or which block was written past its end or before its start; looks at live blocks and at those released since construction.
  std::string fault() const;

 private:
  struct State;
  std::unique_ptr<State> state_;

 public:
  GuardedAllocator();
};

/// Counts calls of the global operator new on this thread for more than `HeapWatch::handle` bytes while it lives. Small objects are
/// handles and bookkeeping, whose number does not grow with the tensors.
class HeapWatch {
 public:
  static constexpr size_t handle = 1024;
  HeapWatch();
  ~HeapWatch();
  HeapWatch(const HeapWatch&) = delete;
  HeapWatch& operator=(const HeapWatch&) = delete;
  int64_t large_allocations() const;
  size_t largest() const;
};

}  // namespace spool::test
