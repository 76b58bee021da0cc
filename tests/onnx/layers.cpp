// Products, norms, windows and losses.
#include "translate.h"

namespace spool::onnx_test {
namespace {

using V = const Vector&;

Tensors gemm(V v) {
  const Tensor product = matmul(v.in(0), v.in(1), {.transpose_a = v.attributes.integer("transA") != 0, .transpose_b = v.attributes.integer("transB") != 0}) * v.attributes.number("alpha", 1);
  return {v.has(2) ? product + v.in(2) * v.attributes.number("beta", 1) : product};
}

Tensors layer_norm_over(V v) {
  const int axis = normalize_axis("layer_norm", axis_of(v, -1), v.in().shape());
  const double eps = v.attributes.number("epsilon", 1e-5);
  std::vector<int> axes;
  for (int i = axis; i < v.in().dims(); ++i) axes.push_back(i);
  const Tensor y = layer_norm(flatten(v.in(), axis), flatten(v.in(1)), v.has(2) ? flatten(v.in(2)) : Tensor(), eps);
  return {reshape(y, v.in().shape()), mean(v.in(), axes, true), rsqrt(var(v.in(), axes, true, 0) + eps)};
}

/// Per channel, along axis 1.
Tensor by_channel(const Tensor& values, const Tensor& x) {
  Shape shape(x.dims(), 1);
  shape[1] = values.numel();
  return reshape(values, shape);
}
Tensors batch_norm(V v) {
  const Tensor& x = v.in();
  const double eps = v.attributes.number("epsilon", 1e-5), momentum = v.attributes.number("momentum", 0.9);
  Tensor center = v.in(3), spread = v.in(4);
  Tensors running;
  if (v.attributes.integer("training_mode")) {
    std::vector<int> axes = {0};
    for (int i = 2; i < x.dims(); ++i) axes.push_back(i);
    const Tensor m = mean(x, axes), s = var(x, axes, false, 0);
    running = {center * momentum + m * (1 - momentum), spread * momentum + s * (1 - momentum)};
    center = m;
    spread = s;
  }
  Tensors all = {(x - by_channel(center, x)) * by_channel(rsqrt(spread + eps) * v.in(1), x) + by_channel(v.in(2), x)};
  all.insert(all.end(), running.begin(), running.end());
  return all;
}
Tensors mean_variance(V v) {
  const Axes axes = {0, 2, 3};
  return {(v.in() - mean(v.in(), axes, true)) / (sqrt(var(v.in(), axes, true, 0)) + 1e-9)};
}
Tensors local_response(V v) {
  const int64_t size = v.attributes.integer("size");
  const Tensor squares = unfold(pad(square(v.in()), {{0, 0}, {(size - 1) / 2, size / 2}, {0, 0}, {0, 0}}), 1, size, 1);
  return {v.in() / pow(sum(squares, -1) * (v.attributes.number("alpha", 1e-4) / double(size)) + v.attributes.number("bias", 1), v.attributes.number("beta", 0.75))};
}

/// Windows over the axes from 2 on, as axes of their own at the end: x padded with `value`, then unfolded axis by axis.
Tensor windows(const Tensor& x, V v, const std::vector<int64_t>& kernel, double value) {
  const auto pads = v.attributes.integers("pads"), strides = v.attributes.integers("strides");
  std::vector<PadWidth> widths(2);
  for (size_t i = 0; i < kernel.size(); ++i) widths.push_back(pads.empty() ? PadWidth{0, 0} : PadWidth{pads[i], pads[i + kernel.size()]});
  Tensor y = pad(x, widths, {.value = value});
  for (size_t i = 0; i < kernel.size(); ++i) y = unfold(y, int(i) + 2, kernel[i], strides.empty() ? 1 : strides[i]);
  return y;
}
Axes last(size_t n) {
  Axes axes;
  for (size_t i = n; i > 0; --i) axes.push_back(-int64_t(i));
  return axes;
}
Tensors average_pool(V v) {
  const auto kernel = v.attributes.integers("kernel_shape");
  const Axes window = last(kernel.size());
  const bool padding_counts = v.attributes.integer("count_include_pad") != 0;
  const Tensor counts = sum(windows(ones(v.in().shape()), v, kernel, padding_counts ? 1 : 0), window);
  return {sum(windows(v.in(), v, kernel, 0), window) / counts};
}
Tensors max_pool(V v) {
  const auto kernel = v.attributes.integers("kernel_shape");
  const bool integers = !is_float(v.in().dtype());
  return {amax(windows(v.in(), v, kernel, integers ? 0 : -std::numeric_limits<double>::infinity()), last(kernel.size()))};
}
Tensors convolution(V v) {
  const auto kernel = std::vector<int64_t>{v.in(1).size(2), v.in(1).size(3)};
  return {einsum("nchwij,mcij->nmhw", {windows(v.in(), v, kernel, 0), v.in(1)})};
}

/// Only without a random mask: out of training, or where nothing is dropped.
Tensors kept(V v) { return {v.in(), v.outputs.size() > 1 ? full(v.in().shape(), 1, Dtype::boolean) : Tensor()}; }

Reduction reduction_of(V v) {
  const std::string text = v.attributes.text("reduction", "mean");
  return text == "sum" ? Reduction::sum : text == "none" ? Reduction::none : Reduction::mean;
}
/// Classes stand on axis 1 there and last here.
Tensor classes_last(const Tensor& x) {
  Dims order = {0};
  for (int i = 2; i < x.dims(); ++i) order.push_back(i);
  order.push_back(1);
  return permute(x, order);
}
/// `loss(options)` without weights of classes, or weighted: each row's loss by its class's weight, the mean by the sum of the weights.
template <class F>
Tensor weighted(V v, F&& loss) {
  constexpr int64_t nothing = -100;
  const int64_t ignored = v.attributes.integer("ignore_index", nothing);
  if (!v.has(2)) return loss(CrossEntropyOptions{.reduction = reduction_of(v), .ignore_index = ignored});
  const Tensor rows = loss(CrossEntropyOptions{.reduction = Reduction::none, .ignore_index = ignored});
  const Tensor skip = equal(v.in(1), double(ignored)), classes = where(skip, zeros(v.in(1).shape(), v.in(1).dtype()), v.in(1));
  const Tensor weight = masked_fill(reshape(index_select(v.in(2), 0, flatten(classes)), rows.shape()), skip, 0), scaled = rows * weight;
  switch (reduction_of(v)) {
    case Reduction::none: return scaled;
    case Reduction::sum: return sum(scaled);
    default: return sum(scaled) / sum(weight);
  }
}
Tensors negative_log_likelihood(V v) {
  return {weighted(v, [&](const CrossEntropyOptions& options) { return nll_loss(classes_last(v.in(0)), v.in(1), NllOptions{.reduction = options.reduction, .ignore_index = options.ignore_index}); })};
}
Tensors softmax_cross_entropy(V v) {
  const Tensor loss = weighted(v, [&](const CrossEntropyOptions& options) { return cross_entropy(classes_last(v.in(0)), v.in(1), options); });
  return {loss, v.outputs.size() > 1 ? log_softmax(v.in(0), 1) : Tensor()};
}

[[maybe_unused]] const bool added = add_translations({
    {"MatMul", [](V v) { return Tensors{matmul(v.in(0), v.in(1))}; }},
    {"Gemm", gemm},
    {"Einsum", [](V v) { return Tensors{einsum(v.attributes.text("equation"), v.inputs)}; }},
    {"LayerNormalization", layer_norm_over},
    {"InstanceNormalization", [](V v) { return Tensors{group_norm(v.in(0), v.in(0).size(1), v.in(1), v.in(2), v.attributes.number("epsilon", 1e-5))}; }},
    {"BatchNormalization", batch_norm},
    {"MeanVarianceNormalization", mean_variance},
    {"LRN", local_response},
    {"AveragePool", average_pool},
    {"MaxPool", max_pool},
    {"Conv", convolution},
    {"Dropout", kept},
    {"NegativeLogLikelihoodLoss", negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
});

}  // namespace
}  // namespace spool::onnx_test
