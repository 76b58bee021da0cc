#include <spool/autograd/checkpoint.h>
#include <spool/autograd/scope.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

/// Posts where one run of a scope has got to. A tape that only tracks keeps nothing, so nothing is posted for it.
class ScopeEvents {
 public:
  ScopeEvents(const Tape::Impl& tape, const std::string& name) {
    if (tape.mode == Tape::Impl::Mode::track) return;
    name_ = lasting_name(name);
    instance_ = ambient().ledger->begin_scope(name_, path_);
  }
  void post(Event::Moment moment) const {
    if (name_) ambient().ledger->scope(instance_, moment, name_, path_);
  }

 private:
  const char* name_ = nullptr;
  uint32_t path_ = ambient().path;
  uint64_t instance_ = 0;
};

}  // namespace

Tensors checkpoint(const std::string& name, const ScopeFunction& f, const Tensors& inputs) {
  Tape::Impl* tape = current_tape();
  if (!tape) return f(inputs);
  const ScopeEvents events(*tape, name);
  Tensors outputs;
  bool wanted = false;
  std::vector<OpTrace> trace;
  {
    Tape::Impl tracking(Tape::Impl::Mode::track);
    tracking.tracing = tape->mode == Tape::Impl::Mode::record;
    for (const Tensor& result : f(inputs)) {
      wanted = wanted || tracking.edge_for(result).kind != Edge::Kind::none;
      outputs.push_back(result.detach());
    }
    trace = std::move(tracking.trace);
  }
  if (!wanted) return outputs;
  Node node = scope_node(*tape, name, outputs);
  if (tape->mode == Tape::Impl::Mode::record) {
    const With op(&Ambient::op, node.name);
    for (size_t i = 0; i < inputs.size(); ++i) node.saves = node.saves.input(int(i));
    for (const Tensor& input : inputs) save(node, input);
    // Gradients of inputs and captures find their way from the sub-tape by the tensors themselves, each contribution in the order in
    // which it would have come without the scope: that keeps the bits.
    node.rule = [f, count = inputs.size(), first = fingerprint(outputs), around = Surroundings(), scope = node.name, trace = std::move(trace), events](Tape::Impl& outer, Saved& saved) -> Tensors {
      events.post(Event::Moment::replay);
      Tensors again, cotangents;
      for (size_t i = 0; i < count; ++i) again.push_back(saved.input(int(i)));
      for (size_t i = 0; i < first.metas.size(); ++i) cotangents.push_back(saved.has_grad(int(i)) ? saved.grad(int(i)) : Tensor());
      {
        Tensors results;
        Tape::Impl sub(Tape::Impl::Mode::record, &outer);
        sub.expected = &trace;
        sub.scope = scope;
        {
          const WithSurroundings restored(around);
          const With inside(&Ambient::op, "");
          results = f(again);
        }
        sub.require_all_followed();
        sub.expected = nullptr;
        require_same(scope, first, results);
        events.post(Event::Moment::replayed);
        saved.release_grads();
        sub.sweep_present(std::move(results), std::move(cotangents));
      }
      events.post(Event::Moment::done);
      return {};
    };
  }
  events.post(Event::Moment::end);
  tape->record(std::move(node), outputs);
  return outputs;
}

Tensor checkpoint(const std::string& name, const std::function<Tensor(const Tensor&)>& f, const Tensor& input) {
  return checkpoint(name, [f](const Tensors& inputs) { return Tensors{f(inputs[0])}; }, Tensors{input})[0];
}

}  // namespace spool
