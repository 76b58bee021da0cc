#pragma once
// The tape's inside, shared by tape, checkpoint, scan and custom_vjp. Not for users.
#include <spool/autograd/saved.h>
#include <spool/autograd/tape.h>

#include <deque>
#include <functional>

namespace spool {

/// Where the gradient of an input goes.
struct Edge {
  enum class Kind : uint8_t {
    none,    ///< Nowhere: a constant.
    node,    ///< To an output of a node on this tape.
    leaf,    ///< To a tensor that requires a gradient itself, or that belongs to an enclosing tape.
    ended,   ///< The tensor was computed on a tape that has ended: reaching it is an error.
  };
  Kind kind = Kind::none;
  int32_t output = 0;
  int64_t node = -1;
  Tensor leaf;
};

struct SavedTensor {
  Tensor tensor;
  uint64_t version = 0;
  int64_t maker = -1;  ///< Where nothing is kept: the node of this tape that makes it again, and as which output.
  int32_t output = 0;
};

struct Node {
  using Rule = std::function<Tensors(Tape::Impl&, Saved&)>;
  const OpInfo* op = nullptr;
  AttrsPtr attrs;
  Rule rule;                  ///< Replaces op->vjp for scopes and custom rules.
  const char* name = "";
  uint32_t path = 0;
  Need need;
  Saves saves;
  bool remakes = false;       ///< Who keeps an output of this node lets it be made again where the op can.
  bool freed = false;         ///< Saved tensors were released by a backward that did not retain.
  std::vector<Edge> edges;
  Metas in, out;
  std::vector<SavedTensor> saved;  ///< Declared inputs, then outputs, then residuals, each in index order.
  Tensors cotangents;              ///< By output; empty until the first arrives.
  Tensors remade;                  ///< By output: made again by the sweep, until it reaches this node.
};

/// One recorded op of a scope's first run, to hold the second run against.
struct OpTrace {
  const char* op = "";
  Metas out;
  uint64_t hash = 0;  ///< Of the results' values while verification is on (verify_recompute); else 0.
};

class Tape::Impl {
 public:
  enum class Mode {
    record,  ///< Append nodes.
    track,   ///< Append nothing; only mark which results depend on something that wants a gradient.
  };
  explicit Impl(Mode mode, Impl* owner = nullptr);
  ~Impl();

  /// How a gradient for t would travel from this tape.
  Edge edge_for(const Tensor& t) const;
  /// Appends a node and gives `outputs` their slots. In track mode only the slots.
  void record(Node node, const Tensors& outputs);
  /// Keeps `t` in a node to be recorded next: t itself, or where it is to be made again.
  void keep(Node& node, const Tensor& t) const;
  /// That output of a node that `remakes`.
  const Tensor& remade(int64_t node, int32_t output);
  /// An op was run: notes it where a scope tracks its first run, compares it where `expected` says what that run did. Throws ScopeError.
  void follow(const char* op, const Tensors& outputs);
  void require_all_followed() const;  ///< Throws ScopeError when the first run did more.
  /// Adds a gradient for an edge. `in_place`: the rule has added it to the edge's target already and returns that.
  void deliver(const Edge& edge, Tensor gradient, bool in_place = false);
  /// The gradient gathered so far for an edge, if it may be added to in place.
  Tensor target(const Edge& edge);
  /// Sweeps back from `outputs` with these cotangents (undefined: ones for a single element).
  void sweep(const Tensors& outputs, const Tensors& cotangents, BackwardOptions options);
  /// The same for a scope's sub-tape: outputs without a cotangent are passed over, and the seeds are let go before the sweep.
  void sweep_present(Tensors outputs, Tensors cotangents);

  const Mode mode;
  const uint64_t id;
  Impl* const parent;        ///< The tape that was innermost before this one.
  Impl* const owner;         ///< For a scope's sub-tape in backward: the tape whose sweep runs it.
  std::deque<Node> nodes;
  Tensors capture, captured; ///< Gradients of these go to `captured` instead of `.grad()`.
  uint32_t targets_given = 0; ///< Inputs whose target the rule that is running has asked for and got.
  std::vector<OpTrace> trace;                   ///< Of a scope's first run, when `tracing`.
  bool tracing = false;
  const std::vector<OpTrace>* expected = nullptr;  ///< Of a scope's second run: the trace of the first,
  const char* scope = "";                       ///< and the scope's name.
  bool capture_only = false; ///< Gradients of other leaves are dropped (Tape::gradient).

 private:
  /// Where the gradient of an edge gathers, here or on an owner; null when it goes nowhere.
  Tensor* slot_of(const Edge& edge);
  int64_t seed(const Tensor& output, Tensor cotangent);
  void sweep_from(int64_t last, const BackwardOptions& options);
  void run_node(int64_t index, const BackwardOptions& options);
  void gather(Tensor& slot, Tensor gradient, bool into_leaf);
  void deliver_to_leaf(const Tensor& leaf, Tensor gradient);
  Tensor* leaf_slot(const Tensor& leaf);
  size_t followed_ = 0;
  bool encloses(uint64_t tape_id) const;
  bool recording_before_;
  bool creating_graph_ = false;
};

/// Keeps `t` in the node, with its version, and marks its bytes as saved.
void save(Node& node, const Tensor& t);

/// The innermost tape of this thread, when recording is on; otherwise null.
Tape::Impl* current_tape();

}  // namespace spool
