#include <spool/tensor/ambient.h>

namespace spool {
namespace {

const std::shared_ptr<Ledger>& process_ledger() {
  static const auto ledger = std::make_shared<Ledger>();
  return ledger;
}

uint32_t extended(std::string_view name) {
  const std::string& outer = path_name(ambient().path);
  if (outer.empty()) return intern_path(name);
  return intern_path(outer + "." + std::string(name));
}

}  // namespace

Ambient& ambient() {
  thread_local Ambient instance{process_ledger(), system_allocator(), Category::temporary, 0, "", "", {}};
  return instance;
}

Phase::Phase(const char* name) : before_(std::exchange(ambient().phase, name)) { ambient().ledger->phase(name); }
Phase::~Phase() {
  ambient().phase = before_;
  ambient().ledger->phase(before_);
}

PathScope::PathScope(std::string_view name) : path_(&Ambient::path, extended(name)) {}

}  // namespace spool
