#pragma once
// What an op is. The author writes one static struct; the engine sees a table of function pointers made from it (OpInfo). A struct that
// lacks a member fails to compile, and the message names the concept that is not met.
//
//   struct Softmax {
//     static constexpr auto name = "softmax";
//     struct Attrs { int axis = -1; };
//     static Inferred infer(const Metas& in, const Attrs&);   // shape rule: outputs and residuals; throws ShapeError with both shapes
//     static void cpu(const Kernel&, const Attrs&);           // fills outputs and residuals; never allocates
//     static Saves saves(Need);                               // what backward may read, given who wants a gradient
//     static Tensors vjp(Saved&, const Attrs&);               // one gradient per input, written in ops; undefined where not needed
//     static Cost cost(const Metas& in, const Attrs&);        // flops and bytes
//     static std::vector<Sample> samples(Rng&);               // conformance inputs, extremes and zero sizes included
//     static std::vector<BadSample> bad();                    // inputs that must throw, and the text expected
//   };
//   REGISTER_OP(Softmax);
//
// Optional members:
//   static int64_t scratch(const Metas& in, const Attrs&)     working space in bytes, given to the kernel (64-byte aligned)
//   static constexpr bool strided = true                      the kernel takes inputs of any strides (otherwise they come contiguous)
//   static Tensor view(const Tensor&, const Attrs&)           the output as a view of input 0, or undefined to fall back on the kernel
//   static Saves remade_from(int output, const Attrs&)        what making that output again reads, see recompute_ops.h; empty: it cannot be
//   static Tensor remake(Saved&, int output, const Attrs&)    makes it again, with the same bits, in memory of its own
//   static constexpr auto no_gradient = "reason"              instead of saves and vjp: backward through the op throws this reason
//   static constexpr auto no_second_order = "reason"          the vjp is not itself differentiable; backward(create_graph) throws this
//   static std::string_view no_second_order(const Attrs&)     the same where it depends on the attributes; empty: it is differentiable
#include <spool/tensor/ambient.h>
#include <spool/tensor/tensor.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spool {

class Saved;

/// Which inputs want a gradient.
struct Need {
  uint32_t mask = 0;
  bool operator()(int input) const { return (mask >> input) & 1; }
  bool any() const { return mask != 0; }
};

/// Which inputs, outputs and residuals backward may read: `Saves().input(0).output(0)`.
struct Saves {
  uint32_t inputs = 0, outputs = 0, residuals = 0;
  constexpr Saves input(int i, bool when = true) const { return {inputs | (uint32_t(when) << i), outputs, residuals}; }
  constexpr Saves output(int i, bool when = true) const { return {inputs, outputs | (uint32_t(when) << i), residuals}; }
  constexpr Saves residual(int i, bool when = true) const { return {inputs, outputs, residuals | (uint32_t(when) << i)}; }
  constexpr Saves operator|(const Saves& o) const { return {inputs | o.inputs, outputs | o.outputs, residuals | o.residuals}; }
  bool operator==(const Saves&) const = default;
};

/// What the shape rule returns. Residuals are extra results for backward (a norm's 1/σ); they are allocated only when saved.
struct Inferred {
  Metas outputs, residuals;
};

/// What a kernel works on. Undefined optional inputs stay undefined; residuals that nobody saves are undefined.
struct Kernel {
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> residuals;
  std::span<std::byte> scratch;
  const Tensor& in(int i) const { return inputs[size_t(i)]; }
  const Tensor& out(int i = 0) const { return outputs[size_t(i)]; }
  const Tensor& residual(int i) const { return residuals[size_t(i)]; }
  bool has(int i) const { return size_t(i) < inputs.size() && inputs[size_t(i)].defined(); }
  bool wants(int residual) const { return residuals[size_t(residual)].defined(); }
};

/// Work of one call: floating-point operations (a multiply-add counts two) and bytes that must move.
struct Cost {
  double flops = 0, bytes = 0;
};

using AttrsPtr = std::shared_ptr<const void>;

/// Random inputs for samples: f64 unless said otherwise, reproducible.
class Rng {
 public:
  explicit Rng(uint64_t seed) : generator_(seed) {}
  Tensor normal(const Shape& shape, double scale = 1);
  Tensor uniform(const Shape& shape, double low, double high);
  Tensor integers(const Shape& shape, int64_t low, int64_t high, Dtype dtype = Dtype::i64);  ///< In [low, high).
  Tensor booleans(const Shape& shape);
  Generator& generator() { return generator_; }

 private:
  Generator generator_;
};

/// One input set for the conformance run. Float inputs are f64; the harness converts them to the other float types.
struct Sample {
  std::string label;
  Tensors inputs;
  AttrsPtr attrs;             ///< Null: default attributes.
  bool check_gradient = true; ///< False where the function has a kink or the value is infinite.
  bool floats_only = false;   ///< True when the sample holds f32/f64 only (its extremes do not fit 16 bits).
};
struct BadSample {
  std::string label;
  Tensors inputs;
  AttrsPtr attrs;
  std::string expected;  ///< Text that the error message must contain.
};
template <class A>
AttrsPtr attrs_ptr(A attrs) { return std::make_shared<const A>(std::move(attrs)); }

/// The engine's view of an op.
struct OpInfo {
  std::string_view name;
  Inferred (*infer)(const Metas&, const void* attrs) = nullptr;
  Tensor (*view)(const Tensor&, const void* attrs) = nullptr;
  void (*cpu)(const Kernel&, const void* attrs) = nullptr;
  int64_t (*scratch)(const Metas&, const void* attrs) = nullptr;
  Saves (*saves)(Need, const void* attrs) = nullptr;
  Tensors (*vjp)(Saved&, const void* attrs) = nullptr;
  Saves (*remade_from)(int output, const void* attrs) = nullptr;  ///< Null, as `remake` is, when no output can be made again.
  Tensor (*remake)(Saved&, int output, const void* attrs) = nullptr;
  Cost (*cost)(const Metas&, const void* attrs) = nullptr;
  std::vector<Sample> (*samples)(Rng&) = nullptr;
  std::vector<BadSample> (*bad)() = nullptr;
  AttrsPtr (*share)(const void* attrs) = nullptr;  ///< A shared copy of the attributes, for the tape.
  AttrsPtr default_attrs;                          ///< Null when the attributes have no defaults.
  bool strided = false;
  std::string_view no_gradient;      ///< Why there is none; empty when there is one.
  std::string_view (*no_second_order)(const void* attrs) = nullptr;  ///< Why not; null or empty text when the vjp is differentiable.
};

template <class Op>
concept HasShapeRule = requires(const Metas& in, const typename Op::Attrs& attrs) { { Op::infer(in, attrs) } -> std::same_as<Inferred>; };
template <class Op>
concept HasKernel = requires(const Kernel& kernel, const typename Op::Attrs& attrs) { Op::cpu(kernel, attrs); };
template <class Op>
concept HasView = requires(const Tensor& t, const typename Op::Attrs& attrs) { { Op::view(t, attrs) } -> std::same_as<Tensor>; };
template <class Op>
concept HasSavesWithAttrs = requires(const typename Op::Attrs& attrs) { { Op::saves(Need{}, attrs) } -> std::same_as<Saves>; };
template <class Op>
concept HasSaves = HasSavesWithAttrs<Op> || requires { { Op::saves(Need{}) } -> std::same_as<Saves>; };
template <class Op>
concept HasVjp = requires(Saved& saved, const typename Op::Attrs& attrs) { { Op::vjp(saved, attrs) } -> std::same_as<Tensors>; };
template <class Op>
concept HasReasonForNoGradient = requires { std::string_view(Op::no_gradient); };
template <class Op>
concept HasCost = requires(const Metas& in, const typename Op::Attrs& attrs) { { Op::cost(in, attrs) } -> std::same_as<Cost>; };
template <class Op>
concept HasSamples = requires(Rng& rng) { { Op::samples(rng) } -> std::same_as<std::vector<Sample>>; };
template <class Op>
concept HasBadSamples = requires { { Op::bad() } -> std::same_as<std::vector<BadSample>>; };
/// A complete op.
template <class Op>
concept OpDefinition = requires { std::string_view(Op::name); typename Op::Attrs; } && (HasView<Op> || (HasShapeRule<Op> && HasKernel<Op>)) &&
                       (HasReasonForNoGradient<Op> || (HasSaves<Op> && HasVjp<Op>)) && HasCost<Op> && HasSamples<Op> && HasBadSamples<Op>;

/// The table of a complete op.
template <OpDefinition Op>
const OpInfo& op_info() {
  using Attrs = typename Op::Attrs;
  static const OpInfo info = [] {
    OpInfo op;
    op.name = Op::name;
    if constexpr (HasShapeRule<Op>) op.infer = [](const Metas& in, const void* a) { return Op::infer(in, *static_cast<const Attrs*>(a)); };
    if constexpr (HasKernel<Op>) op.cpu = [](const Kernel& k, const void* a) { Op::cpu(k, *static_cast<const Attrs*>(a)); };
    if constexpr (HasView<Op>) op.view = [](const Tensor& t, const void* a) { return Op::view(t, *static_cast<const Attrs*>(a)); };
    if constexpr (requires(const Metas& in, const Attrs& a) { { Op::scratch(in, a) } -> std::same_as<int64_t>; })
      op.scratch = [](const Metas& in, const void* a) { return Op::scratch(in, *static_cast<const Attrs*>(a)); };
    if constexpr (HasSavesWithAttrs<Op>) op.saves = [](Need need, const void* a) { return Op::saves(need, *static_cast<const Attrs*>(a)); };
    else if constexpr (HasSaves<Op>) op.saves = [](Need need, const void*) { return Op::saves(need); };
    if constexpr (HasVjp<Op>) op.vjp = [](Saved& s, const void* a) { return Op::vjp(s, *static_cast<const Attrs*>(a)); };
    if constexpr (requires(Saved& s, const Attrs& a) { Op::remake(s, 0, a); }) {
      op.remade_from = [](int output, const void* a) { return Op::remade_from(output, *static_cast<const Attrs*>(a)); };
      op.remake = [](Saved& s, int output, const void* a) { return Op::remake(s, output, *static_cast<const Attrs*>(a)); };
    }
    op.cost = [](const Metas& in, const void* a) { return Op::cost(in, *static_cast<const Attrs*>(a)); };
    op.samples = [](Rng& rng) { return Op::samples(rng); };
    op.bad = [] { return Op::bad(); };
    op.share = [](const void* a) -> AttrsPtr { return std::make_shared<const Attrs>(*static_cast<const Attrs*>(a)); };
    if constexpr (std::default_initializable<Attrs>) op.default_attrs = std::make_shared<const Attrs>();
    if constexpr (requires { Op::strided; }) op.strided = Op::strided;
    if constexpr (HasReasonForNoGradient<Op>) op.no_gradient = Op::no_gradient;
    if constexpr (requires { std::string_view(Op::no_second_order); }) op.no_second_order = [](const void*) { return std::string_view(Op::no_second_order); };
    else if constexpr (requires { Op::no_second_order; }) op.no_second_order = [](const void* a) { return std::string_view(Op::no_second_order(*static_cast<const Attrs*>(a))); };
    return op;
  }();
  return info;
}

/// All registered ops, sorted by name.
std::vector<const OpInfo*> registered_ops();
bool register_op(const OpInfo& op);  ///< Throws Error when the name is taken.
#define REGISTER_OP(Op) [[maybe_unused]] static const bool registered_##Op = ::spool::register_op(::spool::op_info<Op>())

/// Runs an op: checks devices, infers shapes, allocates outputs, residuals and scratch, calls the kernel (not on meta), records on the tape.
Tensors dispatch(const OpInfo& op, std::span<const Tensor> inputs, const void* attrs);

template <OpDefinition Op>
Tensors apply_all(std::span<const Tensor> inputs, const typename Op::Attrs& attrs = {}) {
  return dispatch(op_info<Op>(), inputs, &attrs);
}
template <OpDefinition Op>
Tensors apply_all(std::initializer_list<Tensor> inputs, const typename Op::Attrs& attrs = {}) {
  return dispatch(op_info<Op>(), {inputs.begin(), inputs.size()}, &attrs);
}
/// `apply<Softmax>({x}, {.axis = 0})`: the first output.
template <OpDefinition Op>
Tensor apply(std::initializer_list<Tensor> inputs, const typename Op::Attrs& attrs = {}) {
  return std::move(dispatch(op_info<Op>(), {inputs.begin(), inputs.size()}, &attrs)[0]);
}

/// All inputs must have this op's one float type; returns it. Throws DtypeError that names both and says how to convert.
Dtype same_float(std::string_view op, const Metas& in);

}  // namespace spool
