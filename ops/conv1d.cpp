#include <spool/autograd/saved.h>
#include <spool/ops/conv1d.h>
#include <spool/ops/cpu/conv1d.h>
#include <spool/ops/reduce.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool {
namespace {

using kernels::Conv1dPart;
using kernels::Conv1dSizes;

/// The options with causal worked out. The gradients of input and weight also need to be told their length.
struct Conv1dAttrs {
  int64_t stride = 1, left = 0, right = 0, dilation = 1, groups = 1;
  int64_t length = 0, kernel = 1;
};

constexpr int64_t most = int64_t(1) << 31;  // keeps positions from overflowing

Conv1dSizes sizes_of(std::string_view op, const Shape& x, const Shape& weight, const Conv1dAttrs& a) {
  if (x.size() != 3 || weight.size() != 3) fail<ShapeError>(op, ": needs x [batch, in, length] and weight [out, in/groups, kernel], got ", x, " and ", weight);
  const auto bounded = [&](const char* what, int64_t value, int64_t least) {
    if (value < least || value > most) fail<ConfigError>(op, ": ", what, " must be in [", least, ", ", most, "], got ", value);
  };
  bounded("stride", a.stride, 1);
  bounded("dilation", a.dilation, 1);
  bounded("padding", a.left, 0);
  bounded("padding", a.right, 0);
  bounded("kernel", weight[2], 1);
  bounded("groups", a.groups, 1);
  if (x[1] % a.groups || weight[0] % a.groups) fail<ConfigError>(op, ": ", a.groups, " groups divide ", x[1], " input or ", weight[0], " output channels unevenly");
  if (weight[1] != x[1] / a.groups)
    fail<ShapeError>(op, ": weight ", weight, " does not fit x ", x, ": ", x[1] / a.groups, " channels a group, the weight has ", weight[1]);
  const int64_t reach = a.dilation * (weight[2] - 1) + 1, padded = x[2] + a.left + a.right;
  if (padded < reach && !(x[2] == 0 && padded == reach - 1))
    fail<ShapeError>(op, ": the kernel reaches over ", reach, " elements, x ", x, " has ", padded, " with its padding");
  return {.batch = x[0], .in = x[1], .length = x[2], .out = weight[0], .kernel = weight[2], .out_length = padded < reach ? 0 : (padded - reach) / a.stride + 1,
          .stride = a.stride, .left = a.left, .dilation = a.dilation, .groups = a.groups};
}

void check_gradient(std::string_view op, const Shape& dy, const Conv1dSizes& z) {
  const Shape expected{z.batch, z.out, z.out_length};
  if (dy != expected) fail<ShapeError>(op, ": gradient ", dy, " does not fit a result of ", expected);
}

double flops(const Conv1dSizes& z) { return 2.0 * double(z.batch) * double(z.out) * double(z.out_length) * double(z.group_in()) * double(z.kernel); }

Tensor input_gradient(const Tensor& dy, const Tensor& weight, Conv1dAttrs attrs, int64_t length);
Tensor weight_gradient(const Tensor& dy, const Tensor& x, Conv1dAttrs attrs, int64_t kernel);
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dAttrs& attrs);

struct Conv1d {
  static constexpr auto name = "conv1d";
  using Attrs = Conv1dAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Dtype dtype = same_float(name, in);
    const Conv1dSizes z = sizes_of(name, in[0].shape, in[1].shape, attrs);
    if (in[2].defined && in[2].shape != Shape{z.out}) fail<ShapeError>(name, ": bias ", in[2].shape, " does not fit weight ", in[1].shape);
    return {{{{z.batch, z.out, z.out_length}, dtype, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) {
    return kernels::conv1d_scratch(sizes_of(name, in[0].shape, in[1].shape, attrs), in[0].dtype, Conv1dPart::forward);
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    kernels::conv1d_forward(sizes_of(name, k.in(0).shape(), k.in(1).shape(), attrs), k.in(0), k.in(1), k.has(2) ? k.in(2) : Tensor(), k.out(), k.scratch);
  }
  static Saves saves(Need need) { return Saves().input(0, need(1)).input(1, need(0)); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensors out(3);
    const Tensor dy = s.grad();
    if (s.needs(0)) out[0] = input_gradient(dy, s.input(1), attrs, s.in_meta(0).shape[2]);
    if (s.needs(1)) out[1] = weight_gradient(dy, s.input(0), attrs, s.in_meta(1).shape[2]);
    if (s.needs(2)) out[2] = sum(dy, {0, 2});
    return out;
  }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    const Conv1dSizes z = sizes_of(name, in[0].shape, in[1].shape, attrs);
    return {flops(z), double(in[0].nbytes() + in[1].nbytes()) + double(z.batch * z.out * z.out_length) * double(dtype_size(in[0].dtype))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    const auto sample = [&](const char* label, Shape x, Shape weight, Attrs attrs) {
      return Sample{label, {rng.normal(x), rng.normal(weight), rng.normal({weight[0]})}, attrs_ptr(attrs)};
    };
    std::vector<Sample> out{
        sample("plain", {2, 3, 11}, {5, 3, 4}, {}),
        sample("stride, dilation, padding", {2, 4, 13}, {3, 4, 3}, {.stride = 3, .left = 2, .right = 1, .dilation = 2}),
        sample("groups", {2, 6, 9}, {4, 3, 3}, {.left = 1, .right = 1, .groups = 2}),
        sample("groups, stride", {1, 4, 10}, {6, 2, 2}, {.stride = 2, .right = 3, .groups = 2}),
        sample("depthwise", {2, 3, 17}, {3, 1, 4}, {.left = 3, .groups = 3}),
        sample("depthwise, two outputs a channel, stride", {2, 3, 12}, {6, 1, 3}, {.stride = 2, .left = 4, .right = 1, .dilation = 2, .groups = 3}),
        sample("padding beyond the kernel", {1, 2, 3}, {2, 2, 2}, {.left = 5, .right = 4}),
        sample("no batch", {0, 3, 7}, {2, 3, 2}, {}),
        sample("empty, causal", {2, 3, 0}, {3, 1, 4}, {.left = 3, .groups = 3}),
    };
    out.push_back({"no bias", {rng.normal({1, 3, 8}), rng.normal({2, 3, 1}), {}}, {}});
    return out;
  }
  static std::vector<BadSample> bad() {
    const Tensor x = zeros({2, 4, 5}), weight = zeros({6, 4, 3});
    return {{"axes", {zeros({4, 5}), weight, {}}, {}, "conv1d: needs x [batch, in, length] and weight [out, in/groups, kernel], got [4, 5] and [6, 4, 3]"},
            {"channels", {x, zeros({6, 3, 3}), {}}, {}, "conv1d: weight [6, 3, 3] does not fit x [2, 4, 5]: 4 channels a group, the weight has 3"},
            {"groups", {x, weight, {}}, attrs_ptr(Attrs{.groups = 3}), "conv1d: 3 groups divide 4 input or 6 output channels unevenly"},
            {"no groups", {x, weight, {}}, attrs_ptr(Attrs{.groups = 0}), "conv1d: groups must be in [1, 2147483648], got 0"},
            {"short", {zeros({2, 4, 2}), weight, {}}, {}, "conv1d: the kernel reaches over 3 elements, x [2, 4, 2] has 2 with its padding"},
            {"stride", {x, weight, {}}, attrs_ptr(Attrs{.stride = 0}), "conv1d: stride must be in [1, 2147483648], got 0"},
            {"dilation", {x, weight, {}}, attrs_ptr(Attrs{.dilation = -1}), "conv1d: dilation must be in [1, 2147483648], got -1"},
            {"padding", {x, weight, {}}, attrs_ptr(Attrs{.right = -1}), "conv1d: padding must be in [0, 2147483648], got -1"},
            {"kernel", {x, zeros({6, 4, 0}), {}}, {}, "conv1d: kernel must be in [1, 2147483648], got 0"},
            {"bias", {x, weight, zeros({4})}, {}, "conv1d: bias [4] does not fit weight [6, 4, 3]"},
            {"type", {x, zeros({6, 4, 3}, Dtype::f64), {}}, {}, "f32 and f64"}};
  }
};
REGISTER_OP(Conv1d);

/// inputs: dy, weight. dx[b, i, t·stride + j·dilation − left] += Σ_o weight[o, i, j]·dy[b, o, t]: also called a transposed convolution.
struct Conv1dInput {
  static constexpr auto name = "conv1d_input_backward";
  using Attrs = Conv1dAttrs;
  static Conv1dSizes sizes(const Metas& in, const Attrs& attrs) {
    const Shape &dy = in[0].shape, &weight = in[1].shape;
    if (dy.size() != 3 || weight.size() != 3) fail<ShapeError>(name, ": needs dy [batch, out, length] and weight [out, in/groups, kernel], got ", dy, " and ", weight);
    const Conv1dSizes z = sizes_of(name, {dy[0], weight[1] * attrs.groups, attrs.length}, weight, attrs);
    check_gradient(name, dy, z);
    return z;
  }
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Dtype dtype = same_float(name, in);
    const Conv1dSizes z = sizes(in, attrs);
    return {{{{z.batch, z.in, z.length}, dtype, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) { return kernels::conv1d_scratch(sizes(in, attrs), in[0].dtype, Conv1dPart::input); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    kernels::conv1d_input(sizes({meta_of(k.in(0)), meta_of(k.in(1))}, attrs), k.in(0), k.in(1), k.out(), k.scratch);
  }
  static Saves saves(Need need) { return Saves().input(0, need(1)).input(1, need(0)); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensors out(2);
    const Tensor u = s.grad();
    if (s.needs(0)) out[0] = convolved(u, s.input(1), {}, attrs);
    if (s.needs(1)) out[1] = weight_gradient(s.input(0), u, attrs, s.in_meta(1).shape[2]);
    return out;
  }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    const Conv1dSizes z = sizes(in, attrs);
    return {flops(z), double(in[0].nbytes() + in[1].nbytes()) + double(z.batch * z.in * z.length) * double(dtype_size(in[0].dtype))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"plain", {rng.normal({2, 5, 8}), rng.normal({5, 3, 4})}, attrs_ptr(Attrs{.length = 11})},
            {"stride, dilation, padding", {rng.normal({2, 3, 4}), rng.normal({3, 4, 3})}, attrs_ptr(Attrs{.stride = 3, .left = 2, .right = 1, .dilation = 2, .length = 13})},
            {"groups", {rng.normal({2, 4, 9}), rng.normal({4, 3, 3})}, attrs_ptr(Attrs{.left = 1, .right = 1, .groups = 2, .length = 9})},
            {"depthwise", {rng.normal({2, 3, 17}), rng.normal({3, 1, 4})}, attrs_ptr(Attrs{.left = 3, .groups = 3, .length = 17})},
            {"depthwise, stride", {rng.normal({2, 6, 6}), rng.normal({6, 1, 3})}, attrs_ptr(Attrs{.stride = 2, .left = 2, .right = 1, .dilation = 2, .groups = 3, .length = 12})},
            {"no batch", {rng.normal({0, 2, 6}), rng.normal({2, 3, 2})}, attrs_ptr(Attrs{.length = 7})}};
  }
  static std::vector<BadSample> bad() {
    return {{"axes", {zeros({5}), zeros({6, 4, 3})}, attrs_ptr(Attrs{.length = 5}), "conv1d_input_backward: needs dy [batch, out, length] and weight"},
            {"gradient", {zeros({2, 6, 4}), zeros({6, 4, 3})}, attrs_ptr(Attrs{.length = 5}), "conv1d_input_backward: gradient [2, 6, 4] does not fit a result of [2, 6, 3]"}};
  }
};
REGISTER_OP(Conv1dInput);

/// inputs: dy, x. dweight[o, i, j] = Σ_b Σ_t dy[b, o, t]·x[b, g + i, t·stride + j·dilation − left]
struct Conv1dWeight {
  static constexpr auto name = "conv1d_weight_backward";
  using Attrs = Conv1dAttrs;
  static Conv1dSizes sizes(const Metas& in, const Attrs& attrs) {
    const Shape &dy = in[0].shape, &x = in[1].shape;
    if (dy.size() != 3 || x.size() != 3) fail<ShapeError>(name, ": needs dy [batch, out, length] and x [batch, in, length], got ", dy, " and ", x);
    if (attrs.groups < 1) fail<ConfigError>(name, ": groups must be at least 1, got ", attrs.groups);
    const Conv1dSizes z = sizes_of(name, x, {dy[1], x[1] / attrs.groups, attrs.kernel}, attrs);
    check_gradient(name, dy, z);
    return z;
  }
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Dtype dtype = same_float(name, in);
    const Conv1dSizes z = sizes(in, attrs);
    return {{{{z.out, z.group_in(), z.kernel}, dtype, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) { return kernels::conv1d_scratch(sizes(in, attrs), in[0].dtype, Conv1dPart::weight); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    kernels::conv1d_weight(sizes({meta_of(k.in(0)), meta_of(k.in(1))}, attrs), k.in(0), k.in(1), k.out(), k.scratch);
  }
  static Saves saves(Need need) { return Saves().input(0, need(1)).input(1, need(0)); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensors out(2);
    const Tensor v = s.grad();
    if (s.needs(0)) out[0] = convolved(s.input(1), v, {}, attrs);
    if (s.needs(1)) out[1] = input_gradient(s.input(0), v, attrs, s.in_meta(1).shape[2]);
    return out;
  }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    const Conv1dSizes z = sizes(in, attrs);
    return {flops(z), double(in[0].nbytes() + in[1].nbytes()) + double(z.out * z.group_in() * z.kernel) * double(dtype_size(in[0].dtype))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"plain", {rng.normal({2, 5, 8}), rng.normal({2, 3, 11})}, attrs_ptr(Attrs{.kernel = 4})},
            {"stride, dilation, padding", {rng.normal({2, 3, 4}), rng.normal({2, 4, 13})}, attrs_ptr(Attrs{.stride = 3, .left = 2, .right = 1, .dilation = 2, .kernel = 3})},
            {"groups", {rng.normal({2, 4, 9}), rng.normal({2, 6, 9})}, attrs_ptr(Attrs{.left = 1, .right = 1, .groups = 2, .kernel = 3})},
            {"depthwise", {rng.normal({2, 3, 17}), rng.normal({2, 3, 17})}, attrs_ptr(Attrs{.left = 3, .groups = 3, .kernel = 4})},
            {"depthwise, stride", {rng.normal({2, 6, 6}), rng.normal({2, 3, 12})}, attrs_ptr(Attrs{.stride = 2, .left = 2, .right = 1, .dilation = 2, .groups = 3, .kernel = 3})},
            {"no batch", {rng.normal({0, 2, 6}), rng.normal({0, 3, 7})}, attrs_ptr(Attrs{.kernel = 2})}};
  }
  static std::vector<BadSample> bad() {
    return {{"axes", {zeros({5}), zeros({2, 4, 5})}, attrs_ptr(Attrs{.kernel = 3}), "conv1d_weight_backward: needs dy [batch, out, length] and x"},
            {"groups", {zeros({2, 6, 3}), zeros({2, 4, 5})}, attrs_ptr(Attrs{.groups = 0, .kernel = 3}), "conv1d_weight_backward: groups must be at least 1, got 0"},
            {"gradient", {zeros({2, 6, 4}), zeros({2, 4, 5})}, attrs_ptr(Attrs{.kernel = 3}), "conv1d_weight_backward: gradient [2, 6, 4] does not fit a result of [2, 6, 3]"}};
  }
};
REGISTER_OP(Conv1dWeight);

Tensor input_gradient(const Tensor& dy, const Tensor& weight, Conv1dAttrs attrs, int64_t length) {
  attrs.length = length;
  return apply<Conv1dInput>({dy, weight}, attrs);
}
Tensor weight_gradient(const Tensor& dy, const Tensor& x, Conv1dAttrs attrs, int64_t kernel) {
  attrs.kernel = kernel;
  return apply<Conv1dWeight>({dy, x}, attrs);
}
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dAttrs& attrs) { return apply<Conv1d>({x, weight, bias}, attrs); }

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv1dOptions options) {
  if (options.causal) {
    if (options.padding.left || options.padding.right) fail<ConfigError>("conv1d: causal sets the padding; leave it out");
    if (weight.defined() && weight.dims() == 3) options.padding = {std::max<int64_t>(weight.size(2) - 1, 0) * std::clamp<int64_t>(options.dilation, 0, most), 0};
  }
  return convolved(x, weight, bias, {.stride = options.stride, .left = options.padding.left, .right = options.padding.right, .dilation = options.dilation, .groups = options.groups});
}

}  // namespace spool
