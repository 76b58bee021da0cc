#include <spool/autograd/saved.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>
#include <spool/ops/activation.h>
#include <spool/ops/cpu/column_sum.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/cpu/product.h>
#include <spool/ops/linear.h>
#include <spool/ops/matmul.h>
#include <spool/ops/shape.h>
#include <spool/tensor/copy.h>

namespace spool {
namespace {

static_assert(int(Activation::silu) == int(kernels::Activation::silu), "the public and the kernels' activations are one list");
kernels::Activation kernel_activation(Activation a) { return static_cast<kernels::Activation>(a); }

/// x[..., n] as a matrix [rows, n] without a copy when that is possible.
Tensor matrix(const Tensor& x) { return x.dims() == 2 ? x : reshape(x, {x.shape().back() ? x.numel() / x.shape().back() : 0, x.shape().back()}); }

/// Σ over rows of x[rows, n], the gradient of a bias.
struct ColumnSum {
  static constexpr auto name = "column_sum";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    if (in[0].shape.size() != 2) fail<ShapeError>(name, ": needs a matrix, got ", in[0].shape);
    return {{Meta{Shape{in[0].shape[1]}, in[0].dtype, in[0].device}}, {}};
  }
  static void add(const Tensor& to, const Tensor& x, bool accumulate) {
    const int64_t rows = x.shape()[0], n = x.shape()[1];
    visit_float(name, x.dtype(), [&]<class T>() {
      if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
        for (int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (int64_t i = 0; i < rows; ++i) sum += float(static_cast<const T*>(x.raw())[i * n + j]);
          T& out = static_cast<T*>(to.raw())[j];
          out = static_cast<T>(accumulate ? float(out) + sum : sum);
        }
      } else {
        kernels::column_sum(rows, n, static_cast<const T*>(x.raw()), n, static_cast<T*>(to.raw()), accumulate);
      }
    });
  }
  static void cpu(const Kernel& k, const Attrs&) { add(k.out(), k.in(0), false); }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs&) { return {expand(s.grad(), s.in_meta(0).shape)}; }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return {{"ragged", {rng.normal({130, 7})}, {}}, {"wide", {rng.normal({3, 70})}, {}}, {"no rows", {rng.normal({0, 3})}, {}}}; }
  static std::vector<BadSample> bad() { return {{"vector", {zeros({3})}, {}, "needs a matrix, got [3]"}}; }
};
REGISTER_OP(ColumnSum);

Tensor bias_gradient(const Tensor& target, const Tensor& dz) {
  if (!target.defined()) return apply<ColumnSum>({dz});
  const Tensor dense = as_contiguous(dz);
  bump_version(target);
  if (!target.device().meta) ColumnSum::add(target, dense, true);
  return target;
}

struct ActivationAttr {
  Activation activation = Activation::gelu_erf;
};
/// dz = dy·activation′(z)
struct ActivationBackward {
  static constexpr auto name = "activation_backward";
  static constexpr bool strided = true;
  static constexpr auto no_gradient = "it is the fused first derivative of linear's activation";
  using Attrs = ActivationAttr;
  template <Activation A>
  struct Slope {
    template <class T>
    SPOOL_INLINE T operator()(T dy, T z) const { return dy * kernels::activate_derivative<kernels::Activation(A)>(z); }
  };
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    if (in[0].shape != in[1].shape) fail<ShapeError>(name, ": shapes ", in[0].shape, " and ", in[1].shape, " differ");
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      switch (attrs.activation) {
        case Activation::relu: return kernels::map2<T, T, T>(k.out(), k.in(0), k.in(1), Slope<Activation::relu>{});
        case Activation::gelu_erf: return kernels::map2<T, T, T>(k.out(), k.in(0), k.in(1), Slope<Activation::gelu_erf>{});
        case Activation::gelu_tanh: return kernels::map2<T, T, T>(k.out(), k.in(0), k.in(1), Slope<Activation::gelu_tanh>{});
        case Activation::silu: return kernels::map2<T, T, T>(k.out(), k.in(0), k.in(1), Slope<Activation::silu>{});
        case Activation::none: return kernels::map2<T, T, T>(k.out(), k.in(0), k.in(1), Slope<Activation::none>{});
      }
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {30.0 * double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    std::vector<Sample> out;
    for (const Activation a : {Activation::none, Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu})
      out.push_back({"ragged", {rng.normal({3, 17}), rng.normal({3, 17})}, attrs_ptr(Attrs{a})});
    out.push_back({"zero size", {rng.normal({0, 3}), rng.normal({0, 3})}, {}});
    return out;
  }
  static std::vector<BadSample> bad() { return {{"shapes", {zeros({2}), zeros({3})}, {}, "[2] and [3] differ"}}; }
};
REGISTER_OP(ActivationBackward);

struct Linear {
  static constexpr auto name = "linear";
  struct Attrs {
    Activation activation = Activation::none;
  };
  // The value before the activation is a residual that the tape does not know: recording backward would treat it as a constant.
  static std::string_view no_second_order(const Attrs& attrs) {
    return attrs.activation == Activation::none ? "" : "the activation is fused; apply it as an op of its own";
  }
  static Shape rows_by_out(const Metas& in) {
    const int64_t columns = in[0].shape.back();
    return {columns ? numel(in[0].shape) / columns : 0, in[1].shape[0]};
  }
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, in);
    const Shape &x = in[0].shape, &w = in[1].shape;
    if (x.empty() || w.size() != 2 || x.back() != w[1]) fail<ShapeError>(name, ": x ", x, " does not fit weight ", w, " ([out, in])");
    if (in[2].defined && in[2].shape != Shape{w[0]}) fail<ShapeError>(name, ": bias ", in[2].shape, " does not fit weight ", w);
    Meta out = in[0];
    out.shape[out.shape.size() - 1] = w[0];
    return {{out}, attrs.activation == Activation::none ? Metas{} : Metas{out}};
  }
  static int64_t scratch(const Metas& in, const Attrs&) { return kernels::product_scratch(rows_by_out(in), in[1].shape[1], in[0].dtype); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const auto flat = [](const Tensor& t) { return t.defined() ? t.view_as({t.numel() / std::max<int64_t>(t.shape().back(), 1), t.shape().back()}, {t.shape().back(), 1}, t.offset()) : t; };
    kernels::ProductOptions options{.bias = k.in(2), .activation = kernel_activation(attrs.activation)};
    if (attrs.activation != Activation::none) options.pre = flat(k.residual(0));
    kernels::product(flat(k.out()), flat(k.in(0)), kernels::swapped(k.in(1)), options, k.scratch);
  }
  static Saves saves(Need need, const Attrs& attrs) { return Saves().input(0, need(1)).input(1, need(0)).residual(0, attrs.activation != Activation::none); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensor dz = s.grad();
    if (attrs.activation != Activation::none) {
      const Tensor& before = s.residual(0);
      dz = apply<ActivationBackward>({dz, before}, {attrs.activation});
    }
    dz = matrix(dz);
    Tensors out(3);
    if (s.needs(1)) {
      const Tensor target = s.target(1), x = matrix(s.input(0));
      if (target.defined()) {
        kernels::accumulate_product(target, kernels::swapped(dz), x);
        out[1] = target;
      } else {
        out[1] = matmul(dz, x, {.transpose_a = true});
      }
    }
    if (s.needs(2)) out[2] = bias_gradient(s.target(2), dz);
    if (s.needs(0)) out[0] = reshape(matmul(dz, s.input(1)), s.in_meta(0).shape);
    return out;
  }
  static Saves remade_from(int, const Attrs& attrs) { return Saves().residual(0, attrs.activation != Activation::none); }
  static Tensor remake(Saved& s, int, const Attrs& attrs) {
    switch (attrs.activation) {
      case Activation::relu: return relu(s.residual(0));
      case Activation::gelu_erf: return gelu(s.residual(0), Gelu::erf);
      case Activation::gelu_tanh: return gelu(s.residual(0), Gelu::tanh);
      case Activation::silu: return silu(s.residual(0));
      case Activation::none: break;
    }
    return {};
  }
  static Cost cost(const Metas& in, const Attrs&) {
    const Shape out = rows_by_out(in);
    return {2.0 * double(numel(out)) * double(in[1].shape[1]), double(in[0].nbytes() + in[1].nbytes()) + double(numel(out)) * double(dtype_size(in[0].dtype))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    std::vector<Sample> out;
    for (const Activation a : {Activation::none, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu})
      out.push_back({"batch", {rng.normal({2, 5, 7}), rng.normal({3, 7}), rng.normal({3})}, attrs_ptr(Attrs{a})});
    out.push_back({"no bias", {rng.normal({5, 7}), rng.normal({4, 7}), {}}, {}});
    out.push_back({"vector", {rng.normal({7}), rng.normal({4, 7}), rng.normal({4})}, {}});
    out.push_back({"tiles", {rng.normal({70, 66}), rng.normal({50, 66}), rng.normal({50})}, attrs_ptr(Attrs{Activation::gelu_erf})});
    out.push_back({"no rows", {rng.normal({0, 7}), rng.normal({4, 7}), rng.normal({4})}, {}});
    return out;
  }
  static std::vector<BadSample> bad() {
    return {{"inner", {zeros({2, 3}), zeros({4, 5}), {}}, {}, "x [2, 3] does not fit weight [4, 5]"}, {"bias", {zeros({2, 5}), zeros({4, 5}), zeros({5})}, {}, "bias [5] does not fit weight [4, 5]"},
            {"type", {zeros({2, 5}), zeros({4, 5}, Dtype::bf16), {}}, {}, "f32 and bf16"}};
  }
};
REGISTER_OP(Linear);

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) { return apply<Linear>({x, weight, bias}, {activation}); }

}  // namespace spool
