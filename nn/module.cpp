#include <spool/nn/module.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/safetensors.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

namespace spool::nn {
namespace {

std::string join(const std::string& prefix, const std::string& name) { return prefix.empty() ? name : name.empty() ? prefix : prefix + "." + name; }

bool glob_matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    for (size_t skip = 0; skip <= text.size(); ++skip) if (glob_matches(pattern.substr(1), text.substr(skip))) return true;
    return false;
  }
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) && glob_matches(pattern.substr(1), text.substr(1));
}

/// Element i depends on the key and i alone. Drawn in f64 and rounded, so that f32 and f64 models start from the same point.
void initialise(const Tensor& t, Init init, RandomKey key) {
  if (init.kind == Init::Kind::constant) return fill(t, init.a);
  if (t.device().meta) return;
  visit_float("initialise", t.dtype(), [&]<class T>() {
    T* to = static_cast<T*>(t.raw());
    for (int64_t i = 0; i < t.numel(); ++i) {
      const auto w = philox4x32({uint32_t(i), uint32_t(uint64_t(i) >> 32), 0, 0}, key.words());
      const double u = uniform_from(w[0], w[1]);
      const double value = init.kind == Init::Kind::uniform ? (2 * u - 1) * init.a
                                                            : init.a * std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * std::numbers::pi * uniform_from(w[2], w[3]));
      to[i] = static_cast<T>(static_cast<float>(value));
    }
  });
}

}  // namespace

Slot Slot::operator()(std::string_view name) const {
  if (!self_) fail<Error>("slot: name members through the slot of the module being built, after its base was constructed");
  Slot member(options_);
  member.parent_ = self_;
  member.name_ = name;
  return member;
}

std::string Slot::path() const { return join(parent_ ? parent_->path() : "", name_); }

Module::Module(Slot& at) : name_(at.name_), path_(at.path()), interned_(intern_path(path_)) {
  if (at.parent_) at.parent_->children_.push_back(this);
  at.self_ = this;
}

template <class F>
void Module::walk(const F& visit, const std::string& prefix) const {
  visit(*this, prefix);
  for (const Module* child : children_) child->walk(visit, join(prefix, child->name_));
}

NamedTensors Module::named_parameters() const {
  NamedTensors out;
  std::set<const TensorBody*> seen;
  walk([&](const Module& module, const std::string& prefix) {
    for (const auto& [name, tensor] : module.parameters_)
      if (seen.insert(tensor.body()).second) out.emplace_back(join(prefix, name), tensor);
  }, "");
  return out;
}

NamedTensors Module::named_buffers() const {
  NamedTensors out;
  walk([&](const Module& module, const std::string& prefix) {
    for (const auto& [name, tensor] : module.buffers_) out.emplace_back(join(prefix, name), tensor);
  }, "");
  return out;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const auto& [name, tensor] : named_parameters()) count += tensor.numel();
  return count;
}

void Module::load(const NamedTensors& state, LoadOptions options) {
  std::map<std::string, Tensor> given(state.begin(), state.end());
  NamedTensors own = named_parameters();
  for (auto& buffer : named_buffers()) own.push_back(std::move(buffer));
  std::string problems;
  std::vector<std::pair<Tensor, Tensor>> moves;
  for (const auto& [name, tensor] : own) {
    const auto it = given.find(name);
    if (it == given.end()) {
      if (options.strict) problems += concat("; missing ", name, " ", meta_of(tensor));
      continue;
    }
    if (it->second.shape() != tensor.shape()) problems += concat("; ", name, " is ", meta_of(tensor), " here and ", meta_of(it->second), " there");
    else moves.emplace_back(tensor, it->second);
    given.erase(it);
  }
  if (options.strict) for (const auto& [name, tensor] : given) problems += concat("; unexpected ", name, " ", meta_of(tensor));
  if (!problems.empty()) fail<IoError>("load: the state does not fit the model", problems);
  const With op(&Ambient::op, "load");
  for (const auto& [to, from] : moves) copy(to, from);
}

void Module::load(const std::string& file, LoadOptions options) {
  try {
    load(load_safetensors(file), options);
  } catch (IoError& error) {
    error.add_place(file);
    throw;
  }
}

void Module::save(const std::string& file, const std::map<std::string, std::string>& metadata) const {
  NamedTensors state = named_parameters();
  for (auto& buffer : named_buffers()) state.push_back(std::move(buffer));
  save_safetensors(file, state, metadata);
}

void Module::train(bool on) {
  training_ = on;
  for (Module* child : children_) child->train(on);
}

void Module::freeze(std::string_view glob, bool frozen) {
  int64_t matched = 0;
  for (const auto& [name, tensor] : named_parameters()) {
    if (!glob_matches(glob, name)) continue;
    tensor.requires_grad(!frozen);
    ++matched;
  }
  if (matched == 0) fail<ConfigError>("freeze: no parameter matches ", glob);
}

void Module::zero_grad() {
  for (const auto& [name, tensor] : named_parameters()) tensor.set_grad({});
}

std::string Module::summary() const {
  std::string text;
  const auto line = [&](const std::string& name, int64_t count, int64_t bytes) {
    std::string row = name;
    row.resize(std::max<size_t>(row.size(), 40), ' ');
    std::string number = std::to_string(count), size = std::to_string(bytes) + " B";
    text += row + std::string(14 - std::min<size_t>(14, number.size()), ' ') + number + std::string(18 - std::min<size_t>(18, size.size()), ' ') + size + "\n";
  };
  walk([&](const Module& module, const std::string& prefix) {
    int64_t count = 0, bytes = 0;
    for (const auto& [name, tensor] : module.parameters_) {
      count += tensor.numel();
      bytes += tensor.nbytes();
    }
    if (count) line(prefix.empty() ? "(here)" : prefix, count, bytes);
  }, "");
  int64_t bytes = 0;
  for (const auto& [name, tensor] : named_parameters()) bytes += tensor.nbytes();
  line("total", parameter_count(), bytes);
  return text;
}

namespace {
Tensor new_parameter(const Slot& at, const Shape& shape, Init init) {
  const With category(&Ambient::category, Category::parameter);
  const With path(&Ambient::path, intern_path(at.path()));
  const With op(&Ambient::op, "parameter");
  Tensor t = empty(shape, at.options().dtype, at.options().device);
  if (at.options().initialise) initialise(t, init, RandomKey(at.options().seed).fold(at.path()));
  return t.requires_grad(true);
}
}  // namespace

Parameter::Parameter(const Slot& at, const Shape& shape, Init init) : value(new_parameter(at, shape, init)) { at.parent_->parameters_.emplace_back(at.name_, value); }

Buffer::Buffer(const Slot& at, Tensor tensor) : value(std::move(tensor)) {
  value.storage()->mark(Category::parameter);
  at.parent_->buffers_.emplace_back(at.name_, value);
}

}  // namespace spool::nn
