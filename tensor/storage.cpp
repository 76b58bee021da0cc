#include <spool/tensor/ambient.h>
#include <spool/tensor/error.h>
#include <spool/tensor/storage.h>

namespace spool {

StorageBody::StorageBody(int64_t size, Device where) : bytes(size), device(where), category(ambient().category) {
  if (bytes == 0) return;
  Ambient& around = ambient();
  if (!device.meta) {
    if (device.type != DeviceType::cpu) fail<DeviceError>(around.op, ": no memory on ", device, " in this build");
    allocator_ = around.allocator;
    data = static_cast<std::byte*>(allocator_->allocate(bytes));
  }
  ledger_ = around.ledger;
  id = ledger_->allocate(bytes, category, around.path, around.op);
}

StorageBody::StorageBody(void* borrowed, int64_t size, std::shared_ptr<void> owner)
    : data(static_cast<std::byte*>(borrowed)), bytes(size), owner_(std::move(owner)) {}

StorageBody::~StorageBody() {
  if (ledger_) ledger_->release(id, bytes, category);
  if (allocator_) allocator_->deallocate(data, bytes);
}

void StorageBody::mark(Category to) {
  if (to == category) return;
  if (ledger_) ledger_->mark(id, bytes, category, to, ambient().path, ambient().op);
  category = to;
}

}  // namespace spool
