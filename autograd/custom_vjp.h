#pragma once
// Functions with a gradient rule of the user's own.
#include <spool/autograd/saved.h>

#include <functional>
#include <string>

namespace spool {

/// Runs f(inputs) without recording its inside and records one node whose gradients come from `rule`. `saves` says which inputs and
/// outputs the rule may read (`Saves().input(0).output(0)`); reading another throws. The rule returns one gradient per input, undefined
/// where `saved.needs(i)` is false.
Tensors custom_vjp(const std::string& name, const std::function<Tensors(const Tensors&)>& f, const std::function<Tensors(Saved&)>& rule, Saves saves,
                   const Tensors& inputs);

}  // namespace spool
