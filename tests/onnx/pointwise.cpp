// Elementwise nodes.
#include "translate.h"

#include <cmath>
#include <limits>

namespace spool::onnx_test {
namespace {

using V = const Vector&;
constexpr double inf = std::numeric_limits<double>::infinity();

/// f over all inputs from left to right.
Translation folded(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](V v) {
    Tensor total = v.in(0);
    for (size_t i = 1; i < v.inputs.size(); ++i) total = f(total, v.in(i));
    return Tensors{total};
  };
}
Tensor mean_of(const Tensor& a, const Vector& v) { return div_scalar(a, double(v.inputs.size())); }

Tensors clip(V v) {
  const bool integers = !is_float(v.in().dtype());
  const double low = v.has(1) ? v.in(1).item() : integers ? double(std::numeric_limits<int32_t>::min()) : -inf;
  const double high = v.has(2) ? v.in(2).item() : integers ? double(std::numeric_limits<int32_t>::max()) : inf;
  return {clamp(v.in(), low, high)};
}
/// Types of base and exponent may differ; the result has the base's.
Tensors power(V v) { return {pow(v.in(0), cast(v.in(1), v.in(0).dtype()))}; }
Tensors is_inf(V v) {
  const bool up = v.attributes.integer("detect_positive", 1) != 0, down = v.attributes.integer("detect_negative", 1) != 0;
  const Tensor none = logical_and(equal(v.in(), 1), equal(v.in(), 0));
  return {logical_or(up ? equal(v.in(), inf) : none, down ? equal(v.in(), -inf) : none)};
}
Tensors cast_to(V v) {
  static const std::map<int64_t, Dtype> types = {{1, Dtype::f32}, {10, Dtype::f16}, {11, Dtype::f64}, {16, Dtype::bf16}};
  return {cast(v.in(), types.at(v.attributes.integer("to")))};
}
Tensors shrink(V v) {
  const double bias = v.attributes.number("bias"), lambda = v.attributes.number("lambd", 0.5);
  const Tensor& x = v.in();
  return {where(less(x, -lambda), x + bias, where(greater(x, lambda), x - bias, 0.0))};
}
Tensors thresholded(V v) { return {where(greater(v.in(), v.attributes.number("alpha", 1)), v.in(), 0.0)}; }
Tensor hard_sigmoid(const Tensor& x, double alpha, double beta) { return clamp(x * alpha + beta, 0, 1); }
/// x − y·floor(x/y), whose sign is y's; fmod's is x's.
Tensors modulo(V v) {
  const Tensor &x = v.in(0), &y = v.in(1), q = x / y;
  const Tensor whole = v.attributes.integer("fmod") ? sign(q) * floor(abs(q)) : floor(q);
  return {x - y * whole};
}

[[maybe_unused]] const bool added = add_translations({
    {"Abs", one(abs)},
    {"Ceil", one(ceil)},
    {"Cos", one(cos)},
    {"Erf", one(erf)},
    {"Exp", one(exp)},
    {"Floor", one(floor)},
    {"Identity", [](V v) { return Tensors{v.in()}; }},
    {"IsNaN", one(isnan)},
    {"Log", one(log)},
    {"Neg", one(neg)},
    {"Not", one(logical_not)},
    {"Reciprocal", one(reciprocal)},
    {"Relu", one(relu)},
    {"Round", one(round)},
    {"Sigmoid", one(sigmoid)},
    {"Sign", one(sign)},
    {"Sin", one(sin)},
    {"Softplus", one(softplus)},
    {"Sqrt", one(sqrt)},
    {"Tanh", one(tanh)},
    {"Tan", [](V v) { return Tensors{sin(v.in()) / cos(v.in())}; }},
    {"Sinh", [](V v) { return Tensors{(expm1(v.in()) - expm1(-v.in())) * 0.5}; }},
    {"Cosh", [](V v) { return Tensors{(exp(v.in()) + exp(-v.in())) * 0.5}; }},
    {"Softsign", [](V v) { return Tensors{v.in() / (abs(v.in()) + 1)}; }},
    {"Add", two(add)},
    {"Sub", two(sub)},
    {"Mul", two(mul)},
    {"Div", two(div)},
    {"Pow", power},
    {"Mod", modulo},
    {"Sum", folded(add)},
    {"Max", folded(maximum)},
    {"Min", folded(minimum)},
    {"Mean", [](V v) { return Tensors{mean_of(folded(add)(v)[0], v)}; }},
    {"And", two(logical_and)},
    {"Or", two(logical_or)},
    {"Xor", two(not_equal)},
    {"Equal", two(equal)},
    {"Less", two(less)},
    {"LessOrEqual", two(less_equal)},
    {"Greater", two(greater)},
    {"GreaterOrEqual", two(greater_equal)},
    {"Where", [](V v) { return Tensors{where(v.in(0), v.in(1), v.in(2))}; }},
    {"IsInf", is_inf},
    {"Clip", clip},
    {"Cast", cast_to},
    {"CastLike", [](V v) { return Tensors{cast(v.in(0), v.in(1).dtype())}; }},
    {"LeakyRelu", [](V v) { return Tensors{leaky_relu(v.in(), v.attributes.number("alpha", 0.01))}; }},
    {"PRelu", [](V v) { return Tensors{where(greater(v.in(0), 0), v.in(0), v.in(0) * v.in(1))}; }},
    {"Elu", [](V v) { return Tensors{elu(v.in(), v.attributes.number("alpha", 1))}; }},
    {"Celu", [](V v) { return Tensors{elu(v.in() / v.attributes.number("alpha", 1)) * v.attributes.number("alpha", 1)}; }},
    {"Selu", [](V v) { return Tensors{elu(v.in(), v.attributes.number("alpha", 1.67326319217681884765625)) * v.attributes.number("gamma", 1.05070102214813232421875)}; }},
    {"HardSigmoid", [](V v) { return Tensors{hard_sigmoid(v.in(), v.attributes.number("alpha", 0.2), v.attributes.number("beta", 0.5))}; }},
    {"HardSwish", [](V v) { return Tensors{v.in() * hard_sigmoid(v.in(), 1.0 / 6, 0.5)}; }},
    {"ThresholdedRelu", thresholded},
    {"Shrink", shrink},
});

}  // namespace
}  // namespace spool::onnx_test
