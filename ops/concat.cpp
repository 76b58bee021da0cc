#include <spool/autograd/saved.h>
#include <spool/ops/concat.h>
#include <spool/ops/shape.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <algorithm>

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
      Shape expected = in[0].shape;
      if (in[i].shape.size() == expected.size()) expected[axis] = in[i].shape[axis];
      if (in[i].shape != expected)
        fail<ShapeError>(name, ": part ", i, " has shape ", in[i].shape, ", which does not join ", in[0].shape, " along axis ", axis);
      if (in[i].dtype != out.dtype)
        fail<DtypeError>(name, ": parts are ", dtype_name(out.dtype), " and ", dtype_name(in[i].dtype), "; convert one with cast()");
      out.shape[axis] += in[i].shape[axis];
    }
    return {{out}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const int axis = normalize_axis(name, attrs.axis, k.out().shape());
    int64_t at = 0;
    for (const Tensor& part : k.inputs) {
      copy(k.out().view_as(part.shape(), k.out().strides(), at * k.out().strides()[axis]), part);
      at += part.size(axis);
    }
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensors gradients;
    int64_t at = 0;
    for (int i = 0; i < s.inputs(); ++i) {
      const Shape& shape = s.in_meta(i).shape;
      const int64_t size = shape[normalize_axis(name, attrs.axis, shape)];
      gradients.push_back(s.needs(i) ? slice(s.grad(), attrs.axis, at, at + size) : Tensor());
      at += size;
    }
    return gradients;
  }
  static Cost cost(const Metas& in, const Attrs&) {
    double bytes = 0;
    for (const Meta& m : in) bytes += 2.0 * double(m.nbytes());
    return {0, bytes};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({2, 3}), rng.normal({4, 3})}, {}},
            {"columns", {rng.normal({2, 3}), rng.normal({2, 1}), rng.normal({2, 4})}, attrs_ptr(Attrs{-1})},
            {"middle axis", {rng.normal({2, 1, 3}), rng.normal({2, 2, 3})}, attrs_ptr(Attrs{1})},
            {"one part", {rng.normal({3})}, {}},
            {"zero-size part", {rng.normal({0, 2}), rng.normal({3, 2})}, {}}};
  }
  static std::vector<BadSample> bad() {
    return {{"shape", {zeros({2, 3}), zeros({2, 4})}, {}, "concat: part 1 has shape [2, 4], which does not join [2, 3] along axis 0"},
            {"dimensions", {zeros({2, 3}), zeros({2})}, {}, "concat: part 1 has shape [2], which does not join [2, 3] along axis 0"},
            {"type", {zeros({2}), zeros({2}, Dtype::f64)}, {}, "concat: parts are f32 and f64; convert one with cast()"},
            {"0-d", {zeros({}), zeros({})}, {}, "concat: axis 0 is out of range for shape []"}};
  }
};
REGISTER_OP(Concat);

}  // namespace

Tensor concat(const Tensors& parts, int axis) {
  constexpr size_t most = 32;  // inputs of one op
  if (parts.empty()) fail<ShapeError>("concat: needs at least one tensor");
  if (parts.size() <= most) return apply_all<Concat>(parts, {axis})[0];
  Tensors groups;
  const size_t group = std::max(most, (parts.size() + most - 1) / most);
  for (size_t i = 0; i < parts.size(); i += group)
    groups.push_back(concat(Tensors(parts.begin() + i, parts.begin() + std::min(parts.size(), i + group)), axis));
  return concat(groups, axis);
}

Tensor stack(const Tensors& parts, int axis) {
  Tensors raised;
  for (const Tensor& part : parts) {
    if (part.shape() != parts[0].shape()) fail<ShapeError>("stack: shapes ", parts[0].shape(), " and ", part.shape(), " differ");
    raised.push_back(unsqueeze(part, axis));
  }
  return concat(raised, axis);
}

}  // namespace spool
