#include <spool/optim/optimizer.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/profiler.h>

#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace spool {
namespace {

Dtype state_dtype(const Tensor& parameter) { return parameter.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32; }
bool needs_master(const Tensor& parameter) { return dtype_size(parameter.dtype()) == 2; }

template <class T>
Tensor host_scalar(T value) {
  Tensor t = empty({}, dtype_of<T>);
  *t.data<T>() = value;
  return t;
}

/// "a, b, c, … (12 of 40 parameters)".
std::string listed(const std::vector<std::string>& names, size_t of) {
  constexpr size_t most = 20;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += concat(i ? ", " : "", names[i]);
  return text + concat(names.size() > most ? ", …" : "", " (", names.size(), " of ", of, " parameters)");
}

}  // namespace

Optimizer::Optimizer(const char* op, NamedTensors parameters, double learning_rate, bool allow_missing, std::vector<std::string> slots)
    : op_(op),
      parameters_(std::move(parameters)),
      states_(parameters_.size()),
      slot_names_(std::move(slots)),
      allow_missing_(allow_missing) {
  set_lr(learning_rate);
  if (parameters_.empty()) fail<ConfigError>(op_, ": no parameters given");
  std::set<std::string_view> names;
  std::set<const TensorBody*> bodies;
  for (const auto& [name, tensor] : parameters_) {
    if (!names.insert(name).second) fail<ConfigError>(op_, ": two parameters are named ", name);
    if (!bodies.insert(tensor.body()).second)
      fail<ConfigError>(op_, ": parameter ", name, " is given twice; it would be updated twice a step");
    if (!is_float(tensor.dtype()))
      fail<DtypeError>(op_, ": parameter ", name, " is ", meta_of(tensor), "; only float tensors can be trained");
    if (!tensor.is_contiguous())
      fail<ShapeError>(op_, ": parameter ", name, " of shape ", tensor.shape(), " is not contiguous; give the tensor that it is a view of");
  }
}

void Optimizer::set_lr(double value) {
  if (!std::isfinite(value) || value < 0) fail<ConfigError>(op_, ": lr must be finite and at least 0, got ", value);
  lr_ = value;
}

void Optimizer::step(double learning_rate) {
  set_lr(learning_rate);
  step();
}

/// The parameters that have a gradient, after checking all of them.
std::vector<size_t> Optimizer::check_gradients() const {
  std::vector<size_t> present;
  std::vector<std::string> missing;
  size_t wanted = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, p] = parameters_[i];
    if (!p.requires_grad()) continue;
    ++wanted;
    const Tensor& g = p.grad();
    if (!g.defined()) {
      missing.push_back(name);
      continue;
    }
    if (g.dtype() != p.dtype() && !(needs_master(p) && g.dtype() == Dtype::f32)) {
      fail<DtypeError>(op_, ": parameter ", name, " is ", meta_of(p), ", its gradient ", meta_of(g), "; convert the gradient to ",
                       dtype_name(p.dtype()));
    }
    if (g.shape() != p.shape() || !g.is_contiguous()) {
      fail<ShapeError>(op_, ": parameter ", name, " is ", meta_of(p), ", its gradient ", meta_of(g), " with strides ", g.strides(),
                       "; set a contiguous one of the same shape");
    }
    if (g.device() != p.device()) fail<DeviceError>(op_, ": parameter ", name, " is on ", p.device(), ", its gradient on ", g.device());
    present.push_back(i);
  }
  if (wanted == 0)
    fail<AutogradError>(op_, ": none of the ", parameters_.size(), " parameters requires a gradient, so there is nothing to train");
  if (!missing.empty() && !allow_missing_) {
    fail<AutogradError>(op_, ": no gradient for ", listed(missing, wanted),
                        "; they took no part in the loss: freeze them, or set allow_missing");
  }
  return present;
}

Optimizer::State Optimizer::allocate(size_t index) const {
  const auto& [name, p] = parameters_[index];
  const With category(&Ambient::category, Category::optimizer);
  const With path(&Ambient::path, intern_path(name));
  const With op(&Ambient::op, op_);
  State state{.allocated = true};
  for (size_t s = 0; s < slot_names_.size(); ++s) state.slots.push_back(zeros(p.shape(), state_dtype(p), p.device()));
  if (needs_master(p)) {
    state.master = empty(p.shape(), Dtype::f32, p.device());
    copy(state.master, p);
  }
  return state;
}

void Optimizer::prepare() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].second.requires_grad() && !states_[i].allocated) states_[i] = allocate(i);
  }
}

void Optimizer::step() {
  const Phase phase("optimizer step");
  const std::vector<size_t> present = check_gradients();
  const With op(&Ambient::op, op_);
  prepare();  // all state first: running out of memory must not leave a step half done
  for (const size_t i : present) {
    const Tensor& p = parameters_[i].second;
    State& state = states_[i];
    ++state.steps;
    bump_version(p);
    if (p.device().meta || p.numel() == 0) continue;
    double bytes = 2.0 * double(p.nbytes()) + double(p.grad().nbytes()) + (state.master.defined() ? 2.0 * double(state.master.nbytes()) : 0);
    for (const Tensor& slot : state.slots) bytes += 2.0 * double(slot.nbytes());
    const Timed timed(10.0 * double(p.numel()), bytes);
    update({p, p.grad(), state.slots, state.master, state.steps});
  }
  ++steps_;
}

void Optimizer::zero_grad() {
  for (const auto& [name, tensor] : parameters_) tensor.set_grad({});
}

NamedTensors Optimizer::state() const {
  const With category(&Ambient::category, Category::optimizer);
  NamedTensors out{{"step", host_scalar(steps_)}, {"lr", host_scalar(lr_)}};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const State& state = states_[i];
    if (!state.allocated) continue;
    const std::string prefix = parameters_[i].first + ".";
    out.emplace_back(prefix + "step", host_scalar(state.steps));
    for (size_t s = 0; s < state.slots.size(); ++s) out.emplace_back(prefix + slot_names_[s], state.slots[s]);
    if (state.master.defined()) out.emplace_back(prefix + "master", state.master);
  }
  return out;
}

void Optimizer::load_state(const NamedTensors& given, LoadStateOptions options) {
  std::map<std::string_view, Tensor> left;
  std::string problems;
  for (const auto& [name, tensor] : given) {
    if (!left.emplace(name, tensor).second) problems += concat("; ", name, " is given twice");
  }
  const auto take = [&](const std::string& name, const Meta& expected) -> Tensor {
    const auto it = left.find(name);
    if (it == left.end()) {
      problems += concat("; missing ", name, " ", expected);
      return {};
    }
    const Tensor t = it->second;
    left.erase(it);
    if (meta_of(t) == expected) return t;
    problems += concat("; ", name, " is ", meta_of(t), " on ", t.device(), " there and ", expected, " here");
    return {};
  };
  const auto number = [](const Tensor& t) { return t.defined() ? t.item() : 0; };

  const double steps = number(take("step", {{}, Dtype::i64})), lr = number(take("lr", {{}, Dtype::f64}));
  if (steps < 0 || !std::isfinite(lr) || lr < 0) problems += concat("; step ", steps, " or lr ", lr, " is out of range");
  struct Source {
    size_t index;
    Tensors slots;
    Tensor master;
    double steps;
  };
  std::vector<Source> sources;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, p] = parameters_[i];
    const std::string prefix = name + ".";
    // A parameter may be unknown when nothing was updated yet, and when it is frozen.
    if (!left.contains(prefix + "step") && (steps == 0 || !options.strict || !p.requires_grad())) continue;
    const Meta expected{p.shape(), state_dtype(p)};
    Source source{.index = i, .steps = number(take(prefix + "step", {{}, Dtype::i64}))};
    for (const std::string& slot : slot_names_) source.slots.push_back(take(prefix + slot, expected));
    if (needs_master(p)) source.master = take(prefix + "master", expected);
    if (source.steps < 0) problems += concat("; ", prefix, "step is negative");
    sources.push_back(std::move(source));
  }
  for (const auto& [name, tensor] : left) problems += concat("; unexpected ", name, " ", meta_of(tensor));
  if (!problems.empty()) fail<IoError>(op_, ": the state does not fit", problems);

  std::vector<State> states(parameters_.size());
  for (const Source& source : sources) {
    State& state = states[source.index] = allocate(source.index);
    const With op(&Ambient::op, "load");
    for (size_t s = 0; s < state.slots.size(); ++s) copy(state.slots[s], source.slots[s]);
    if (state.master.defined()) copy(state.master, source.master);
    state.steps = int64_t(source.steps);
  }
  states_ = std::move(states);
  steps_ = int64_t(steps);
  lr_ = lr;
}

}  // namespace spool
