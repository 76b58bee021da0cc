#pragma once
// What the conformance checks share: an op's samples, running it, the same values under other strides, types and sizes, and comparing.
#include <spool/spool.h>

#include <optional>
#include <string>
#include <vector>

namespace spool::test {

/// The op's samples, the same in every call.
std::vector<Sample> samples_of(const OpInfo& op);
/// The sample's attributes, or the op's default ones.
const void* attrs_of(const OpInfo& op, const Sample& sample);
Tensors run(const OpInfo& op, const Sample& sample, const Tensors& inputs);
inline Tensors run(const OpInfo& op, const Sample& sample) { return run(op, sample, sample.inputs); }

/// Inputs that can want a gradient, as a mask; those masks that the checks try: all, and each subset when there are few.
uint32_t float_inputs(const Tensors& inputs);
std::vector<uint32_t> need_masks(const Tensors& inputs);
/// Fresh handles to the same elements; those in the mask require a gradient.
Tensors leaves(const Tensors& inputs, uint32_t mask);
/// Random cotangents for the float outputs, undefined for the others.
Tensors cotangents_for(const Tensors& outputs, uint64_t seed = 7);

struct Gradients {
  Tensors outputs;    ///< All outputs.
  Tensors gradients;  ///< One per input.
};
/// Runs the op forward and backward. `cotangents` of the outputs: random ones when empty. Inputs in `mask` want gradients.
Gradients run_backward(const OpInfo& op, const Sample& sample, const Tensors& inputs, uint32_t mask, const Tensors& cotangents = {});
/// Those outputs that a gradient can start from, with their cotangents.
void only_floats(Tensors& outputs, Tensors& cotangents);

/// Ways to lay out the same elements.
enum class Layout { offset, transposed, stepped, reversed };
inline constexpr Layout layouts[] = {Layout::offset, Layout::transposed, Layout::stepped, Layout::reversed};
const char* layout_name(Layout layout);
Tensor laid_out(const Tensor& t, Layout layout);
Tensors laid_out(const Tensors& tensors, Layout layout);

/// Each float tensor's first element in all places, as `expand` makes it: strides 0.
Tensors spread(const Tensors& tensors);
/// Each tensor's first element as a 0-d tensor; tensors of nothing as they are.
Tensors scalars(const Tensors& tensors);

/// Float tensors converted to `dtype`, the rest as they are.
Tensors converted(const Tensors& tensors, Dtype dtype);
/// Axes of size `from` become `to` long in all inputs, elements repeating.
Tensors resized(const Tensors& tensors, int64_t from, int64_t to);
/// The sample with one of its sizes raised, so that its largest tensor has at least `elements`. None when the op takes no such inputs.
std::optional<Tensors> enlarged(const OpInfo& op, const Sample& sample, int64_t elements);
/// The sample's inputs; the same under `layout`; and enlarged ones when there are some.
std::vector<Tensors> variants_of(const OpInfo& op, const Sample& sample, int64_t elements, std::optional<Layout> layout = {});

/// Elements of all inputs together.
int64_t elements_of(const Tensors& inputs);

/// Empty, or where two tensors differ. NaN equals NaN whatever its bits.
std::string bit_difference(const Tensor& a, const Tensor& b);
std::string bit_difference(const Tensors& a, const Tensors& b);
/// Empty, or the first element with |a − b| > tolerance·max(floor, |b|). Infinities and NaN must agree.
std::string difference(const std::vector<double>& a, const std::vector<double>& b, double tolerance, double floor = 1);
std::string difference(const Tensor& a, const Tensor& b, double tolerance, double floor = 1);

/// "sample 'ragged' (f64[3, 5], f64[5])".
std::string describe(const Sample& sample);
std::string describe(const Sample& sample, const Tensors& inputs);
/// The op has a gradient rule.
inline bool differentiable(const OpInfo& op) { return op.no_gradient.empty(); }

}  // namespace spool::test
