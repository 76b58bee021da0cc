#include <spool/autograd/saved.h>
#include <spool/ops/detail/axis.h>
#include <spool/ops/reshape.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <optional>

namespace spool {
namespace {

/// `to` with its -1 worked out.
Shape resolve(const Shape& from, Shape to) {
  int64_t known = 1;
  int open = -1;
  bool good = true;
  for (int axis = 0; axis < to.size(); ++axis) {
    if (to[axis] == -1 && open < 0)
      open = axis;
    else if (to[axis] < 0)
      good = false;
    else
      known *= to[axis];
  }
  const int64_t count = numel(from);
  const Shape asked = to;
  if (open >= 0) good = good && known > 0 && count % known == 0;
  if (open >= 0 && good) to[open] = count / known;
  if (!good || numel(to) != count) fail<ShapeError>("reshape: shape ", from, " (", count, " elements) does not fit ", asked);
  return to;
}

/// Strides under which memory laid out as (shape, strides) reads as `to`; none when a new axis would straddle a jump.
std::optional<Strides> strides_as(const Shape& shape, const Strides& strides, const Shape& to) {
  if (numel(shape) == 0) return contiguous_strides(to);
  Strides out(to.size(), 1);
  int next = to.size() - 1;
  int64_t run = 1, taken = 1, step = 1;  // elements in the current even run of old axes, of them used by new axes, and their stride
  for (int axis = shape.size() - 1; axis >= -1; --axis) {
    if (axis >= 0 && shape[axis] == 1) continue;
    if (axis >= 0 && (run == 1 || strides[axis] == step * run)) {
      if (run == 1) step = strides[axis];
      run *= shape[axis];
      continue;
    }
    while (next >= 0 && (taken < run || to[next] == 1)) {  // lay new axes over the finished run
      out[next] = step * taken;
      taken *= to[next--];
    }
    if (taken != run) return {};
    if (axis >= 0) {
      run = shape[axis];
      taken = 1;
      step = strides[axis];
    }
  }
  return out;
}

struct Reshape {
  static constexpr auto name = "reshape";
  static constexpr bool strided = true;
  struct Attrs {
    Shape shape;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs) {
    const Shape to = resolve(x.shape(), attrs.shape);
    const auto strides = strides_as(x.shape(), x.strides(), to);
    return strides ? x.view_as(to, *strides, x.offset()) : Tensor();
  }
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    return {{{resolve(in[0].shape, attrs.shape), in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    const Shape& from = k.in(0).shape();
    copy(k.out().view_as(from, contiguous_strides(from), 0), k.in(0));
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs&) { return {reshape(s.grad(), s.in_meta(0).shape)}; }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    const auto to = [](Shape shape) { return attrs_ptr(Attrs{shape}); };
    return {{"split", {rng.normal({6, 4})}, to({2, 3, 4})},
            {"merge", {rng.normal({2, 3, 4})}, to({6, -1})},
            {"regroup", {rng.normal({4, 6})}, to({3, 8})},
            {"ones in and out", {rng.normal({3, 1, 2})}, to({1, 3, 2, 1})},
            {"0-d", {rng.normal({})}, to({1, 1})},
            {"to 0-d", {rng.normal({1})}, to({})},
            {"zero size", {rng.normal({0, 3})}, to({3, 0, 2})}};
  }
  static std::vector<BadSample> bad() {
    return {{"count", {zeros({2, 3})}, attrs_ptr(Attrs{{4}}), "reshape: shape [2, 3] (6 elements) does not fit [4]"},
            {"no whole size", {zeros({2, 3})}, attrs_ptr(Attrs{{4, -1}}), "reshape: shape [2, 3] (6 elements) does not fit [4, -1]"},
            {"two open sizes", {zeros({2, 3})}, attrs_ptr(Attrs{{-1, -1}}), "reshape: shape [2, 3] (6 elements) does not fit [-1, -1]"},
            {"open beside zero", {zeros({0, 3})}, attrs_ptr(Attrs{{0, -1}}), "reshape: shape [0, 3] (0 elements) does not fit [0, -1]"}};
  }
};
REGISTER_OP(Reshape);

struct Contiguous {
  static constexpr auto name = "contiguous";
  static constexpr bool strided = true;
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) { return {{in[0]}, {}}; }
  static void cpu(const Kernel& k, const Attrs&) { copy(k.out(), k.in(0)); }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs&) { return {s.grad()}; }
  static Cost cost(const Metas& in, const Attrs&) { return {0, 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"matrix", {rng.normal({3, 5})}, {}},
            {"transposed", {transpose(rng.normal({3, 37}))}, {}},
            {"0-d", {rng.normal({})}, {}},
            {"zero size", {rng.normal({0, 2})}, {}}};
  }
  static std::vector<BadSample> bad() { return {}; }
};
REGISTER_OP(Contiguous);

Dims checked_order(const Shape& shape, const Dims& order) {
  Dims axes;
  uint32_t seen = 0;
  bool good = order.size() == shape.size();
  for (int i = 0; good && i < order.size(); ++i) {
    const int axis = detail::as_axis("permute", order[i], shape);
    good = !(seen >> axis & 1);
    seen |= uint32_t(1) << axis;
    axes.push_back(axis);
  }
  if (!good) fail<ShapeError>("permute: order ", order, " must name each axis of shape ", shape, " once");
  return axes;
}

struct Permute {
  static constexpr auto name = "permute";
  struct Attrs {
    Dims order;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs) {
    Shape shape;
    Strides strides;
    for (const int64_t axis : checked_order(x.shape(), attrs.order)) {
      shape.push_back(x.shape()[int(axis)]);
      strides.push_back(x.strides()[int(axis)]);
    }
    return x.view_as(shape, strides, x.offset());
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Dims order = checked_order(s.in_meta(0).shape, attrs.order);
    Dims inverse(order.size(), 0);
    for (int i = 0; i < order.size(); ++i) inverse[int(order[i])] = i;
    return {permute(s.grad(), inverse)};
  }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    const auto by = [](Dims order) { return attrs_ptr(Attrs{order}); };
    return {{"matrix", {rng.normal({3, 5})}, by({1, 0})},
            {"rotation", {rng.normal({2, 3, 4})}, by({2, 0, 1})},
            {"negative axes", {rng.normal({2, 3, 4, 5})}, by({0, -2, 1, -1})},
            {"0-d", {rng.normal({})}, by({})},
            {"zero size", {rng.normal({0, 3})}, by({1, 0})}};
  }
  static std::vector<BadSample> bad() {
    return {{"twice", {zeros({2, 3})}, attrs_ptr(Attrs{{0, 0}}), "permute: order [0, 0] must name each axis of shape [2, 3] once"},
            {"too few", {zeros({2, 3})}, attrs_ptr(Attrs{{0}}), "permute: order [0] must name each axis of shape [2, 3] once"},
            {"range", {zeros({2, 3})}, attrs_ptr(Attrs{{0, 2}}), "permute: axis 2 is out of range for shape [2, 3]"}};
  }
};
REGISTER_OP(Permute);

struct Flip {
  static constexpr auto name = "flip";
  struct Attrs {
    int axis = 0;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs) {
    const int axis = normalize_axis(name, attrs.axis, x.shape());
    Strides strides = x.strides();
    const int64_t last = std::max<int64_t>(x.shape()[axis] - 1, 0) * strides[axis];
    strides[axis] = -strides[axis];
    return x.view_as(x.shape(), strides, x.offset() + last);
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) { return {flip(s.grad(), attrs.axis)}; }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({3, 5})}, attrs_ptr(Attrs{0})},
            {"columns", {rng.normal({3, 5})}, attrs_ptr(Attrs{-1})},
            {"one", {rng.normal({1})}, attrs_ptr(Attrs{0})},
            {"zero size", {rng.normal({0, 2})}, attrs_ptr(Attrs{0})}};
  }
  static std::vector<BadSample> bad() {
    return {{"range", {zeros({2})}, attrs_ptr(Attrs{1}), "flip: axis 1 is out of range for shape [2]"},
            {"0-d", {zeros({})}, attrs_ptr(Attrs{0}), "flip: axis 0 is out of range for shape []"}};
  }
};
REGISTER_OP(Flip);

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) { return x.shape() == shape ? x : apply<Reshape>({x}, {shape}); }

Tensor flatten(const Tensor& x, int first, int last) {
  if (x.dims() == 0) return reshape(x, {1});
  const int from = normalize_axis("flatten", first, x.shape()), to = normalize_axis("flatten", last, x.shape());
  if (from > to) fail<ShapeError>("flatten: first axis ", first, " comes after last axis ", last, " in shape ", x.shape());
  Shape shape;
  for (int axis = 0; axis < x.dims(); ++axis) {
    if (axis > from && axis <= to)
      shape[shape.size() - 1] *= x.shape()[axis];
    else
      shape.push_back(x.shape()[axis]);
  }
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, int axis) {
  Shape shape = x.shape();
  const int at = normalize_axis("squeeze", axis, shape);
  if (shape[at] != 1) fail<ShapeError>("squeeze: axis ", axis, " of shape ", shape, " has size ", shape[at], ", not 1");
  shape.erase(at);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x) {
  Shape shape;
  for (const int64_t size : x.shape())
    if (size != 1) shape.push_back(size);
  return reshape(x, shape);
}

Tensor unsqueeze(const Tensor& x, int axis) {
  Shape shape = x.shape();
  const int dims = shape.size() + 1;
  if (axis < -dims || axis >= dims) fail<ShapeError>("unsqueeze: axis ", axis, " is out of range for shape ", shape, " with one axis more");
  shape.insert(axis < 0 ? axis + dims : axis, 1);
  return reshape(x, shape);
}

Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : apply<Contiguous>({x}); }
Tensor permute(const Tensor& x, const Dims& order) { return apply<Permute>({x}, {order}); }

Tensor transpose(const Tensor& x, int a, int b) {
  Dims order;
  for (int axis = 0; axis < x.dims(); ++axis) order.push_back(axis);
  std::swap(order[normalize_axis("transpose", a, x.shape())], order[normalize_axis("transpose", b, x.shape())]);
  return permute(x, order);
}

Tensor flip(const Tensor& x, int axis) { return apply<Flip>({x}, {axis}); }

Tensor flip(const Tensor& x, const Dims& axes) {
  Tensor y = x;
  for (const int64_t axis : axes) y = flip(y, detail::as_axis("flip", axis, x.shape()));
  return y;
}

}  // namespace spool
