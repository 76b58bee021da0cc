#pragma once
// scan: a recurrence over slices of a sequence in memory that does not grow with the sequence (Algorithm 1 of SLiM Performers, for any
// recurrence whose state is linear). Forward keeps only the state between slices. Backward walks the slices in reverse: it gets the state
// at the start of a slice back, runs that slice alone on a tape of its own, and hands the state's cotangent on.
#include <spool/autograd/tape.h>

#include <functional>
#include <string>

namespace spool {

/// How backward gets the state at the start of a slice.
enum class StatePolicy {
  subtract,    ///< From the state at its end, minus what the slice added. O(1) states. Rows (last axis) that no slice before has changed are the initial ones exactly.
  subtract64,  ///< The same with the state kept in f64, so that what rounding leaves behind stays bounded. The default.
  store,       ///< Every slice's state is kept: ⌈length / chunk⌉ states, no rounding.
};

/// The state as a slice's body sees it.
class Carry {
 public:
  virtual ~Carry() = default;
  /// State i at the start of the slice. `invert` maps the state at the end of the slice to the one at its start (end − what the slice
  /// added); it is called only where the policy needs it, without recording. A body calls enter(i) once for each i.
  virtual Tensor enter(int i, const std::function<Tensor(const Tensor& end)>& invert) = 0;
  /// Hands on state i at the end of the slice. A body calls leave(i) once for each i, after enter(i).
  virtual void leave(int i, Tensor next) = 0;
};

/// What a slice's body returns besides the state: `sums` are added over the slices (losses, counts; 0-d ones in f64), `pieces` are joined
/// along `ScanOptions::axis`.
struct ScanStep {
  Tensors sums, pieces;
};
using ScanBody = std::function<ScanStep(Carry& carry, int64_t begin, int64_t end)>;

struct ScanOptions {
  int64_t chunk = 0;  ///< C ≥ 1: positions a slice; the last may be shorter; C ≥ length is one slice.
  StatePolicy state = StatePolicy::subtract64;
  int axis = 1;       ///< Axis of `pieces` that runs along the sequence.
  /// When given: receives max over states of ‖reconstructed initial state − initial state‖∞ / ‖final state‖∞ after backward, a measure
  /// of what subtraction lost. Costs one more inversion.
  double* residue = nullptr;
};

struct ScanResult {
  Tensors carry;   ///< State after the last slice.
  Tensors sums;    ///< Σ over slices of each `ScanStep::sums`.
  Tensors pieces;  ///< Each `ScanStep::pieces` joined over the sequence.
};

/// Runs `body` over [0, length) in slices of `options.chunk`. Gradients flow to everything the body captures, to the initial state and,
/// from the final state, back through all slices. Throws ScopeError, naming the scope, when the body does not enter and leave every state
/// once, when a state changes shape or type, or when subtract64 is asked for with a state that is not f64.
ScanResult scan(const std::string& name, const ScanBody& body, const Tensors& carry, int64_t length, const ScanOptions& options);

}  // namespace spool
