#pragma once
// What surrounds a computation on this thread: who pays for bytes, under which name, and which random stream is in force.
#include <spool/tensor/allocator.h>
#include <spool/tensor/ledger.h>
#include <spool/tensor/random.h>

#include <memory>
#include <string_view>
#include <utility>

namespace spool {

class Profiler;

struct Ambient {
  std::shared_ptr<Ledger> ledger;        ///< Never null.
  std::shared_ptr<Allocator> allocator;  ///< Never null.
  Category category = Category::temporary;
  uint32_t path = 0;     ///< Interned module path.
  const char* op = "";   ///< Op that is running.
  const char* phase = "";  ///< Part of the step that is running, see Phase.
  Profiler* profiler = nullptr;  ///< Who times the kernels, see profiler.h; nobody by default.
  RandomKey random;      ///< Stream from which dropout and its kind draw.
};

/// This thread's surroundings.
Ambient& ambient();

/// Sets one member of the surroundings until the end of the C++ scope: `With ledger(&Ambient::ledger, mine);`
template <class T>
class [[nodiscard]] With {
 public:
  With(T Ambient::* member, std::type_identity_t<T> value) : member_(member), before_(std::exchange(ambient().*member, std::move(value))) {}
  ~With() { ambient().*member_ = std::move(before_); }
  With(const With&) = delete;
  With& operator=(const With&) = delete;

 private:
  T Ambient::* member_;
  T before_;
};

/// Names the part of a step that runs until the end of the C++ scope ("backward", "optimizer step"), for the memory report: posts its
/// begin, and what it returns to at its end, on the ambient ledger. What is in no phase is the forward pass. `name` is a literal.
class [[nodiscard]] Phase {
 public:
  explicit Phase(const char* name);
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  const char* before_;
};

/// Extends the module path by `name` ("layers.3" inside "model" gives "model.layers.3") until the end of the C++ scope.
class [[nodiscard]] PathScope {
 public:
  explicit PathScope(std::string_view name);

 private:
  With<uint32_t> path_;
};

}  // namespace spool
