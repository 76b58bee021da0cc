#pragma once
// What checkpoint and scan share: the surroundings to restore, and the comparison of a second run with the first. Not for users.
#include <spool/autograd/node.h>
#include <spool/autograd/recompute_ops.h>

namespace spool {

/// The random stream, the module path and the ops to recompute that were in force when a scope's forward ran.
struct Surroundings {
  RandomKey random = ambient().random;
  uint32_t path = ambient().path;
  std::shared_ptr<RecomputeOps::Policy> recompute_ops = recompute_policy();
};
/// Puts them back for a second run.
struct [[nodiscard]] WithSurroundings {
  explicit WithSurroundings(const Surroundings& s) : random(&Ambient::random, s.random), path(&Ambient::path, s.path), before(std::exchange(recompute_policy(), s.recompute_ops)) {}
  ~WithSurroundings() { recompute_policy() = std::move(before); }
  WithSurroundings(const WithSurroundings&) = delete;
  WithSurroundings& operator=(const WithSurroundings&) = delete;
  With<RandomKey> random;
  With<uint32_t> path;
  std::shared_ptr<RecomputeOps::Policy> before;
};

/// What is remembered of a run's results, to hold a second run against.
struct Fingerprint {
  Metas metas;
  std::vector<uint64_t> hashes;  ///< Empty unless verification is on.
};
Fingerprint fingerprint(const Tensors& outputs);
/// Throws ScopeError naming the scope and the first result that differs.
void require_same(const char* scope, const Fingerprint& first, const Tensors& second);

/// Of their values, while verification is on and there are any; else 0.
uint64_t value_hash(const Tensors& tensors);

/// A name that lives as long as the process, for nodes and events.
const char* lasting_name(const std::string& name);

/// A node of a scope, unless the tape only tracks.
Node scope_node(Tape::Impl& tape, const std::string& name, const Tensors& outputs);

}  // namespace spool
