#include <spool/autograd/custom_vjp.h>
#include <spool/autograd/scope.h>

namespace spool {

Tensors custom_vjp(const std::string& name, const std::function<Tensors(const Tensors&)>& f, const std::function<Tensors(Saved&)>& rule, Saves saves,
                   const Tensors& inputs) {
  Tape::Impl* tape = current_tape();
  Tensors outputs;
  {
    const NoGrad quiet;
    for (const Tensor& result : f(inputs)) outputs.push_back(result.detach());
  }
  if (!tape) return outputs;
  Need need;
  std::vector<Edge> edges;
  for (size_t i = 0; i < inputs.size(); ++i) {
    edges.push_back(tape->edge_for(inputs[i]));
    if (edges.back().kind != Edge::Kind::none) need.mask |= uint32_t(1) << i;
  }
  if (!need.any()) return outputs;
  Node node = scope_node(*tape, name, outputs);
  if (tape->mode == Tape::Impl::Mode::record) {
    const With op(&Ambient::op, node.name);
    node.need = need;
    node.edges = std::move(edges);
    node.saves = saves;
    for (const Tensor& input : inputs) node.in.push_back(meta_of(input));
    for (size_t i = 0; i < inputs.size(); ++i) if (saves.inputs >> i & 1) save(node, inputs[i]);
    for (size_t i = 0; i < outputs.size(); ++i) if (saves.outputs >> i & 1) save(node, outputs[i]);
    node.rule = [rule](Tape::Impl&, Saved& saved) { return rule(saved); };
  }
  tape->record(std::move(node), outputs);
  return outputs;
}

}  // namespace spool
