#include <spool/autograd/saved.h>
#include <spool/ops/reduce.h>
#include <spool/ops/shape.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <optional>

namespace spool {
namespace {

/// Strides that show x under `shape` without a copy, if there are any.
std::optional<Strides> strides_for(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous()) return contiguous_strides(shape);
  Strides out(shape.size(), 0);
  int at = shape.size() - 1;
  int axis = x.dims() - 1;
  while (axis >= 0) {  // a run of axes of x that lie densely inside each other
    int64_t run = x.shape()[axis], step = x.strides()[axis];
    int first = axis;
    while (first > 0 && (x.shape()[first - 1] == 1 || x.strides()[first - 1] == step * run)) run *= x.shape()[--first];
    int64_t left = run;
    while (at >= 0 && left > 1 && left % shape[at] == 0) {
      out[at] = step;
      step *= shape[at];
      left /= shape[at--];
    }
    if (left != 1) return {};
    while (at >= 0 && shape[at] == 1) out[at--] = step;
    axis = first - 1;
  }
  return at < 0 ? std::optional(out) : std::nullopt;
}

struct Reshape {
  static constexpr auto name = "reshape";
  static constexpr bool strided = true;
  struct Attrs {
    Shape to;
  };
  static void check(const Shape& from, const Shape& to) {
    if (numel(from) != numel(to)) fail<ShapeError>(name, ": ", from, " has ", numel(from), " elements, ", to, " has ", numel(to));
  }
  static Tensor view(const Tensor& x, const Attrs& attrs) {
    check(x.shape(), attrs.to);
    const auto strides = strides_for(x, attrs.to);
    return strides ? x.view_as(attrs.to, *strides, x.offset()) : Tensor();
  }
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    check(in[0].shape, attrs.to);
    return {{Meta{attrs.to, in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) { copy(k.out().view_as(k.in(0).shape(), contiguous_strides(k.in(0).shape()), 0), k.in(0)); }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs&) { return {reshape(s.grad(), s.in_meta(0).shape)}; }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"matrix", {rng.normal({3, 4, 5})}, attrs_ptr(Attrs{{12, 5}})}, {"split", {rng.normal({12})}, attrs_ptr(Attrs{{2, 1, 6}})},
            {"to 0-d", {rng.normal({1, 1})}, attrs_ptr(Attrs{{}})}, {"zero size", {rng.normal({0, 3})}, attrs_ptr(Attrs{{3, 0}})}};
  }
  static std::vector<BadSample> bad() { return {{"count", {zeros({2, 3})}, attrs_ptr(Attrs{{4}}), "[2, 3] has 6 elements, [4] has 4"}}; }
};
REGISTER_OP(Reshape);

struct Expand {
  static constexpr auto name = "expand";
  struct Attrs {
    Shape to;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs) {
    const int shift = attrs.to.size() - x.dims();
    Strides strides(attrs.to.size(), 0);
    for (int axis = 0; axis < x.dims(); ++axis) {
      if (shift < 0 || (x.shape()[axis] != 1 && x.shape()[axis] != attrs.to[axis + shift])) fail<ShapeError>(name, ": ", x.shape(), " does not expand to ", attrs.to);
      strides[axis + shift] = x.shape()[axis] == 1 ? 0 : x.strides()[axis];
    }
    return x.view_as(attrs.to, strides, x.offset());
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs&) { return {sum_to(s.grad(), s.in_meta(0).shape)}; }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"leading", {rng.normal({3, 1})}, attrs_ptr(Attrs{{2, 3, 4}})}, {"same", {rng.normal({5})}, attrs_ptr(Attrs{{5}})},
            {"0-d", {rng.normal({})}, attrs_ptr(Attrs{{2, 2}})}, {"to zero size", {rng.normal({4, 1})}, attrs_ptr(Attrs{{4, 0}})},
            {"ones", {rng.normal({3, 1, 5})}, attrs_ptr(Attrs{{2, 3, 4, 5}})}};
  }
  static std::vector<BadSample> bad() { return {{"size", {zeros({2, 3})}, attrs_ptr(Attrs{{2, 4}}), "[2, 3] does not expand to [2, 4]"}}; }
};
REGISTER_OP(Expand);

struct Permute {
  static constexpr auto name = "permute";
  struct Attrs {
    Dims axes;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs) {
    uint32_t seen = 0;
    Shape shape = x.shape();
    Strides strides = x.strides();
    for (int i = 0; i < attrs.axes.size(); ++i) {
      const int axis = normalize_axis(name, int(attrs.axes[i]), x.shape());
      seen |= uint32_t(1) << axis;
      shape[i] = x.shape()[axis];
      strides[i] = x.strides()[axis];
    }
    if (attrs.axes.size() != x.dims() || seen != (uint32_t(1) << x.dims()) - 1) fail<ShapeError>(name, ": axes ", attrs.axes, " are no permutation of those of ", x.shape());
    return x.view_as(shape, strides, x.offset());
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    std::vector<int> inverse(size_t(attrs.axes.size()));
    for (int i = 0; i < attrs.axes.size(); ++i) inverse[size_t(normalize_axis(name, int(attrs.axes[i]), s.in_meta(0).shape))] = i;
    return {permute(s.grad(), inverse)};
  }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"three axes", {rng.normal({2, 3, 4})}, attrs_ptr(Attrs{{2, 0, -2}})}, {"0-d", {rng.normal({})}, attrs_ptr(Attrs{})}, {"zero size", {rng.normal({0, 3})}, attrs_ptr(Attrs{{1, 0}})}};
  }
  static std::vector<BadSample> bad() {
    return {{"twice", {zeros({2, 3})}, attrs_ptr(Attrs{{0, 0}}), "no permutation"}, {"range", {zeros({2, 3})}, attrs_ptr(Attrs{{0, 2}}), "axis 2 is out of range for shape [2, 3]"}};
  }
};
REGISTER_OP(Permute);

struct SliceAttrs {
  int axis = 0;
  int64_t begin = 0, count = 0, step = 1;
  Shape full;  ///< Of the whole; slice_backward needs it.
};

Tensor slice_view(const Tensor& x, const SliceAttrs& a) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[a.axis] = a.count;
  strides[a.axis] *= a.step;
  return x.view_as(shape, strides, a.count ? x.offset() + a.begin * x.strides()[a.axis] : x.offset());
}

/// Zeros with dy in the place of the slice.
struct SliceBackward {
  static constexpr auto name = "slice_backward";
  static constexpr bool strided = true;
  using Attrs = SliceAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    Shape part = attrs.full;
    part[attrs.axis] = attrs.count;
    if (in[0].shape != part) fail<ShapeError>(name, ": a slice ", part, " of ", attrs.full, " expected, got ", in[0].shape);
    return {{Meta{attrs.full, in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    fill(k.out(), 0);
    copy(slice_view(k.out(), attrs), k.in(0));
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& a) { return {slice(s.grad(), a.axis, a.begin, a.begin + (a.count - 1) * a.step + 1, a.step)}; }
  static Cost cost(const Metas& in, const Attrs& attrs) { return {0, double(numel(attrs.full)) * double(dtype_size(in[0].dtype))}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"columns", {rng.normal({3, 2})}, attrs_ptr(Attrs{1, 1, 2, 2, {3, 5}})}, {"rows", {rng.normal({2, 4})}, attrs_ptr(Attrs{0, 0, 2, 1, {6, 4}})}};
  }
  static std::vector<BadSample> bad() { return {{"shape", {zeros({2})}, attrs_ptr(Attrs{0, 0, 3, 1, {5}}), "[3] of [5] expected, got [2]"}}; }
};
REGISTER_OP(SliceBackward);

struct Slice {
  static constexpr auto name = "slice";
  using Attrs = SliceAttrs;
  static Tensor view(const Tensor& x, const Attrs& attrs) { return slice_view(x, attrs); }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    if (const Tensor whole = s.target(0); whole.defined()) {  // adds to its place only: slices of a long sequence cost their own size
      accumulate(slice_view(whole, attrs), s.grad());
      return {whole};
    }
    SliceAttrs full = attrs;
    full.full = s.in_meta(0).shape;
    return {apply<SliceBackward>({s.grad()}, full)};
  }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({5, 3})}, attrs_ptr(Attrs{0, 1, 3, 1, {}})}, {"stepped columns", {rng.normal({2, 7})}, attrs_ptr(Attrs{1, 1, 3, 2, {}})},
            {"reversed", {rng.normal({6})}, attrs_ptr(Attrs{0, 5, 6, -1, {}})}, {"nothing", {rng.normal({4, 2})}, attrs_ptr(Attrs{0, 0, 0, 1, {}})}};
  }
  static std::vector<BadSample> bad() { return {{"outside", {zeros({3})}, attrs_ptr(Attrs{0, 2, 3, 1, {}}), "leaves the storage"}}; }
};
REGISTER_OP(Slice);

}  // namespace

Tensor reshape(const Tensor& x, Shape shape) {
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (unknown >= 0) fail<ShapeError>("reshape: only one size may be -1, got ", shape);
      unknown = i;
    } else {
      known *= shape[i];
    }
  }
  if (unknown >= 0) {
    if (known == 0 || x.numel() % known) fail<ShapeError>("reshape: ", x.shape(), " does not fit ", shape);
    shape[unknown] = x.numel() / known;
  }
  return apply<Reshape>({x}, {shape});
}

Tensor flatten(const Tensor& x, int first, int last) {
  if (x.dims() == 0) return reshape(x, {1});
  const int from = normalize_axis("flatten", first, x.shape()), to = normalize_axis("flatten", last, x.shape());
  Shape shape;
  for (int i = 0; i < x.dims(); ++i) {
    if (i > from && i <= to) shape[from] *= x.shape()[i];
    else shape.push_back(x.shape()[i]);
  }
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, int axis) {
  const int at = normalize_axis("squeeze", axis, x.shape());
  if (x.shape()[at] != 1) fail<ShapeError>("squeeze: axis ", axis, " of ", x.shape(), " has size ", x.shape()[at], ", not 1");
  Shape shape = x.shape();
  shape.erase(at);
  return reshape(x, shape);
}

Tensor unsqueeze(const Tensor& x, int axis) {
  if (axis < -x.dims() - 1 || axis > x.dims()) fail<ShapeError>("unsqueeze: axis ", axis, " is out of range for shape ", x.shape());
  Shape shape = x.shape();
  shape.insert(axis < 0 ? axis + x.dims() + 1 : axis, 1);
  return reshape(x, shape);
}

Tensor expand(const Tensor& x, const Shape& shape) { return x.shape() == shape ? x : apply<Expand>({x}, {shape}); }

Tensor permute(const Tensor& x, const std::vector<int>& axes) {
  Dims dims;
  for (int axis : axes) dims.push_back(axis);
  return apply<Permute>({x}, {dims});
}

Tensor transpose(const Tensor& x, int a, int b) {
  std::vector<int> axes(size_t(x.dims()));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = int(i);
  std::swap(axes[size_t(normalize_axis("transpose", a, x.shape()))], axes[size_t(normalize_axis("transpose", b, x.shape()))]);
  return permute(x, axes);
}

Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end, int64_t step) {
  if (step < 1) fail<ShapeError>("slice: step must be at least 1, got ", step, "; use flip to reverse");
  SliceAttrs attrs{.axis = normalize_axis("slice", axis, x.shape()), .full = {}};
  const int64_t size = x.shape()[attrs.axis];
  const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  attrs.begin = bound(begin);
  attrs.count = std::max<int64_t>(0, (bound(end) - attrs.begin + step - 1) / step);
  attrs.step = step;
  return apply<Slice>({x}, attrs);
}

Tensor narrow(const Tensor& x, int axis, int64_t begin, int64_t length) {
  const int64_t size = x.size(axis);
  if (begin < 0 || length < 0 || begin + length > size) fail<ShapeError>("narrow: [", begin, ", ", begin + length, ") leaves axis ", axis, " of ", x.shape());
  return slice(x, axis, begin, begin + length);
}

Tensor select(const Tensor& x, int axis, int64_t index) {
  const int64_t size = x.size(axis);
  if (index < -size || index >= size) fail<IndexError>("select: index ", index, " is out of range for axis ", axis, " of ", x.shape());
  return squeeze(narrow(x, axis, index < 0 ? index + size : index, 1), axis);
}

Tensor flip(const Tensor& x, int axis) {
  const int at = normalize_axis("flip", axis, x.shape());
  const int64_t size = x.shape()[at];
  return apply<Slice>({x}, {.axis = at, .begin = std::max<int64_t>(size - 1, 0), .count = size, .step = -1, .full = {}});
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int axis) {
  if (size < 1) fail<ShapeError>("split: pieces must have at least 1 element, got ", size);
  std::vector<Tensor> pieces;
  for (int64_t at = 0; at < x.size(axis); at += size) pieces.push_back(slice(x, axis, at, at + size));
  return pieces;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int shift = x.dims() - shape.size();
  std::vector<int> axes;
  for (int i = 0; i < x.dims(); ++i) if (i < shift || (shape[i - shift] == 1 && x.shape()[i] != 1)) axes.push_back(i);
  return reshape(axes.empty() ? x : sum(x, axes, true), shape);
}

}  // namespace spool
