#include <spool/autograd/saved.h>
#include <spool/ops/concat.h>
#include <spool/ops/shape.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

struct Concat {
  static constexpr auto name = "concat";
  static constexpr bool strided = true;
  struct Attrs {
    int axis = 0;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    Meta out = in[0];
    const int axis = normalize_axis(name, attrs.axis, out.shape);
    for (size_t i = 1; i < in.size(); ++i) {
      if (in[i].dtype != out.dtype) fail<DtypeError>(name, ": parts are ", dtype_name(out.dtype), " and ", dtype_name(in[i].dtype), "; convert one with cast()");
      Shape expected = in[0].shape;
      if (in[i].shape.size() == expected.size()) expected[axis] = in[i].shape[axis];
      if (in[i].shape != expected) fail<ShapeError>(name, ": parts ", in[0].shape, " and ", in[i].shape, " do not fit along axis ", attrs.axis);
      out.shape[axis] += in[i].shape[axis];
    }
    return {{out}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const int axis = normalize_axis(name, attrs.axis, k.out().shape());
    int64_t at = 0;
    for (const Tensor& part : k.inputs) {
      copy(k.out().view_as(part.shape(), k.out().strides(), at * k.out().strides()[axis]), part);
      at += part.shape()[axis];
    }
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensors out(size_t(s.inputs()));
    const int axis = normalize_axis(name, attrs.axis, s.out_meta().shape);
    int64_t at = 0;
    for (int i = 0; i < s.inputs(); ++i) {
      const int64_t size = s.in_meta(i).shape[axis];
      if (s.needs(i)) out[size_t(i)] = slice(s.grad(), axis, at, at + size);
      at += size;
    }
    return out;
  }
  static Cost cost(const Metas& in, const Attrs&) {
    double bytes = 0;
    for (const Meta& m : in) bytes += 2.0 * double(m.nbytes());
    return {0, bytes};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"columns", {rng.normal({3, 2}), rng.normal({3, 5})}, attrs_ptr(Attrs{-1})},
            {"rows, one empty", {rng.normal({2, 3}), rng.normal({0, 3}), rng.normal({1, 3})}, attrs_ptr(Attrs{0})},
            {"middle", {rng.normal({2, 3, 2}), rng.normal({2, 1, 2})}, attrs_ptr(Attrs{1})}};
  }
  static std::vector<BadSample> bad() {
    return {{"sizes", {zeros({2, 3}), zeros({3, 3})}, attrs_ptr(Attrs{1}), "[2, 3] and [3, 3] do not fit along axis 1"}, {"types", {zeros({2}), zeros({2}, Dtype::f64)}, {}, "f32 and f64"}};
  }
};
REGISTER_OP(Concat);

}  // namespace

Tensor concat(const Tensors& parts, int axis) {
  if (parts.empty() || parts.size() > 32) fail<ShapeError>("concat: takes 1 to 32 tensors, got ", parts.size());
  return apply_all<Concat>(parts, {axis})[0];
}

Tensor stack(const Tensors& parts, int axis) {
  Tensors raised;
  for (const Tensor& part : parts) raised.push_back(unsqueeze(part, axis));
  return concat(raised, axis);
}

}  // namespace spool
