#include <spool/autograd/saved.h>
#include <spool/ops/detail/axis.h>
#include <spool/ops/indexing.h>
#include <spool/ops/moving.h>
#include <spool/ops/shape.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <cmath>
#include <limits>

namespace spool {
namespace {

/// `count` elements from `begin` along the axis, without a check.
Tensor part_of(const Tensor& t, int axis, int64_t begin, int64_t count) {
  Shape shape = t.shape();
  shape[axis] = count;
  return t.view_as(shape, t.strides(), count > 0 ? t.offset() + begin * t.strides()[axis] : t.offset());
}

struct Roll {
  static constexpr auto name = "roll";
  static constexpr bool strided = true;
  struct Attrs {
    int64_t shift = 0;
    int axis = -1;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    normalize_axis(name, attrs.axis, in[0].shape);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const int axis = normalize_axis(name, attrs.axis, k.out().shape());
    const int64_t size = k.out().shape()[axis];
    if (size == 0) return;
    const int64_t shift = (attrs.shift % size + size) % size;
    copy(part_of(k.out(), axis, shift, size - shift), part_of(k.in(0), axis, 0, size - shift));
    copy(part_of(k.out(), axis, 0, shift), part_of(k.in(0), axis, size - shift, shift));
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const int64_t size = std::max<int64_t>(s.grad().size(attrs.axis), 1);
    return {roll(s.grad(), -(attrs.shift % size), attrs.axis)};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {0, 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({5, 3})}, attrs_ptr(Attrs{2, 0})},
            {"middle axis, backwards", {rng.normal({2, 7, 3})}, attrs_ptr(Attrs{-3, 1})},
            {"more than once around", {rng.normal({3, 4})}, attrs_ptr(Attrs{11})},
            {"the lowest shift", {rng.normal({5})}, attrs_ptr(Attrs{std::numeric_limits<int64_t>::min()})},
            {"zero size", {rng.normal({0, 3})}, attrs_ptr(Attrs{1, 0})}};
  }
  static std::vector<BadSample> bad() {
    return {{"axis", {zeros({2})}, attrs_ptr(Attrs{1, 1}), "roll: axis 1 is out of range for shape [2]"},
            {"0-d", {scalar(1)}, {}, "roll: axis -1 is out of range for shape []"}};
  }
};
REGISTER_OP(Roll);

void check_filler(std::string_view op, double value, Dtype dtype) {
  if (is_float(dtype)) return;
  visit(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      if (value != std::trunc(value) || value < double(Limits::lowest()) || value >= double(Limits::max()) + 1)
        fail<DtypeError>(op, ": ", dtype_name(dtype), " does not hold ", value);
    }
  });
}

/// Constants around x. Widths are not negative.
struct Pad {
  static constexpr auto name = "pad";
  static constexpr bool strided = true;
  struct Attrs {
    Dims before, after;
    double value = 0;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    Meta out = in[0];
    if (attrs.before.size() != out.shape.size() || attrs.after.size() != out.shape.size())
      fail<ShapeError>(name, ": ", attrs.before.size(), " widths for the axes of shape ", out.shape);
    check_filler(name, attrs.value, out.dtype);
    for (int axis = 0; axis < out.shape.size(); ++axis) {
      if (attrs.before[axis] < 0 || attrs.after[axis] < 0)
        fail<ShapeError>(name, ": widths before ", attrs.before, " and after ", attrs.after, " must be at least 0");
      out.shape[axis] += attrs.before[axis] + attrs.after[axis];
    }
    return {{out}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    fill(k.out(), attrs.value);
    Tensor inside = k.out();
    for (int axis = 0; axis < inside.dims(); ++axis) inside = part_of(inside, axis, attrs.before[axis], k.in(0).shape()[axis]);
    copy(inside, k.in(0));
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensor g = s.grad();
    for (int axis = 0; axis < g.dims(); ++axis)
      if (attrs.before[axis] + attrs.after[axis] > 0) g = narrow(g, axis, attrs.before[axis], s.in_meta(0).shape[axis]);
    return {g};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {0, 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"both axes", {rng.normal({3, 5})}, attrs_ptr(Attrs{{1, 0}, {0, 2}, -1.5})},
            {"middle axis", {rng.normal({2, 4, 3})}, attrs_ptr(Attrs{{0, 2, 0}, {0, 1, 0}})},
            {"by nothing", {rng.normal({3})}, attrs_ptr(Attrs{{0}, {0}})},
            {"integers", {rng.integers({3}, -9, 9, Dtype::i32)}, attrs_ptr(Attrs{{1}, {1}, -7})},
            {"0-d", {rng.normal({})}, {}},
            {"zero size", {rng.normal({0, 3})}, attrs_ptr(Attrs{{1, 0}, {1, 1}, 2})}};
  }
  static std::vector<BadSample> bad() {
    return {{"widths", {zeros({2, 3})}, attrs_ptr(Attrs{{1}, {0}}), "pad: 1 widths for the axes of shape [2, 3]"},
            {"negative", {zeros({2})}, attrs_ptr(Attrs{{-1}, {0}}), "pad: widths before [-1] and after [0] must be at least 0"},
            {"fraction", {zeros({2}, Dtype::i64)}, attrs_ptr(Attrs{{1}, {0}, 0.5}), "pad: i64 does not hold 0.5"},
            {"range", {zeros({2}, Dtype::u8)}, attrs_ptr(Attrs{{1}, {0}, -1}), "pad: u8 does not hold -1"}};
  }
};
REGISTER_OP(Pad);

/// Throws for widths whose sums could pass 64 bits.
void check_widths(const std::vector<PadWidth>& widths) {
  constexpr int64_t most = int64_t(1) << 60;
  for (size_t axis = 0; axis < widths.size(); ++axis)
    for (const int64_t width : {widths[axis].before, widths[axis].after})
      if (width < -most || width > most) fail<ShapeError>("pad: a width of ", width, " at axis ", axis, " is beyond ", width < 0 ? -most : most);
}

/// x without what negative widths leave out, and the widths that remain.
Tensor cropped(Tensor x, std::vector<PadWidth>& widths) {
  for (int axis = 0; axis < x.dims(); ++axis) {
    auto& [before, after] = widths[size_t(axis)];
    const int64_t from = std::max<int64_t>(-before, 0), length = x.shape()[axis] - from - std::max<int64_t>(-after, 0);
    if (length < 0) fail<ShapeError>("pad: widths ", before, " and ", after, " leave out more than axis ", axis, " of shape ", x.shape(), " has");
    if (length < x.shape()[axis]) x = narrow(x, axis, from, length);
    before = std::max<int64_t>(before, 0);
    after = std::max<int64_t>(after, 0);
  }
  return x;
}

/// The positions that an axis is repeated from.
Tensor padding_index(const Shape& shape, int axis, PadWidth width, PadMode mode, Device device) {
  const int64_t n = shape[axis], longest = std::max(width.before, width.after);
  const char* name = mode == PadMode::edge ? "edge" : mode == PadMode::reflect ? "reflect" : "wrap";
  if (std::min(width.before, width.after) < 0)
    fail<ShapeError>("pad: widths ", width.before, " and ", width.after, " of axis ", axis, ": mode ", name, " takes none below 0");
  if (longest > 0 && (n == 0 || (mode == PadMode::reflect && longest >= n) || (mode == PadMode::wrap && longest > n)))
    fail<ShapeError>("pad: axis ", axis, " of shape ", shape, " is too short for a width of ", longest, " in mode ", name);
  const Tensor index = empty({width.before + n + width.after}, Dtype::i64, device);
  if (device.meta) return index;
  for (int64_t i = 0; i < index.numel(); ++i) {
    const int64_t at = i - width.before;
    const int64_t mirrored = at < 0 ? -at : at < n ? at : 2 * (n - 1) - at;
    index.data<int64_t>()[i] = mode == PadMode::edge ? std::clamp<int64_t>(at, 0, n - 1) : mode == PadMode::reflect ? mirrored : (at + n) % n;
  }
  return index;
}

}  // namespace

Tensor roll(const Tensor& x, int64_t shift, int axis) { return apply<Roll>({x}, {shift, axis}); }

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& axes) {
  if (shifts.size() != axes.size()) fail<ShapeError>("roll: shifts ", shifts, " and axes ", axes, " differ in number");
  Tensor y = x;
  for (int i = 0; i < axes.size(); ++i) y = roll(y, shifts[i], detail::as_axis("roll", axes[i], x.shape()));
  return y;
}

Tensor pad(const Tensor& x, const std::vector<PadWidth>& widths, PadOptions options) {
  if (widths.size() != size_t(x.dims())) fail<ShapeError>("pad: ", widths.size(), " widths for the axes of shape ", x.shape());
  check_widths(widths);
  if (options.mode == PadMode::constant) {
    std::vector<PadWidth> outside = widths;
    const Tensor inside = cropped(x, outside);
    Dims before, after;
    for (const PadWidth& width : outside) {
      before.push_back(width.before);
      after.push_back(width.after);
    }
    return apply<Pad>({inside}, {before, after, options.value});
  }
  Tensor y = x;
  for (int axis = 0; axis < x.dims(); ++axis) {
    const PadWidth width = widths[size_t(axis)];
    if (width.before || width.after) y = index_select(y, axis, padding_index(x.shape(), axis, width, options.mode, x.device()));
  }
  return y;
}

Tensor pad(const Tensor& x, int axis, PadWidth width, PadOptions options) {
  std::vector<PadWidth> widths(size_t(x.dims()));
  widths[size_t(normalize_axis("pad", axis, x.shape()))] = width;
  return pad(x, widths, options);
}

namespace {

/// The axis as the middle one of three, with a new one of `repeats` before or after it.
Tensor repeated(std::string_view op, const Tensor& x, int64_t repeats, int axis, bool each) {
  const int at = normalize_axis(op, axis, x.shape());
  if (repeats < 0) fail<ShapeError>(op, ": repeats must be at least 0, got ", repeats);
  Shape shape = x.shape();
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < at; ++i) outer *= shape[i];
  for (int i = at + 1; i < shape.size(); ++i) inner *= shape[i];
  const int64_t size = shape[at];
  if (__builtin_mul_overflow(size, repeats, &shape[at])) fail<ShapeError>(op, ": ", repeats, " repeats of axis ", at, " of shape ", x.shape(), " are too many");
  const Tensor spread = expand(reshape(x, each ? Shape{outer, size, 1, inner} : Shape{outer, 1, size, inner}),
                               each ? Shape{outer, size, repeats, inner} : Shape{outer, repeats, size, inner});
  return reshape(spread, shape);
}

}  // namespace

Tensor tile(const Tensor& x, int64_t repeats, int axis) { return repeated("tile", x, repeats, axis, false); }
Tensor repeat_interleave(const Tensor& x, int64_t repeats, int axis) { return repeated("repeat_interleave", x, repeats, axis, true); }

}  // namespace spool
