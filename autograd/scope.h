#pragma once
// What checkpoint and scan share: the surroundings to restore, and the comparison of a second run with the first. Not for users.
#include <spool/autograd/node.h>

namespace spool {

/// The random stream and module path in force when a scope's forward ran.
struct Surroundings {
  RandomKey random = ambient().random;
  uint32_t path = ambient().path;
};
/// Puts them back for a second run.
struct [[nodiscard]] WithSurroundings {
  explicit WithSurroundings(const Surroundings& s) : random(&Ambient::random, s.random), path(&Ambient::path, s.path) {}
  With<RandomKey> random;
  With<uint32_t> path;
};

/// What is remembered of a run's results, to hold a second run against.
struct Fingerprint {
  Metas metas;
  std::vector<uint64_t> hashes;  ///< Empty unless verification is on.
};
Fingerprint fingerprint(const Tensors& outputs);
/// Throws ScopeError naming the scope and the first result that differs.
void require_same(const char* scope, const Fingerprint& first, const Tensors& second);

/// A name that lives as long as the process, for nodes and events.
const char* lasting_name(const std::string& name);

/// A node of a scope, unless the tape only tracks.
Node scope_node(Tape::Impl& tape, const std::string& name, const Tensors& outputs);

}  // namespace spool
