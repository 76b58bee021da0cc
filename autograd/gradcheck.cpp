#include <spool/autograd/gradcheck.h>
#include <spool/autograd/op.h>
#include <spool/autograd/tape.h>
#include <spool/tensor/error.h>
#include <spool/tensor/copy.h>

#include <cmath>

namespace spool {
namespace {

double weighted(const Tensors& outputs, const Tensors& weights) {
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_float(outputs[i].dtype())) continue;
    const auto y = outputs[i].to_vector<double>(), u = weights[i].to_vector<double>();
    for (size_t k = 0; k < y.size(); ++k) sum += u[k] * y[k];
  }
  return sum;
}

}  // namespace

GradcheckResult gradcheck(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs, const GradcheckOptions& options) {
  Rng rng(options.seed);
  Tensors leaves;
  for (const Tensor& input : inputs) {
    const bool wanted = input.defined() && input.requires_grad();
    if (wanted && input.dtype() != Dtype::f64) fail<DtypeError>("gradcheck: inputs must be f64, got ", meta_of(input));
    leaves.push_back(wanted ? contiguous_copy(input).requires_grad(true) : input);
  }
  Tensors weights, gradients;
  {
    Tape tape;
    Tensors outputs = f(leaves), differentiable, cotangents;
    for (const Tensor& output : outputs) {
      weights.push_back(rng.normal(output.shape()));
      if (!is_recorded(output)) continue;
      differentiable.push_back(output);
      cotangents.push_back(weights.back());
    }
    gradients = tape.gradient(differentiable, leaves, cotangents);
  }
  GradcheckResult result;
  double scale = 1;
  for (const Tensor& g : gradients)
    if (g.defined()) for (double value : g.to_vector<double>()) scale = std::max(scale, std::fabs(value));
  const NoGrad quiet;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].defined() || !leaves[i].requires_grad()) continue;
    auto* x = leaves[i].data<double>();
    const int64_t n = leaves[i].numel(), tried = std::min(n, options.max_elements);
    const auto analytic = gradients[i].defined() ? gradients[i].to_vector<double>() : std::vector<double>(size_t(n));
    for (int64_t t = 0; t < tried; ++t) {
      const int64_t k = tried == n ? t : rng.generator().integer(0, n);
      const double at = x[k], h = options.step * std::max(1.0, std::fabs(at));
      const auto value = [&](double shift) {
        x[k] = at + shift * h;
        return weighted(f(leaves), weights);
      };
      const double numeric = (8 * (value(1) - value(-1)) - (value(2) - value(-2))) / (12 * h);
      x[k] = at;
      const double error = std::fabs(numeric - analytic[size_t(k)]) / scale;
      if (!(error <= result.error)) {
        result.error = std::isnan(error) ? INFINITY : error;
        result.worst = concat("input ", i, " element ", k, ": rule ", analytic[size_t(k)], ", differences ", numeric);
      }
    }
  }
  return result;
}

}  // namespace spool
