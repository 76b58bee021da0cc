#include <spool/tensor/allocator.h>
#include <spool/tensor/error.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace spool {
namespace {

class System : public Allocator {
 public:
  void* allocate(int64_t bytes) override {
    const auto rounded = size_t((bytes + allocation_alignment - 1) / allocation_alignment * allocation_alignment);
    void* block = std::aligned_alloc(size_t(allocation_alignment), rounded);
    if (!block) fail<OutOfMemory>("allocate: the system has no ", bytes, " bytes; use a smaller batch, chunk or model");
    return block;
  }
  void deallocate(void* block, int64_t) noexcept override { std::free(block); }
};

class Limited : public System {
 public:
  explicit Limited(int64_t limit) : limit_(limit) {}
  void* allocate(int64_t bytes) override {
    if (live_ + bytes > limit_) fail<OutOfMemory>("allocate: ", bytes, " bytes on top of ", live_.load(), " exceed the limit of ", limit_, " bytes");
    void* block = System::allocate(bytes);
    live_ += bytes;
    return block;
  }
  void deallocate(void* block, int64_t bytes) noexcept override {
    live_ -= bytes;
    System::deallocate(block, bytes);
  }

 private:
  int64_t limit_;
  std::atomic<int64_t> live_ = 0;
};

class Poisoning : public System {
 public:
  void* allocate(int64_t bytes) override { return std::memset(System::allocate(bytes), 0xff, size_t(bytes)); }
  void deallocate(void* block, int64_t bytes) noexcept override { System::deallocate(std::memset(block, 0xff, size_t(bytes)), bytes); }
};

}  // namespace

std::shared_ptr<Allocator> system_allocator() {
  static const auto instance = std::make_shared<System>();
  return instance;
}

std::shared_ptr<Allocator> limited_allocator(int64_t limit) { return std::make_shared<Limited>(limit); }
std::shared_ptr<Allocator> poisoning_allocator() { return std::make_shared<Poisoning>(); }

}  // namespace spool
