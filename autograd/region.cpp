#include <spool/autograd/region.h>
#include <spool/tensor/error.h>

#include <atomic>
#include <cstdlib>

namespace spool {
namespace {

constexpr int64_t page = 4096;
int64_t rounded(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }
bool has_region(Category category) { return category == Category::parameter || category == Category::optimizer; }

struct Block {
  std::byte* begin = nullptr;
  int64_t size = 0;
  std::atomic<int64_t> used = 0;
  ~Block() { std::free(begin); }
  bool owns(const void* address) const { return address >= begin && address < begin + size; }
};

}  // namespace

struct Regions::Impl {
  std::array<Block, category_count> blocks;
};

Regions::Regions(const std::vector<Event>& events) : impl_(std::make_unique<Impl>()) {
  for (const Event& e : events)
    if (e.kind == Event::Kind::allocate && has_region(e.category)) impl_->blocks[size_t(e.category)].size += rounded(e.bytes, allocation_alignment);
  for (Block& block : impl_->blocks) {
    if (block.size == 0) continue;
    block.begin = static_cast<std::byte*>(std::aligned_alloc(size_t(page), size_t(rounded(block.size, page))));
    if (!block.begin) fail<OutOfMemory>("regions: the system has no ", block.size, " bytes for parameters or optimizer state; use a smaller model");
  }
}
Regions::~Regions() = default;

void* Regions::allocate(int64_t bytes) {
  Block& block = impl_->blocks[size_t(ambient().category)];
  const int64_t taken = rounded(bytes, allocation_alignment), at = block.used.fetch_add(taken);
  if (at + taken <= block.size) return block.begin + at;
  block.used -= taken;
  return system_allocator()->allocate(bytes);
}

void Regions::deallocate(void* block, int64_t bytes) noexcept {
  for (const Block& b : impl_->blocks)
    if (b.owns(block)) return;
  system_allocator()->deallocate(block, bytes);
}

int64_t Regions::size(Category category) const { return impl_->blocks[size_t(category)].size; }
int64_t Regions::used(Category category) const { return impl_->blocks[size_t(category)].used; }

}  // namespace spool
