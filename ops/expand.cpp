#include <spool/autograd/saved.h>
#include <spool/ops/expand.h>
#include <spool/ops/reduce.h>
#include <spool/ops/reshape.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

struct Expand {
  static constexpr auto name = "expand";
  struct Attrs {
    Shape shape;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs) {
    const Shape& to = attrs.shape;
    const int shift = to.size() - x.dims();
    Strides strides(to.size(), 0);
    bool fits = shift >= 0;
    for (int axis = 0; fits && axis < x.dims(); ++axis) {
      const int64_t size = x.shape()[axis];
      fits = size == to[axis + shift] || size == 1;
      strides[axis + shift] = size == 1 ? 0 : x.strides()[axis];
    }
    for (const int64_t size : to) fits = fits && size >= 0;
    if (!fits)
      fail<ShapeError>(name, ": shape ", x.shape(), " does not stretch to ", to, "; only axes of size 1 and new leading axes stretch");
    return x.view_as(to, strides, x.offset());
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs&) { return {sum_to(s.grad(), s.in_meta(0).shape)}; }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    const auto to = [](Shape shape) { return attrs_ptr(Attrs{shape}); };
    return {{"new leading axes", {rng.normal({5})}, to({2, 3, 5})},
            {"inner axis", {rng.normal({3, 1, 5})}, to({2, 3, 4, 5})},
            {"column", {rng.normal({4, 1})}, to({4, 6})},
            {"several axes", {rng.normal({1, 3, 1, 2})}, to({4, 3, 5, 2})},
            {"unchanged", {rng.normal({5})}, to({5})},
            {"0-d", {rng.normal({})}, to({2, 3})},
            {"0-d to 0-d", {rng.normal({})}, to({})},
            {"to zero size", {rng.normal({4, 1})}, to({4, 0})},
            {"from zero size", {rng.normal({0})}, to({3, 0})}};
  }
  static std::vector<BadSample> bad() {
    return {{"size", {zeros({3})}, attrs_ptr(Attrs{{4}}), "expand: shape [3] does not stretch to [4]"},
            {"fewer axes", {zeros({1, 3})}, attrs_ptr(Attrs{{3}}), "expand: shape [1, 3] does not stretch to [3]"}};
  }
};
REGISTER_OP(Expand);

}  // namespace

Tensor expand(const Tensor& x, const Shape& shape) { return x.shape() == shape ? x : apply<Expand>({x}, {shape}); }

Tensor sum_to(const Tensor& g, const Shape& shape) {
  if (g.shape() == shape) return g;
  const int shift = g.dims() - shape.size();
  Axes axes;
  for (int axis = 0; axis < g.dims(); ++axis) {
    const bool sums = axis < shift || (shape[axis - shift] == 1 && g.shape()[axis] != 1);
    if (sums) axes.push_back(axis);
  }
  return reshape(axes.empty() ? g : sum(g, axes, true), shape);
}

}  // namespace spool
