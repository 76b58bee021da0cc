#include <spool/autograd/checkpoint.h>
#include <spool/autograd/scope.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <mutex>
#include <set>

namespace spool {
namespace {

std::atomic<bool> verifying = false;

uint64_t hash_of(const Tensor& t) {
  const Tensor dense = as_contiguous(t);
  const auto* bytes = static_cast<const uint8_t*>(dense.raw());
  uint64_t hash = 0xcbf29ce484222325;
  for (int64_t i = 0; i < dense.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

}  // namespace

void verify_recompute(bool on) { verifying = on; }

uint64_t value_hash(const Tensors& tensors) {
  uint64_t hash = 0;
  if (!verifying) return hash;
  for (const Tensor& t : tensors)
    if (!t.device().meta) hash = (hash ^ hash_of(t)) * 0x100000001b3;
  return hash;
}

void Tape::Impl::follow(const char* op, const Tensors& outputs) {
  if (!tracing && !expected) return;
  OpTrace now{op, {}, value_hash(outputs)};
  for (const Tensor& t : outputs) now.out.push_back(meta_of(t));
  if (tracing) {
    trace.push_back(std::move(now));
    return;
  }
  constexpr const char* advice = "; the body must do the same each time it runs";
  const size_t index = followed_++;
  if (index >= expected->size()) fail<ScopeError>(scope, ": recomputation runs ", op, " ", now.out[0], " after the ", expected->size(), " ops of forward", advice);
  const OpTrace& first = (*expected)[index];
  if (std::string_view(first.op) != op) fail<ScopeError>(scope, ": op ", index, " of recomputation is ", op, " ", now.out[0], ", where forward ran ", first.op, " ", first.out[0], advice);
  for (size_t i = 0; i < now.out.size(); ++i)
    if (now.out[i] != first.out[i]) fail<ScopeError>(scope, ": op ", index, ", ", op, ": result ", i, " was ", first.out[i], " in forward and is ", now.out[i], " in recomputation", advice);
  if (first.hash && first.hash != now.hash) fail<ScopeError>(scope, ": op ", index, ", ", op, ": result ", now.out[0], " has other values in recomputation than in forward", advice);
}

void Tape::Impl::require_all_followed() const {
  if (!expected || followed_ >= expected->size()) return;
  const OpTrace& missing = (*expected)[followed_];
  fail<ScopeError>(scope, ": recomputation ended after ", followed_, " of forward's ", expected->size(), " ops; the next was ", missing.op, " ", missing.out[0],
                   "; the body must do the same each time it runs");
}

Fingerprint fingerprint(const Tensors& outputs) {
  Fingerprint print;
  for (const Tensor& t : outputs) {
    print.metas.push_back(meta_of(t));
    if (verifying && !t.device().meta) print.hashes.push_back(hash_of(t));
  }
  return print;
}

void require_same(const char* scope, const Fingerprint& first, const Tensors& second) {
  if (first.metas.size() != second.size()) fail<ScopeError>(scope, ": gave ", first.metas.size(), " results in forward and ", second.size(), " in recomputation");
  for (size_t i = 0; i < second.size(); ++i) {
    const Meta m = meta_of(second[i]);
    if (m != first.metas[i]) fail<ScopeError>(scope, ": result ", i, " was ", first.metas[i], " in forward and is ", m, " in recomputation; the body must not depend on anything that changes");
    if (!first.hashes.empty() && hash_of(second[i]) != first.hashes[i]) fail<ScopeError>(scope, ": result ", i, " ", m, " has other values in recomputation than in forward");
  }
}

const char* lasting_name(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> names;
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

Node scope_node(Tape::Impl& tape, const std::string& name, const Tensors& outputs) {
  Node node;
  if (tape.mode == Tape::Impl::Mode::track) return node;
  node.name = lasting_name(name);
  node.path = ambient().path;
  for (const Tensor& output : outputs) node.out.push_back(meta_of(output));
  return node;
}

}  // namespace spool
