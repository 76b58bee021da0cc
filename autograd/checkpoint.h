#pragma once
// Recompute as a scope: forward keeps the inputs only, backward runs the function again on a tape of its own, sweeps it and frees it.
#include <spool/autograd/tape.h>

#include <functional>
#include <string>

namespace spool {

using ScopeFunction = std::function<Tensors(const Tensors&)>;

/// Runs f(inputs) and records one node that keeps `inputs` instead of everything f's ops would have saved. Backward calls f again with
/// the same tensors, random stream and module path, so results and gradients have the same bits as without the scope. Tensors that f
/// captures may want gradients too; a result needs one when anything used inside does. Scopes nest.
/// f must be a pure function of its inputs, captures and the ambient random stream. The second run is held against the first op by op:
/// ScopeError names the scope, the op and the result when it runs another op, more or fewer of them, or gives other shapes or types; with
/// `verify_recompute(true)` also when it gives other values. A kept tensor that was written to in between is an AutogradError.
Tensors checkpoint(const std::string& name, const ScopeFunction& f, const Tensors& inputs);
/// The same for one tensor in, one tensor out.
Tensor checkpoint(const std::string& name, const std::function<Tensor(const Tensor&)>& f, const Tensor& input);

/// Debugging aid: scopes hash the values of every op's results in forward and compare them in recomputation. Off by default.
void verify_recompute(bool on);

}  // namespace spool
