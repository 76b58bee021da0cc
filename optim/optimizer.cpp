#include <spool/optim/optimizer.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <map>

namespace spool {

Optimizer::Optimizer(std::vector<std::pair<std::string, Tensor>> parameters, const char* name, std::vector<std::string> moments, double lr)
    : name_(name), moment_names_(std::move(moments)), lr_(lr) {
  for (auto& [parameter_name, tensor] : parameters) {
    if (tensor.dtype() != Dtype::f32 && tensor.dtype() != Dtype::f64) fail<DtypeError>(name_, ": ", parameter_name, " is ", dtype_name(tensor.dtype()), "; parameters must be f32 or f64");
    slots_.push_back({std::move(parameter_name), std::move(tensor), {}});
  }
}

void Optimizer::make_state() {
  const With category(&Ambient::category, Category::optimizer);
  for (Slot& slot : slots_) {
    if (!slot.moments.empty()) continue;
    const With path(&Ambient::path, intern_path(slot.name));
    for (size_t i = 0; i < moment_names_.size(); ++i) slot.moments.push_back(zeros(slot.parameter.shape(), slot.parameter.dtype(), slot.parameter.device()));
  }
}

void Optimizer::step() {
  const With op(&Ambient::op, name_);
  const Phase phase("optimizer step");
  std::string missing;
  for (const Slot& slot : slots_)
    if (slot.parameter.requires_grad() && !slot.parameter.grad().defined()) missing += (missing.empty() ? "" : ", ") + slot.name;
  if (!missing.empty()) fail<AutogradError>(name_, ": no gradient for ", missing, "; freeze what is not used, or run backward before the step");
  make_state();
  ++steps_;
  for (const Slot& slot : slots_) {
    if (!slot.parameter.requires_grad()) continue;
    bump_version(slot.parameter);
    if (!slot.parameter.device().meta) update(slot, steps_);
  }
}

void Optimizer::zero_grad() {
  for (const Slot& slot : slots_) slot.parameter.set_grad({});
}

std::vector<std::pair<std::string, Tensor>> Optimizer::state() const {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const Slot& slot : slots_)
    for (size_t i = 0; i < slot.moments.size(); ++i) out.emplace_back(moment_names_[i] + "." + slot.name, slot.moments[i]);
  return out;
}

void Optimizer::load_state(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps) {
  const std::map<std::string, Tensor> given(state.begin(), state.end());
  if (steps > 0) make_state();
  size_t used = 0;
  for (const auto& [name, moment] : this->state()) {
    const auto it = given.find(name);
    if (it == given.end()) fail<IoError>(name_, ": the saved state lacks ", name);
    if (it->second.shape() != moment.shape()) fail<IoError>(name_, ": ", name, " is ", meta_of(moment), " here and ", meta_of(it->second), " in the saved state");
    ++used;
  }
  if (used != given.size()) fail<IoError>(name_, ": the saved state has ", given.size(), " tensors, ", used, " are expected");
  for (const auto& [name, moment] : this->state()) copy(moment, given.at(name));
  steps_ = steps;
}

}  // namespace spool
