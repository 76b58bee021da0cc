#pragma once
// Regions: one block each for the parameters and the optimizer state of a run, instead of an allocation from the system for every tensor.
//
//   auto regions = std::make_shared<Regions>(events);   // what building the model and its optimizer on meta posted
//   With<std::shared_ptr<Allocator>> in(&Ambient::allocator, regions);
//   Model model(config);  optimizer.prepare();
//
// Gradients and activations share the step's arena: they are never both at their highest, and regions of their own would cost the smaller of
// the two.
#include <spool/autograd/plan.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace spool {

class Regions final : public Allocator {
 public:
  /// Sized by the allocations in `events`, each rounded up to 64 bytes. Throws OutOfMemory.
  explicit Regions(const std::vector<Event>& events);
  ~Regions() override;
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  /// The next bytes of the region of the ambient category; the system's, where it has none or is full.
  void* allocate(int64_t bytes) override;
  /// A region's bytes come back with the region, which its tensors keep alive.
  void deallocate(void* block, int64_t bytes) noexcept override;

  int64_t size(Category category) const;  ///< Bytes of the region; 0 for all but parameters and optimizer state.
  int64_t used(Category category) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spool
