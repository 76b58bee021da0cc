#pragma once
// The tape: an append-only list of nodes. Reverse index order is a topological order, so backward needs no recursion.
#include <spool/autograd/op.h>

#include <functional>
#include <memory>

namespace spool {

struct Node;

struct BackwardOptions {
  bool retain = false;        ///< Keep saved tensors, so that backward can run again.
  bool create_graph = false;  ///< Record the backward pass too, for second order. Implies retain.
};

/// Records the ops of this thread from construction to destruction; tapes nest, the innermost records.
///
///   Tape tape;
///   Tensor loss = cross_entropy(model(x), y);
///   tape.backward(loss);        // gradients are added to .grad() of every leaf that requires one
class Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Adds d loss / d leaf to `.grad()` of every leaf that requires a gradient. `loss` has one element. Throws AutogradError when the loss
  /// was not recorded here, when an op on the way has no gradient, or when a saved tensor was overwritten.
  void backward(const Tensor& loss, BackwardOptions options = {});
  /// The same from several outputs with given cotangents (undefined: ones).
  void backward(const Tensors& outputs, const Tensors& cotangents, BackwardOptions options = {});

  /// d (Σ outputs · cotangents) / d wrt, returned instead of accumulated. Undefined where nothing flowed.
  Tensors gradient(const Tensors& outputs, const Tensors& wrt, const Tensors& cotangents = {}, BackwardOptions options = {});

  int64_t size() const;            ///< Nodes recorded.
  int64_t saved_bytes() const;     ///< Bytes kept for backward, each storage counted once (parameters included).
  std::string to_string() const;   ///< One line a node: index, op, path, shapes, what is saved.

  /// Called after each node's vjp with what it read and what was declared. For the conformance test.
  static void observe_reads(std::function<void(const OpInfo&, Saves declared, Saves read)> observer);

  class Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// No recording on this thread until the end of the C++ scope.
class [[nodiscard]] NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

/// Whether an op on this tensor would be recorded now.
bool is_recorded(const Tensor& t);

}  // namespace spool
