#pragma once
// Storage: reference-counted bytes with a version and an allocation id. It is the unit of accounting, so views and tied weights count once.
#include <spool/tensor/allocator.h>
#include <spool/tensor/device.h>
#include <spool/tensor/ledger.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace spool {

/// An intrusive reference-counted pointer. T has an `std::atomic<int> references` that starts at 0.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* body) : body_(body) { if (body_) body_->references.fetch_add(1, std::memory_order_relaxed); }
  Ref(const Ref& other) : Ref(other.body_) {}
  Ref(Ref&& other) noexcept : body_(std::exchange(other.body_, nullptr)) {}
  Ref& operator=(Ref other) noexcept { std::swap(body_, other.body_); return *this; }
  ~Ref() { if (body_ && body_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete body_; }
  T* get() const { return body_; }
  T* operator->() const { return body_; }
  T& operator*() const { return *body_; }
  explicit operator bool() const { return body_ != nullptr; }
  int use_count() const { return body_ ? body_->references.load(std::memory_order_acquire) : 0; }
  bool operator==(const Ref& other) const { return body_ == other.body_; }

 private:
  T* body_ = nullptr;
};

/// Bytes on a device. Allocates from the ambient allocator and posts to the ambient ledger; a meta storage only posts.
struct StorageBody {
  StorageBody(int64_t bytes, Device device);
  StorageBody(void* data, int64_t bytes, std::shared_ptr<void> owner);  ///< Borrows bytes that `owner` keeps; not posted.
  ~StorageBody();
  StorageBody(const StorageBody&) = delete;
  StorageBody& operator=(const StorageBody&) = delete;

  /// Moves the bytes to another category of the ledger, with the ambient op and path as the reason.
  void mark(Category category);

  std::atomic<int> references = 0;
  std::byte* data = nullptr;   ///< Null on meta and for zero bytes.
  int64_t bytes = 0;
  Device device;
  Category category = Category::temporary;
  uint64_t version = 0;        ///< Grows with each write after creation.
  const char* writer = "";     ///< Op of the last such write.
  uint64_t id = 0;             ///< Allocation id on the ledger; 0 for zero bytes and borrowed bytes.

 private:
  std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<Allocator> allocator_;
  std::shared_ptr<void> owner_;
};

using Storage = Ref<StorageBody>;

}  // namespace spool
