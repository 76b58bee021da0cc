// Elementwise ops and their fused backward passes.
#include "reference.h"

#include <limits>

namespace spool::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double pi = 3.141592653589793238;

double sign(double x) { return std::isnan(x) ? nan : double(x > 0) - double(x < 0); }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh_of(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x))); }
double round_even(double x) { return std::nearbyint(x); }
double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? nan : a > b ? a : b; }
double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? nan : a < b ? a : b; }

[[maybe_unused]] const bool functions = add_references({
    {"neg", elementwise([](double x) { return -x; })},
    {"abs", elementwise([](double x) { return std::fabs(x); })},
    {"sign", elementwise(sign)},
    {"square", elementwise([](double x) { return x * x; })},
    {"exp", elementwise([](double x) { return std::exp(x); })},
    {"expm1", elementwise([](double x) { return std::expm1(x); })},
    {"log", elementwise([](double x) { return std::log(x); })},
    {"log1p", elementwise([](double x) { return std::log1p(x); })},
    {"sqrt", elementwise([](double x) { return std::sqrt(x); })},
    {"rsqrt", elementwise([](double x) { return 1 / std::sqrt(x); })},
    {"reciprocal", elementwise([](double x) { return 1 / x; })},
    {"sin", elementwise([](double x) { return std::sin(x); })},
    {"cos", elementwise([](double x) { return std::cos(x); })},
    {"tanh", elementwise([](double x) { return std::tanh(x); })},
    {"erf", elementwise([](double x) { return std::erf(x); })},
    {"floor", elementwise([](double x) { return std::floor(x); }, 0)},
    {"ceil", elementwise([](double x) { return std::ceil(x); }, 0)},
    {"round", elementwise(round_even, 0)},
    {"relu", elementwise([](double x) { return std::isnan(x) ? nan : x > 0 ? x : 0; })},
    {"sigmoid", elementwise(sigmoid_of)},
    {"softplus", elementwise([](double x) { return x > 30 ? x : std::log1p(std::exp(x)); })},
    {"log_sigmoid", elementwise([](double x) { return x < -30 ? x : -std::log1p(std::exp(-x)); })},
    {"silu", elementwise([](double x) { return x * sigmoid_of(x); })},
    {"gelu_erf", elementwise([](double x) { return x * normal_cdf(x); })},
    {"gelu_tanh", elementwise(gelu_tanh_of)},
    {"add", elementwise([](double a, double b) { return a + b; })},
    {"sum_gradients", elementwise([](double a, double b) { return a + b; })},
    {"sub", elementwise([](double a, double b) { return a - b; })},
    {"mul", elementwise([](double a, double b) { return a * b; })},
    {"div", elementwise([](double a, double b) { return a / b; })},
    {"pow", elementwise([](double a, double b) { return std::pow(a, b); })},
    {"maximum", elementwise(larger)},
    {"minimum", elementwise(smaller)},
    {"equal", elementwise([](double a, double b) { return double(a == b); }, 0)},
    {"not_equal", elementwise([](double a, double b) { return double(a != b); }, 0)},
    {"less", elementwise([](double a, double b) { return double(a < b); }, 0)},
    {"less_equal", elementwise([](double a, double b) { return double(a <= b); }, 0)},
    {"greater", elementwise([](double a, double b) { return double(a > b); }, 0)},
    {"greater_equal", elementwise([](double a, double b) { return double(a >= b); }, 0)},
    {"logical_and", elementwise([](double a, double b) { return double(a != 0 && b != 0); }, 0)},
    {"logical_or", elementwise([](double a, double b) { return double(a != 0 || b != 0); }, 0)},
    {"logical_not", elementwise([](double a) { return double(a == 0); }, 0)},
    {"isnan", elementwise([](double a) { return double(std::isnan(a)); }, 0)},
    {"isfinite", elementwise([](double a) { return double(std::isfinite(a)); }, 0)},
});

/// The function with its attributes through the public name, on numbers drawn from [low, high].
Reference called(Tensor (*f)(const Tensor&), double (*naive)(double), double low = -3, double high = 3) {
  return [=](Comparison& c) {
    const Tensor x = c.rng().uniform({3, 41}, low, high);
    Array expected(x);
    for (double& value : expected.values) value = naive(value);
    c.expect("value", f(x), expected);
  };
}
/// Its gradient: cotangent · derivative(x).
Reference slope(Tensor (*f)(const Tensor&), double (*derivative)(double), double low = -3, double high = 3) {
  return [=](Comparison& c) {
    const Tensor x = c.rng().uniform({3, 41}, low, high), u = c.rng().normal({3, 41});
    Array expected(x);
    const Numbers weights = u.to_vector<double>();
    for (size_t i = 0; i < expected.values.size(); ++i) expected.values[i] = weights[i] * derivative(expected.values[i]);
    c.expect("gradient", gradients_of([&](const Tensors& in) { return Tensors{f(in[0])}; }, {x}, {u})[0], expected);
  };
}

double gelu_slope(double x) { return normal_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * pi); }
double gelu_tanh_slope(double x) {
  const double c = std::sqrt(2 / pi), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}
double silu_slope(double x) { return sigmoid_of(x) * (1 + x * (1 - sigmoid_of(x))); }

[[maybe_unused]] const bool with_numbers = add_references({
    {"leaky_relu", called([](const Tensor& x) { return leaky_relu(x, 0.3); }, [](double x) { return x > 0 ? x : 0.3 * x; })},
    {"elu", called([](const Tensor& x) { return elu(x, 1.5); }, [](double x) { return x > 0 ? x : 1.5 * (std::exp(x) - 1); })},
    {"add_scalar", called([](const Tensor& x) { return x + 0.7; }, [](double x) { return x + 0.7; })},
    {"rsub_scalar", called([](const Tensor& x) { return 0.7 - x; }, [](double x) { return 0.7 - x; })},
    {"mul_scalar", called([](const Tensor& x) { return 0.7 * x; }, [](double x) { return x * 0.7; })},
    {"div_scalar", called([](const Tensor& x) { return x / 0.7; }, [](double x) { return x / 0.7; })},
    {"pow_scalar", called([](const Tensor& x) { return pow(x, 1.7); }, [](double x) { return std::pow(x, 1.7); }, 0.1, 4)},
    {"clamp", called([](const Tensor& x) { return clamp(x, -0.4, 1.6); }, [](double x) { return x < -0.4 ? -0.4 : x > 1.6 ? 1.6 : x; })},
});

[[maybe_unused]] const bool slopes = add_references({
    {"abs_backward", slope(abs, sign)},
    {"square_backward", slope(square, [](double x) { return 2 * x; })},
    {"expm1_backward", slope(expm1, [](double x) { return std::exp(x); })},
    {"log1p_backward", slope(log1p, [](double x) { return 1 / (1 + x); }, -0.8, 4)},
    {"sqrt_backward", slope(sqrt, [](double x) { return 0.5 / std::sqrt(x); }, 0.1, 4)},
    {"rsqrt_backward", slope(rsqrt, [](double x) { return -0.5 * std::pow(x, -1.5); }, 0.1, 4)},
    {"reciprocal_backward", slope(reciprocal, [](double x) { return -1 / (x * x); }, 0.2, 4)},
    {"sin_backward", slope(sin, [](double x) { return std::cos(x); })},
    {"cos_backward", slope(cos, [](double x) { return -std::sin(x); })},
    {"tanh_backward", slope(tanh, [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); })},
    {"erf_backward", slope(erf, [](double x) { return 2 / std::sqrt(pi) * std::exp(-x * x); })},
    {"relu_backward", slope(relu, [](double x) { return double(x > 0); })},
    {"leaky_relu_backward", slope([](const Tensor& x) { return leaky_relu(x, 0.3); }, [](double x) { return x > 0 ? 1 : 0.3; })},
    {"elu_backward", slope([](const Tensor& x) { return elu(x, 1.5); }, [](double x) { return x > 0 ? 1 : 1.5 * std::exp(x); })},
    {"sigmoid_backward", slope(sigmoid, [](double x) { return sigmoid_of(x) * (1 - sigmoid_of(x)); })},
    {"softplus_backward", slope(softplus, sigmoid_of)},
    {"log_sigmoid_backward", slope(log_sigmoid, [](double x) { return sigmoid_of(-x); })},
    {"silu_backward", slope(silu, silu_slope)},
    {"gelu_erf_backward", slope([](const Tensor& x) { return gelu(x, Gelu::erf); }, gelu_slope)},
    {"gelu_tanh_backward", slope([](const Tensor& x) { return gelu(x, Gelu::tanh); }, gelu_tanh_slope)},
    {"pow_scalar_backward", slope([](const Tensor& x) { return pow(x, 1.7); }, [](double x) { return 1.7 * std::pow(x, 0.7); }, 0.1, 4)},
    {"clamp_backward", slope([](const Tensor& x) { return clamp(x, -0.4, 1.6); }, [](double x) { return double(x >= -0.4 && x <= 1.6); })},
});

std::vector<Array> larger_share(const std::vector<Array>& in) {
  Array out = in[0];
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] *= in[1].values[i] > in[2].values[i] ? 1 : in[1].values[i] < in[2].values[i] ? 0 : 0.5;
  return {out};
}
std::vector<Array> where_of(const std::vector<Array>& in) {
  Array out = in[1];
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = in[0].values[i] != 0 ? in[1].values[i] : in[2].values[i];
  return {out};
}

void masked_fill_of(Comparison& c) {
  const Tensor x = c.rng().normal({4, 9}), mask = c.rng().booleans({4, 9});
  Array expected(x);
  const auto masked = mask.to_vector<bool>();
  for (size_t i = 0; i < masked.size(); ++i)
    if (masked[i]) expected.values[i] = -7.25;
  c.expect("value", masked_fill(x, mask, -7.25), expected, 0);
}

void cast_of(Comparison& c) {
  const Tensor x = c.rng().normal({5, 7}, 100);
  Array single(x), whole(x), truth(x);
  for (double& value : single.values) value = double(float(value));
  for (double& value : whole.values) value = std::trunc(value);
  for (double& value : truth.values) value = value != 0;
  c.expect("f32", cast(x, Dtype::f32), single, 0);
  c.expect("i32", cast(x, Dtype::i32), whole, 0);
  c.expect("i64", cast(x, Dtype::i64), whole, 0);
  c.expect("bool", cast(x, Dtype::boolean), truth, 0);
  c.expect("bool of zero", cast(zeros({2}), Dtype::boolean), Numbers{0, 0}, 0);
}

[[maybe_unused]] const bool choices = add_references({
    {"larger_share", of_samples(larger_share)},
    {"where", of_samples(where_of, 0)},
    {"masked_fill", masked_fill_of},
    {"cast", cast_of},
});

}  // namespace
}  // namespace spool::test
