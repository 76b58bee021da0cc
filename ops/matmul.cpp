#include <spool/autograd/saved.h>
#include <spool/ops/cpu/product.h>
#include <spool/ops/matmul.h>
#include <spool/ops/shape.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

struct Matmul {
  static constexpr auto name = "matmul";
  static constexpr bool strided = true;
  using Attrs = MatmulOptions;
  struct Sizes {
    int64_t m, n, k;
  };
  static Sizes sizes(const Metas& in, const Attrs& attrs) {
    const Shape &a = in[0].shape, &b = in[1].shape;
    if (a.size() < 2 || b.size() != a.size()) fail<ShapeError>(name, ": needs two stacks of matrices, got ", a, " and ", b);
    for (int i = 0; i < a.size() - 2; ++i) if (a[i] != b[i]) fail<ShapeError>(name, ": leading axes of ", a, " and ", b, " differ");
    const int last = a.size() - 1;
    const int64_t m = a[attrs.transpose_a ? last : last - 1], k = a[attrs.transpose_a ? last - 1 : last];
    const int64_t k2 = b[attrs.transpose_b ? last : last - 1], n = b[attrs.transpose_b ? last - 1 : last];
    if (k != k2) fail<ShapeError>(name, ": inner sizes differ: ", a, attrs.transpose_a ? " transposed" : "", " and ", b, attrs.transpose_b ? " transposed" : "");
    return {m, n, k};
  }
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Dtype dtype = same_float(name, in);
    const auto [m, n, k] = sizes(in, attrs);
    Shape out = in[0].shape;
    out[out.size() - 2] = m;
    out[out.size() - 1] = n;
    return {{Meta{out, dtype, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) {
    const Inferred out = infer(in, attrs);
    return kernels::product_scratch(out.outputs[0].shape, sizes(in, attrs).k, in[0].dtype);
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    kernels::product(k.out(), attrs.transpose_a ? kernels::swapped(k.in(0)) : k.in(0), attrs.transpose_b ? kernels::swapped(k.in(1)) : k.in(1), {}, k.scratch);
  }
  static Saves saves(Need need) { return Saves().input(0, need(1)).input(1, need(0)); }
  static Tensors vjp(Saved& s, const Attrs& at) {
    Tensors out(2);
    const Tensor dc = s.grad();
    if (s.needs(0)) {
      const Tensor& b = s.input(1);
      out[0] = at.transpose_a ? product_or_add(s.target(0), b, dc, {at.transpose_b, true}) : product_or_add(s.target(0), dc, b, {false, !at.transpose_b});
    }
    if (s.needs(1)) {
      const Tensor& a = s.input(0);
      out[1] = at.transpose_b ? product_or_add(s.target(1), dc, a, {true, at.transpose_a}) : product_or_add(s.target(1), a, dc, {!at.transpose_a, false});
    }
    return out;
  }
  static Tensor product_or_add(const Tensor& target, const Tensor& a, const Tensor& b, MatmulOptions options) {
    if (!target.defined() || target.dtype() == Dtype::bf16 || target.dtype() == Dtype::f16) return apply<Matmul>({a, b}, options);
    kernels::accumulate_product(target, options.transpose_a ? kernels::swapped(a) : a, options.transpose_b ? kernels::swapped(b) : b);
    return target;
  }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    const Inferred out = infer(in, attrs);
    return {2.0 * double(numel(out.outputs[0].shape)) * double(sizes(in, attrs).k), double(in[0].nbytes() + in[1].nbytes() + out.outputs[0].nbytes())};
  }
  static std::vector<Sample> samples(Rng& rng) {
    std::vector<Sample> out;
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        out.push_back({"ragged", {rng.normal(ta ? Shape{7, 5} : Shape{5, 7}), rng.normal(tb ? Shape{3, 7} : Shape{7, 3})}, attrs_ptr(Attrs{ta, tb})});
    out.push_back({"batch", {rng.normal({2, 3, 4, 5}), rng.normal({2, 3, 5, 6})}, {}});
    out.push_back({"tiles", {rng.normal({70, 90}), rng.normal({90, 50})}, {}});
    out.push_back({"inner size 0", {rng.normal({3, 0}), rng.normal({0, 2})}, {}});
    out.push_back({"zero size", {rng.normal({0, 4}), rng.normal({4, 2})}, {}});
    return out;
  }
  static std::vector<BadSample> bad() {
    return {{"inner", {zeros({2, 3}), zeros({4, 5})}, {}, "inner sizes differ: [2, 3] and [4, 5]"},
            {"type", {zeros({2, 3}), zeros({3, 2}, Dtype::f64)}, {}, "f32 and f64"},
            {"batch", {zeros({2, 2, 3}), zeros({3, 3, 2})}, {}, "leading axes of [2, 2, 3] and [3, 3, 2] differ"}};
  }
};
REGISTER_OP(Matmul);

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options) {
  if (a.dims() == 0 || b.dims() == 0) fail<ShapeError>("matmul: needs at least one axis, got ", a.shape(), " and ", b.shape());
  if (a.dims() == 1) return squeeze(matmul(unsqueeze(a, 0), b, {false, options.transpose_b}), b.dims() == 1 ? 0 : -2);
  if (b.dims() == 1) return squeeze(matmul(a, unsqueeze(b, 1), {options.transpose_a, false}), -1);
  Shape left = a.shape(), right = b.shape();
  Shape lead_a, lead_b;
  for (int i = 0; i < left.size() - 2; ++i) lead_a.push_back(left[i]);
  for (int i = 0; i < right.size() - 2; ++i) lead_b.push_back(right[i]);
  Shape full_a = broadcast_shapes("matmul", lead_a, lead_b), full_b = full_a;
  for (int i = 2; i > 0; --i) {
    full_a.push_back(left[left.size() - i]);
    full_b.push_back(right[right.size() - i]);
  }
  return apply<Matmul>({expand(a, full_a), expand(b, full_b)}, options);
}

}  // namespace spool
