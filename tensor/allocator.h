#pragma once
// Where bytes come from. Storage asks the ambient allocator; the default is the system's, a planned step uses an arena.
#include <cstdint>
#include <memory>

namespace spool {

/// Every block is aligned to this many bytes.
inline constexpr int64_t allocation_alignment = 64;

class Allocator {
 public:
  virtual ~Allocator() = default;
  /// `bytes` > 0 uninitialised bytes, aligned. Throws OutOfMemory.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void deallocate(void* block, int64_t bytes) noexcept = 0;
};

/// The system's heap.
std::shared_ptr<Allocator> system_allocator();

/// The system's heap with a limit on live bytes: beyond it OutOfMemory is thrown, naming the limit and what was asked for.
std::shared_ptr<Allocator> limited_allocator(int64_t limit);

/// The system's heap, every block filled with 0xFF bytes (NaN in every float type) when it is given out and when it is taken back: a
/// read of uninitialised or released memory shows in the result.
std::shared_ptr<Allocator> poisoning_allocator();

}  // namespace spool
