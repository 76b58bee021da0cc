#include <spool/autograd/node.h>
#include <spool/autograd/sum_gradients.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <atomic>
#include <bit>

namespace spool {
namespace {

thread_local Tape::Impl* innermost = nullptr;
thread_local bool recording = false;
thread_local std::function<void(const OpInfo&, Saves, Saves)> read_observer;
std::atomic<uint64_t> next_tape_id = 1;

/// Nobody but the slot that holds it can see this tensor's bytes, so they may be written in place.
bool owned(const Tensor& t) { return t.body()->references == 1 && t.storage().use_count() == 1 && t.is_contiguous(); }

}  // namespace

Tape::Impl* current_tape() { return recording ? innermost : nullptr; }
bool is_recorded(const Tensor& t) {
  const auto* tape = current_tape();
  return tape && tape->edge_for(t).kind != Edge::Kind::none;
}

NoGrad::NoGrad() : before_(std::exchange(recording, false)) {}
NoGrad::~NoGrad() { recording = before_; }

Tape::Tape() : impl_(std::make_unique<Impl>(Impl::Mode::record)) {}
Tape::~Tape() = default;
void Tape::observe_reads(std::function<void(const OpInfo&, Saves, Saves)> observer) { read_observer = std::move(observer); }

Tape::Impl::Impl(Mode how, Impl* sweeping)
    : mode(how), id(next_tape_id++), parent(innermost), owner(sweeping), recording_before_(std::exchange(recording, true)) {
  innermost = this;
}

Tape::Impl::~Impl() {
  innermost = parent;
  recording = recording_before_;
}

bool Tape::Impl::encloses(uint64_t tape_id) const {
  for (const Impl* tape = parent; tape; tape = tape->parent)
    if (tape->id == tape_id) return true;
  return false;
}

Edge Tape::Impl::edge_for(const Tensor& t) const {
  if (!t.defined()) return {};
  const AutogradSlot& slot = t.body()->slot;
  if (slot.tape == id) return {Edge::Kind::node, slot.output, slot.node, {}};
  if (slot.tape == 0) return slot.requires_grad ? Edge{Edge::Kind::leaf, 0, -1, t} : Edge{};
  if (encloses(slot.tape)) return {Edge::Kind::leaf, 0, -1, t};
  return {Edge::Kind::ended, 0, -1, {}};
}

void Tape::Impl::record(Node node, const Tensors& outputs) {
  const auto index = int32_t(nodes.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (is_float(outputs[i].dtype())) outputs[i].body()->slot = {id, index, int32_t(i), true};
  }
  if (mode == Mode::record) nodes.push_back(std::move(node));
}

void save(Node& node, const Tensor& t) {
  node.saved.push_back({t, t.defined() ? t.storage()->version : 0});
  if (t.defined() && t.storage()->category == Category::temporary) t.storage()->mark(Category::saved);
}

void Tape::Impl::keep(Node& node, const Tensor& t) const {
  const AutogradSlot* slot = t.defined() ? &t.body()->slot : nullptr;
  if (slot && slot->tape == id) {
    const Node& maker = nodes[size_t(slot->node)];
    if (maker.remakes && maker.op->remade_from(slot->output, maker.attrs.get()) != Saves()) {
      node.saved.push_back({{}, 0, slot->node, slot->output});
      return;
    }
  }
  save(node, t);
}

const Tensor& Tape::Impl::remade(int64_t index, int32_t output) {
  Node& node = nodes[size_t(index)];
  node.remade.resize(node.out.size());
  Tensor& slot = node.remade[size_t(output)];
  if (slot.defined()) return slot;
  if (node.freed) fail<AutogradError>(node.name, ": its result is to be made again, but what it had saved was released; pass .retain = true to the first backward");
  const With op(&Ambient::op, node.name);
  const With path(&Ambient::path, node.path);
  const NoGrad quiet;
  Saved saved(*this, node, {});
  slot = node.op->remake(saved, output, node.attrs.get());
  if (meta_of(slot) != node.out[size_t(output)]) fail<AutogradError>(node.name, ": output ", output, " was made again as ", meta_of(slot), ", but was ", node.out[size_t(output)]);
  slot.body()->slot = {id, int32_t(index), output, true};
  slot.storage()->mark(Category::saved);
  return slot;
}

Tensor* Tape::Impl::leaf_slot(const Tensor& leaf) {
  for (size_t i = 0; i < capture.size(); ++i)
    if (capture[i].body() == leaf.body()) return &captured[i];
  if (owner || capture_only || leaf.body()->slot.tape != 0) return nullptr;
  return &leaf.body()->grad;
}

void Tape::Impl::gather(Tensor& slot, Tensor gradient, bool into_leaf) {
  const With op(&Ambient::op, "accumulate");
  if (creating_graph_) {
    slot = slot.defined() ? sum_gradients(slot, gradient) : std::move(gradient);
    return;
  }
  if (!slot.defined()) {
    slot = !into_leaf || owned(gradient) ? std::move(gradient) : contiguous_copy(gradient);
  } else if (owned(slot)) {
    accumulate(slot, gradient);
  } else if (owned(gradient)) {
    accumulate(gradient, slot);
    slot = std::move(gradient);
  } else {
    Tensor sum = contiguous_copy(slot);
    accumulate(sum, gradient);
    slot = std::move(sum);
  }
  if (into_leaf) slot.storage()->mark(Category::gradient);
}

void Tape::Impl::deliver_to_leaf(const Tensor& leaf, Tensor gradient) {
  if (Tensor* slot = leaf_slot(leaf)) return gather(*slot, std::move(gradient), slot == &leaf.body()->grad);
  if (owner) return owner->deliver(owner->edge_for(leaf), std::move(gradient));
  if (capture_only) return;
  fail<AutogradError>("backward: reached a tensor ", meta_of(leaf), " that belongs to an enclosing tape; detach() it or run backward there");
}

void Tape::Impl::deliver(const Edge& edge, Tensor gradient, bool in_place) {
  if (in_place) return;
  switch (edge.kind) {
    case Edge::Kind::none: return;
    case Edge::Kind::ended:
      fail<AutogradError>(ambient().op, ": backward reached an input that was computed on a tape that has ended; detach() it to use it as a constant");
    case Edge::Kind::leaf: return deliver_to_leaf(edge.leaf, std::move(gradient));
    case Edge::Kind::node: break;
  }
  Node& node = nodes[size_t(edge.node)];
  if (node.cotangents.empty()) node.cotangents.resize(node.out.size());
  gather(node.cotangents[size_t(edge.output)], std::move(gradient), false);
}

Tensor* Tape::Impl::slot_of(const Edge& edge) {
  if (edge.kind == Edge::Kind::node) {
    auto& cotangents = nodes[size_t(edge.node)].cotangents;
    return cotangents.empty() ? nullptr : &cotangents[size_t(edge.output)];
  }
  if (edge.kind != Edge::Kind::leaf) return nullptr;
  Tensor* slot = leaf_slot(edge.leaf);
  return slot || !owner ? slot : owner->slot_of(owner->edge_for(edge.leaf));
}

Tensor Tape::Impl::target(const Edge& edge) {
  if (creating_graph_) return {};
  const Tensor* slot = slot_of(edge);
  return slot && slot->defined() && owned(*slot) ? *slot : Tensor();
}

void Tape::Impl::run_node(int64_t index, const BackwardOptions& options) {
  Node& node = nodes[size_t(index)];
  Tensors cotangents = std::exchange(node.cotangents, {});
  node.remade.clear();
  const bool keep = options.retain || options.create_graph;
  bool reached = false;
  for (size_t i = 0; i < capture.size(); ++i) {  // gradients of intermediate results
    if (!capture[i].defined()) continue;
    const AutogradSlot& slot = capture[i].body()->slot;
    if (slot.tape == id && slot.node == index && !cotangents.empty()) captured[i] = cotangents[size_t(slot.output)];
  }
  for (const Tensor& cotangent : cotangents) reached = reached || cotangent.defined();
  if (reached) {
    const With op(&Ambient::op, node.name);
    const With path(&Ambient::path, node.path);
    if (node.op && !node.op->no_gradient.empty()) fail<AutogradError>(node.name, ": has no gradient: ", node.op->no_gradient);
    if (options.create_graph && node.op && node.op->no_second_order) {
      const std::string_view reason = node.op->no_second_order(node.attrs.get());
      if (!reason.empty()) fail<AutogradError>(node.name, ": has no second-order gradient: ", reason);
    }
    if (options.create_graph && node.rule) fail<AutogradError>(node.name, ": scopes and custom rules have no second-order gradient");
    if (node.freed) fail<AutogradError>(node.name, ": backward ran already and released what it had saved; pass .retain = true to the first backward");
    Tensors gradients;
    {
      Saved saved(*this, node, std::move(cotangents));
      targets_given = 0;
      gradients = node.rule ? node.rule(*this, saved) : node.op->vjp(saved, node.attrs.get());
      if (read_observer && node.op) read_observer(*node.op, node.saves, saved.read());
    }
    // One tensor may arrive twice as a gradient (x + x); only a target that was asked for and came back holds the sum already.
    std::vector<bool> in_place(gradients.size());
    for (size_t i = 0; i < gradients.size() && i < node.edges.size(); ++i) {
      if (!(targets_given >> i & 1) || !gradients[i].defined()) continue;
      Tensor* slot = slot_of(node.edges[i]);
      in_place[i] = slot && slot->defined() && slot->body() == gradients[i].body();
    }
    if (!keep) node.saved.clear();
    if (gradients.size() != node.edges.size()) fail<AutogradError>(node.name, ": the rule returned ", gradients.size(), " gradients for ", node.edges.size(), " inputs");
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!node.need(int(i)) || !gradients[i].defined()) continue;
      if (gradients[i].shape() != node.in[i].shape || gradients[i].dtype() != node.in[i].dtype) {
        fail<AutogradError>(node.name, ": the rule returned a gradient ", meta_of(gradients[i]), " for input ", i, " of type ", node.in[i]);
      }
      deliver(node.edges[i], std::move(gradients[i]), i < in_place.size() && in_place[i]);
    }
  }
  if (!keep) {
    node.saved.clear();
    node.rule = nullptr;
    node.freed = true;
  }
}

int64_t Tape::Impl::seed(const Tensor& output, Tensor cotangent) {
  const Edge edge = edge_for(output);
  if (edge.kind == Edge::Kind::none) return -1;
  if (cotangent.shape() != output.shape()) fail<ShapeError>("backward: cotangent ", cotangent.shape(), " for an output ", output.shape());
  deliver(edge, std::move(cotangent));
  return edge.kind == Edge::Kind::node ? edge.node : -1;
}

void Tape::Impl::sweep_from(int64_t last, const BackwardOptions& options) {
  struct Restore {
    bool recording_before;
    bool& creating_graph;
    ~Restore() {
      recording = recording_before;
      creating_graph = false;
    }
  } restore{std::exchange(recording, options.create_graph), creating_graph_};
  creating_graph_ = options.create_graph;
  for (int64_t index = last; index >= 0; --index) run_node(index, options);
}

void Tape::Impl::sweep(const Tensors& outputs, const Tensors& cotangents, BackwardOptions options) {
  captured.resize(capture.size());
  int64_t last = -1;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor cotangent = i < cotangents.size() ? cotangents[i] : Tensor();
    if (!cotangent.defined()) cotangent = ones(outputs[i].shape(), outputs[i].dtype(), outputs[i].device());
    last = std::max(last, seed(outputs[i], std::move(cotangent)));
  }
  sweep_from(last, options);
}

void Tape::Impl::sweep_present(Tensors outputs, Tensors cotangents) {
  captured.resize(capture.size());
  int64_t last = -1;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (cotangents[i].defined()) last = std::max(last, seed(outputs[i], std::exchange(cotangents[i], {})));
  }
  outputs.clear();
  sweep_from(last, {});
}

void Tape::backward(const Tensor& loss, BackwardOptions options) {
  if (loss.numel() != 1) fail<ShapeError>("backward: the loss must have one element, got ", loss.shape(), "; sum it, or pass cotangents");
  backward(Tensors{loss}, {}, options);
}

void Tape::backward(const Tensors& outputs, const Tensors& cotangents, BackwardOptions options) {
  for (const Tensor& output : outputs) {
    const auto kind = impl_->edge_for(output).kind;
    if (kind == Edge::Kind::none) fail<AutogradError>("backward: the output does not depend on anything that requires a gradient on this tape");
    if (kind == Edge::Kind::ended) fail<AutogradError>("backward: the output was computed on a tape that has ended");
  }
  const Phase phase("backward");
  impl_->sweep(outputs, cotangents, options);
}

Tensors Tape::gradient(const Tensors& outputs, const Tensors& wrt, const Tensors& cotangents, BackwardOptions options) {
  impl_->capture = wrt;
  impl_->captured.clear();
  impl_->capture_only = true;
  struct Restore {
    Impl& impl;
    ~Restore() { impl.capture.clear(); impl.captured.clear(); impl.capture_only = false; }
  } restore{*impl_};
  const Phase phase("backward");
  impl_->sweep(outputs, cotangents, options);
  return std::move(impl_->captured);
}

int64_t Tape::size() const { return int64_t(impl_->nodes.size()); }

int64_t Tape::saved_bytes() const {
  std::vector<const StorageBody*> seen;
  for (const Node& node : impl_->nodes)
    for (const SavedTensor& saved : node.saved)
      if (saved.tensor.defined()) seen.push_back(saved.tensor.storage().get());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  int64_t bytes = 0;
  for (const StorageBody* storage : seen) bytes += storage->bytes;
  return bytes;
}

std::string Tape::to_string() const {
  std::string text;
  int64_t index = 0;
  for (const Node& node : impl_->nodes) {
    text += concat(index++, " ", node.name);
    if (node.path) text += concat(" in ", path_name(node.path));
    for (const Meta& m : node.in) text += concat(" ", m);
    text += " ->";
    for (const Meta& m : node.out) text += concat(" ", m);
    int64_t bytes = 0;
    for (const SavedTensor& saved : node.saved) bytes += saved.tensor.defined() ? saved.tensor.nbytes() : 0;
    text += concat(", saves ", node.saved.size(), " tensors, ", bytes, " bytes\n");
  }
  return text;
}

// Saved

Saved::Saved(Tape::Impl& tape, const Node& node, Tensors cotangents) : tape_(tape), node_(node), cotangents_(std::move(cotangents)) {}

const Tensor& Saved::get(uint32_t Saves::* kind, int i, const char* what) {
  const uint32_t declared = node_.saves.*kind, bit = uint32_t(1) << i;
  if (!(declared & bit)) fail<AutogradError>(node_.name, ": the gradient rule reads ", what, " ", i, ", which `saves` does not declare");
  read_.*kind |= bit;
  int position = std::popcount(declared & (bit - 1));
  if (kind != &Saves::inputs) position += std::popcount(node_.saves.inputs);
  if (kind == &Saves::residuals) position += std::popcount(node_.saves.outputs);
  const SavedTensor& saved = node_.saved[size_t(position)];
  if (saved.maker >= 0) return tape_.remade(saved.maker, saved.output);
  if (saved.tensor.defined() && saved.tensor.storage()->version != saved.version) {
    fail<AutogradError>(node_.name, ": saved ", what, " ", i, " ", meta_of(saved.tensor), " was overwritten by ",
                        *saved.tensor.storage()->writer ? saved.tensor.storage()->writer : "a write in place", " after it was saved (version ",
                        saved.version, ", now ", saved.tensor.storage()->version, "); write to a copy instead");
  }
  return saved.tensor;
}

const Tensor& Saved::input(int i) { return get(&Saves::inputs, i, "input"); }
const Tensor& Saved::output(int i) { return get(&Saves::outputs, i, "output"); }
const Tensor& Saved::residual(int i) { return get(&Saves::residuals, i, "residual"); }

Tensor Saved::grad(int i) const {
  if (has_grad(i)) return cotangents_[size_t(i)];
  const Meta& m = out_meta(i);
  return zeros_view(m.shape, m.dtype, m.device);
}

Need Saved::need() const { return node_.need; }
int Saved::inputs() const { return int(node_.in.size()); }
const Meta& Saved::in_meta(int i) const { return node_.in[size_t(i)]; }
const Meta& Saved::out_meta(int i) const { return node_.out[size_t(i)]; }
Tensor Saved::target(int i) const {
  Tensor target = tape_.target(node_.edges[size_t(i)]);
  if (target.defined()) tape_.targets_given |= uint32_t(1) << i;
  return target;
}

}  // namespace spool
