// One step of an optimizer: inputs are the rate R, the number of steps T taken so far, and for each of n parameters its value, gradient and
// states; outputs the new values and states, in groups of n.
#include "translate.h"

namespace spool::onnx_test {
namespace {

using V = const Vector&;

/// A step of `Rule` from the node's states, which are called `slots` here; `steps` is the count of updates before it.
template <class Rule, class Options>
Tensors step(V v, const Options& options, const std::vector<std::string>& slots, int64_t steps) {
  const size_t kinds = 2 + slots.size(), n = (v.inputs.size() - 2) / kinds;
  const auto input = [&](size_t kind, size_t i) { return v.in(2 + kind * n + i); };
  NamedTensors parameters, state = {{"step", from({double(steps)}, Shape{}, Dtype::i64)}, {"lr", scalar(v.in(0).item(), Dtype::f64)}};
  for (size_t i = 0; i < n; ++i) {
    const std::string name = "x" + std::to_string(i);
    const Tensor x = contiguous_copy(input(0, i));
    x.requires_grad(true);
    x.set_grad(input(1, i));
    parameters.emplace_back(name, x);
    state.emplace_back(name + ".step", from({double(steps)}, Shape{}, Dtype::i64));
    for (size_t s = 0; s < slots.size(); ++s) state.emplace_back(name + "." + slots[s], input(2 + s, i));
  }
  Rule rule(parameters, options);
  rule.load_state(state);
  rule.step();
  Tensors results;
  for (const auto& [name, x] : parameters) results.push_back(x);
  const NamedTensors after = rule.state();
  for (const std::string& slot : slots)
    for (const auto& [name, x] : parameters)
      for (const auto& [key, value] : after)
        if (key == name + "." + slot) results.push_back(value);
  return results;
}

/// At T = 0 ONNX corrects no bias; here the correction is 1 after very many steps.
Tensors adam(V v) {
  const auto& a = v.attributes;
  const double decay_after = a.number("norm_coefficient_post");
  Tensors all = step<Adam>(v, AdamOptions{.beta1 = a.number("alpha", 0.9), .beta2 = a.number("beta", 0.999), .eps = a.number("epsilon", 1e-6), .weight_decay = a.number("norm_coefficient")},
                           {"moment1", "moment2"}, int64_t(1) << 40);
  for (size_t i = 0; i < all.size() / 3; ++i) all[i] = all[i].detach() * (1 - decay_after);
  return all;
}
Tensors momentum(V v) {
  const auto& a = v.attributes;
  return step<Sgd>(v, SgdOptions{.momentum = a.number("alpha"), .nesterov = a.text("mode") == "nesterov", .weight_decay = a.number("norm_coefficient")}, {"velocity"}, 0);
}
Tensors adagrad(V v) {
  const auto& a = v.attributes;
  return step<Adagrad>(v, AdagradOptions{.lr_decay = a.number("decay_factor"), .eps = a.number("epsilon"), .weight_decay = a.number("norm_coefficient")}, {"sum"}, int64_t(v.in(1).item()));
}

[[maybe_unused]] const bool added = add_translations({{"Adam", adam}, {"Momentum", momentum}, {"Adagrad", adagrad}});

}  // namespace
}  // namespace spool::onnx_test
