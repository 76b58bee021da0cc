#include <spool/autograd/node.h>
#include <spool/autograd/recompute_ops.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/profiler.h>

#include <algorithm>
#include <map>

namespace spool {
namespace {

std::map<std::string_view, const OpInfo*>& registry() {
  static std::map<std::string_view, const OpInfo*> ops;
  return ops;
}

Metas metas_of(const OpInfo& op, std::span<const Tensor> inputs) {
  Metas metas;
  metas.reserve(inputs.size());
  if (!inputs.empty() && !inputs[0].defined()) fail<Error>(op.name, ": the first input is undefined; assign it before use");
  const Tensor* first = nullptr;
  for (const Tensor& input : inputs) {
    metas.push_back(meta_of(input));
    if (!input.defined()) continue;
    if (!first) first = &input;
    if (input.device() != first->device()) fail<DeviceError>(op.name, ": inputs are on ", first->device(), " and ", input.device(), "; move them to one device");
  }
  return metas;
}

/// The part of a node that depends on the inputs; empty when nothing wants a gradient.
struct Interest {
  Tape::Impl* tape = nullptr;
  Need need;
  std::vector<Edge> edges;
};

Interest interest_in(std::span<const Tensor> inputs) {
  Interest interest;
  interest.tape = current_tape();
  if (!interest.tape) return interest;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Edge edge = interest.tape->edge_for(inputs[i]);
    if (edge.kind == Edge::Kind::none) continue;
    interest.edges.resize(inputs.size());
    interest.edges[i] = edge;
    interest.need.mask |= uint32_t(1) << i;
  }
  return interest;
}

/// Whether what the op gives is to be made again. Counted for scopes' first runs, too, which keep nothing.
bool is_remade(const OpInfo& op) {
  const auto& policy = recompute_policy();
  return policy && op.remake && policy->takes(op.name, path_name(ambient().path));
}

void record(const OpInfo& op, const void* attrs, Interest interest, Saves saves, Metas in, std::span<const Tensor> inputs, const Tensors& outputs,
            const Tensors& residuals) {
  interest.tape->follow(op.name.data(), outputs);
  Node node;
  const bool remade = is_remade(op);
  if (interest.tape->mode == Tape::Impl::Mode::record) {
    if (remade)
      for (size_t i = 0; i < outputs.size(); ++i) saves = saves | op.remade_from(int(i), attrs);
    node.remakes = remade;
    node.op = &op;
    node.attrs = op.share(attrs);
    node.name = op.name.data();
    node.path = ambient().path;
    node.need = interest.need;
    node.saves = saves;
    node.edges = std::move(interest.edges);
    node.in = std::move(in);
    for (const Tensor& output : outputs) node.out.push_back(meta_of(output));
    for (size_t i = 0; i < inputs.size(); ++i) if (saves.inputs >> i & 1) interest.tape->keep(node, inputs[i]);
    for (size_t i = 0; i < outputs.size(); ++i) if (saves.outputs >> i & 1) save(node, outputs[i]);
    for (size_t i = 0; i < residuals.size(); ++i) if (saves.residuals >> i & 1) save(node, residuals[i]);
  }
  interest.tape->record(std::move(node), outputs);
}

Tensors run(const OpInfo& op, std::span<const Tensor> inputs, const void* attrs) {
  Metas in = metas_of(op, inputs);
  Interest interest = interest_in(inputs);
  const bool recorded = interest.need.any();
  const bool keeps = recorded && interest.tape->mode == Tape::Impl::Mode::record && op.saves;
  const Saves saves = keeps ? op.saves(interest.need, attrs) : Saves{};

  Tensors outputs, residuals;
  if (op.view) {
    if (Tensor view = op.view(inputs[0], attrs); view.defined()) outputs.push_back(view.body() == inputs[0].body() ? view.detach() : std::move(view));
  }
  if (outputs.empty()) {
    const Inferred inferred = op.infer(in, attrs);
    for (const Meta& m : inferred.outputs) outputs.push_back(empty(m));
    residuals.resize(inferred.residuals.size());
    for (size_t i = 0; i < residuals.size(); ++i) {
      const With category(&Ambient::category, Category::saved);
      if (saves.residuals >> i & 1) residuals[i] = empty(inferred.residuals[i]);
    }
    Tensors dense;
    if (!op.strided && !std::all_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return !t.defined() || t.is_contiguous(); })) {
      for (const Tensor& input : inputs) dense.push_back(input.defined() ? as_contiguous(input) : input);
    }
    Storage scratch;
    if (op.scratch) {
      const With category(&Ambient::category, Category::scratch);
      scratch = Storage(new StorageBody(op.scratch(in, attrs), outputs[0].device()));
    }
    if (!outputs[0].device().meta) {
      const std::span<std::byte> bytes = scratch ? std::span(scratch->data, size_t(scratch->bytes)) : std::span<std::byte>();
      Timed timed;
      if (timed) {
        const Cost cost = op.cost(in, attrs);
        timed.work(cost.flops, cost.bytes);
      }
      op.cpu({dense.empty() ? inputs : std::span<const Tensor>(dense), outputs, residuals, bytes}, attrs);
    }
  }
  if (recorded) record(op, attrs, std::move(interest), saves, std::move(in), inputs, outputs, residuals);
  return outputs;
}

}  // namespace

bool register_op(const OpInfo& op) {
  if (!registry().emplace(op.name, &op).second) fail<Error>("register_op: the name ", op.name, " is taken");
  return true;
}

std::vector<const OpInfo*> registered_ops() {
  std::vector<const OpInfo*> ops;
  for (const auto& [name, op] : registry()) ops.push_back(op);
  return ops;
}

Tensors dispatch(const OpInfo& op, std::span<const Tensor> inputs, const void* attrs) {
  const With name(&Ambient::op, op.name.data());
  try {
    return run(op, inputs, attrs);
  } catch (Error& error) {
    if (ambient().path) error.add_place(path_name(ambient().path));
    throw;
  }
}

Dtype same_float(std::string_view op, const Metas& in) {
  const Meta* first = nullptr;
  for (const Meta& m : in) {
    if (!m.defined) continue;
    if (!is_float(m.dtype)) fail_not_float(op, m.dtype);
    if (!first) first = &m;
    if (m.dtype != first->dtype) fail<DtypeError>(op, ": inputs are ", dtype_name(first->dtype), " and ", dtype_name(m.dtype), "; convert one with cast()");
  }
  if (!first) fail<Error>(op, ": the inputs are undefined; assign them before use");
  return first->dtype;
}

}  // namespace spool
