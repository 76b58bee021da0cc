#pragma once
// Modules: structs whose members are parameters, buffers and other modules. Members register themselves with the module that they are
// members of, under the name given where they are built, and are pinned there.
//
//   struct FeedForward : nn::Layer<FeedForward> {
//     struct Config { int64_t dim, hidden; };
//     FeedForward(Slot at, Config c) : Layer(at), up{at("up"), {.in = c.dim, .out = c.hidden}}, down{at("down"), {.in = c.hidden, .out = c.dim}} {}
//     Linear up, down;
//     Tensor forward(const Tensor& x) const { return down(gelu(up(x))); }
//   };
//   FeedForward ff(nn::root({.seed = 1}), {.dim = 64, .hidden = 256});
//   Tensor y = ff(x);
#include <spool/tensor/ambient.h>
#include <spool/tensor/tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spool::nn {

class Module;
struct Parameter;
struct Buffer;

/// How parameters come to life. A parameter's values depend on the seed and its full name only.
struct Options {
  uint64_t seed = 0;
  Dtype dtype = Dtype::f32;
  Device device = cpu;
  bool initialise = true;  ///< False: parameters keep whatever their memory holds, for models that are loaded at once.
};

/// A place for a module or parameter: under `name` in the module being built. `at("up")` inside a constructor names a member.
class Slot {
 public:
  explicit Slot(Options options) : options_(options) {}
  Slot operator()(std::string_view name) const;
  const Options& options() const { return options_; }
  std::string path() const;  ///< Full name, "layers.0.attention.query".

 private:
  friend class Module;
  friend struct Parameter;
  friend struct Buffer;
  Options options_;
  Module* parent_ = nullptr;  ///< Module to register with.
  Module* self_ = nullptr;    ///< Module being built here, set by its base.
  std::string name_;
};

/// The slot of a model that is no other module's member.
inline Slot root(Options options = {}) { return Slot(options); }

struct LoadOptions {
  bool strict = true;  ///< Missing and unexpected names are errors. Wrong shapes and types always are.
};

class Module {
 public:
  explicit Module(Slot& at);
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& path() const { return path_; }

  /// Parameters in the order in which they were built, names relative to this module. A tied parameter appears once, under its first name.
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  int64_t parameter_count() const;  ///< Elements; tied ones once.

  /// Copies values in by name (parameters and buffers). Throws IoError with one message that lists everything missing, unexpected or of
  /// another shape or type; nothing is changed then.
  void load(const NamedTensors& state, LoadOptions options = {});
  /// The same from a safetensors file.
  void load(const std::string& file, LoadOptions options = {});
  /// Parameters and buffers into a safetensors file (written beside and renamed).
  void save(const std::string& file, const std::map<std::string, std::string>& metadata = {}) const;

  void train(bool on = true);  ///< Dropout on or off, here and below.
  void eval() { train(false); }
  bool training() const { return training_; }

  /// Parameters whose name matches the glob ("layers.0.*") no longer (or again) require gradients. Throws ConfigError when none matches.
  void freeze(std::string_view glob, bool frozen = true);
  void zero_grad();  ///< Drops all gradients.

  /// One line a module: name, parameters, bytes; and the total.
  std::string summary() const;

 protected:
  uint32_t interned_path() const { return interned_; }

 private:
  friend struct Parameter;
  friend struct Buffer;
  template <class F> void walk(const F& visit, const std::string& prefix) const;
  std::string name_, path_;
  uint32_t interned_ = 0;
  bool training_ = true;
  std::vector<Module*> children_;
  std::vector<std::pair<std::string, Tensor>> parameters_, buffers_;
};

/// Base of user modules: calling the module runs `forward` with its path in force, so that events and errors name it. `Base` is Module or
/// an interface made from it, such as LanguageModel.
template <class Derived, class Base = Module>
class Layer : public Base {
 public:
  using Slot = nn::Slot;
  explicit Layer(Slot& at) : Base(at) {}
  template <class... Args>
  decltype(auto) operator()(Args&&... args) const {
    const With path(&Ambient::path, this->interned_path());
    return static_cast<const Derived*>(this)->forward(std::forward<Args>(args)...);
  }
};

/// Initial values of a parameter.
struct Init {
  enum class Kind { uniform, normal, constant } kind = Kind::constant;
  double a = 0;  ///< uniform: in [−a, a]; normal: standard deviation; constant: value.
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  static Init normal(double deviation) { return {Kind::normal, deviation}; }
  static Init constant(double value) { return {Kind::constant, value}; }
};

/// A trained tensor that is a member of a module.
struct Parameter {
  Parameter(const Slot& at, const Shape& shape, Init init);
  operator const Tensor&() const { return value; }  // NOLINT: a parameter is used where its tensor is meant
  const Tensor value;
};

/// A tensor that is saved with a module but not trained.
struct Buffer {
  Buffer(const Slot& at, Tensor value);
  operator const Tensor&() const { return value; }  // NOLINT
  const Tensor value;
};

/// A numbered list of modules: children are "0", "1", …
template <class T>
class List : public Module {
 public:
  template <class... Args>
  List(Slot at, int64_t count, const Args&... args) : Module(at) {
    for (int64_t i = 0; i < count; ++i) items_.emplace_back(at(std::to_string(i)), args...);
  }
  int64_t size() const { return int64_t(items_.size()); }
  const T& operator[](int64_t i) const { return items_[size_t(i)]; }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::deque<T> items_;
};

}  // namespace spool::nn
