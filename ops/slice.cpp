#include <spool/autograd/saved.h>
#include <spool/ops/reshape.h>
#include <spool/ops/slice.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cstdlib>

namespace spool {
namespace {

/// A range as the user wrote it; `size` is the axis of the whole, used by slice_backward.
struct Range {
  int axis = 0;
  int64_t begin = 0, end = slice_end, step = 1, size = 0;
};

/// The range as positions: where it begins and how many elements it takes, with that step.
struct Part {
  int axis;
  int64_t begin, count;
};

Part part_in(const Shape& shape, const Range& r) {
  const int axis = normalize_axis("slice", r.axis, shape);
  if (r.step == 0) fail<ShapeError>("slice: step must not be 0");
  const bool down = r.step < 0;
  const int64_t size = shape[axis], lowest = down ? -1 : 0, highest = down ? size - 1 : size;
  const auto place = [=](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, lowest, highest); };
  const int64_t begin = place(r.begin), end = down && r.end == slice_end ? -1 : place(r.end);
  const int64_t length = std::max<int64_t>(down ? begin - end : end - begin, 0);
  return {axis, begin, length > 0 ? (length - 1) / std::abs(std::max(r.step, -slice_end)) + 1 : 0};
}

Tensor part_of(const Tensor& x, const Range& r) {
  const Part part = part_in(x.shape(), r);
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[part.axis] = part.count;
  const int64_t offset = x.offset() + (part.count > 0 ? part.begin * strides[part.axis] : 0);
  if (part.count > 1) strides[part.axis] *= r.step;
  return x.view_as(shape, strides, offset);
}

struct SliceBackward {
  static constexpr auto name = "slice_backward";
  static constexpr bool strided = true;
  using Attrs = Range;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    Shape shape = in[0].shape;
    const int axis = normalize_axis(name, attrs.axis, shape);
    const int64_t given = shape[axis];
    shape[axis] = attrs.size;
    const int64_t expected = part_in(shape, attrs).count;
    if (given != expected) fail<ShapeError>(name, ": gradient ", in[0].shape, " for a slice of ", expected, " elements along axis ", axis);
    return {{{shape, in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    fill(k.out(), 0);
    copy(part_of(k.out(), attrs), k.in(0));
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& a) { return {slice(s.grad(), a.axis, a.begin, a.end, a.step)}; }
  static Cost cost(const Metas& in, const Attrs&) { return {0, 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({2, 5})}, attrs_ptr(Range{0, 1, 3, 1, 4})},
            {"every other column", {rng.normal({3, 4})}, attrs_ptr(Range{-1, 0, slice_end, 2, 7})},
            {"down", {rng.normal({3, 3})}, attrs_ptr(Range{1, -1, slice_end, -2, 6})},
            {"empty part", {rng.normal({0, 3})}, attrs_ptr(Range{0, 2, 2, 1, 4})}};
  }
  static std::vector<BadSample> bad() {
    return {{"size", {zeros({3})}, attrs_ptr(Range{0, 0, 2, 1, 4}), "slice_backward: gradient [3] for a slice of 2 elements along axis 0"}};
  }
};
REGISTER_OP(SliceBackward);

struct Slice {
  static constexpr auto name = "slice";
  using Attrs = Range;
  static Tensor view(const Tensor& x, const Attrs& attrs) { return part_of(x, attrs); }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    if (const Tensor whole = s.target(0); whole.defined()) {
      accumulate(part_of(whole, attrs), s.grad());
      return {whole};
    }
    Attrs back = attrs;
    back.size = s.in_meta(0).shape[normalize_axis(name, attrs.axis, s.in_meta(0).shape)];
    return {apply<SliceBackward>({s.grad()}, back)};
  }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({4, 5})}, attrs_ptr(Range{0, 1, 3})},
            {"columns from the end", {rng.normal({2, 3, 7})}, attrs_ptr(Range{-1, -4, -1})},
            {"step", {rng.normal({3, 8})}, attrs_ptr(Range{1, 1, slice_end, 3})},
            {"down", {rng.normal({3, 8})}, attrs_ptr(Range{1, -2, 1, -3})},
            {"down to the first", {rng.normal({5, 2})}, attrs_ptr(Range{0, slice_end, slice_end, -2})},
            {"one long step", {rng.normal({5, 2})}, attrs_ptr(Range{0, 3, slice_end, slice_end})},
            {"beyond the end", {rng.normal({5})}, attrs_ptr(Range{0, 3, 99})},
            {"whole", {rng.normal({5})}, attrs_ptr(Range{})},
            {"empty", {rng.normal({5, 2})}, attrs_ptr(Range{0, 4, 2})},
            {"zero size", {rng.normal({0, 2})}, attrs_ptr(Range{0, 0, 3})}};
  }
  static std::vector<BadSample> bad() {
    return {{"axis", {zeros({2})}, attrs_ptr(Range{1}), "slice: axis 1 is out of range for shape [2]"},
            {"0-d", {zeros({})}, attrs_ptr(Range{}), "slice: axis 0 is out of range for shape []"},
            {"step", {zeros({2})}, attrs_ptr(Range{0, 0, 2, 0}), "slice: step must not be 0"}};
  }
};
REGISTER_OP(Slice);

}  // namespace

Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end, int64_t step) { return apply<Slice>({x}, {axis, begin, end, step}); }

Tensor narrow(const Tensor& x, int axis, int64_t start, int64_t length) {
  const int64_t size = x.shape()[normalize_axis("narrow", axis, x.shape())];
  if (start < 0 || length < 0 || start > size - length) {
    fail<ShapeError>("narrow: ", length, " elements from ", start, " leave axis ", axis, " of shape ", x.shape());
  }
  return slice(x, axis, start, start + length);
}

Tensor select(const Tensor& x, int axis, int64_t index) {
  const int at = normalize_axis("select", axis, x.shape());
  const int64_t size = x.shape()[at];
  if (index < -size || index >= size)
    fail<IndexError>("select: index ", index, " is out of range for axis ", axis, " of shape ", x.shape());
  const int64_t start = index < 0 ? index + size : index;
  return squeeze(slice(x, at, start, start + 1), at);
}

Tensors split(const Tensor& x, int64_t size, int axis) {
  if (size < 1) fail<ShapeError>("split: size must be at least 1, got ", size);
  const int64_t whole = x.shape()[normalize_axis("split", axis, x.shape())];
  Tensors parts;
  for (int64_t at = 0; at < whole; at += size) parts.push_back(slice(x, axis, at, std::min(whole, at + size)));
  return parts;
}

Tensors split(const Tensor& x, const Dims& sizes, int axis) {
  int64_t total = 0;
  bool counts = true;
  for (const int64_t size : sizes) counts = counts && !__builtin_add_overflow(total, size, &total);
  if (!counts || total != x.shape()[normalize_axis("split", axis, x.shape())])
    fail<ShapeError>("split: sizes ", sizes, " do not add up to axis ", axis, " of shape ", x.shape());
  Tensors parts;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    parts.push_back(narrow(x, axis, at, size));
    at += size;
  }
  return parts;
}

Tensors chunk(const Tensor& x, int64_t count, int axis) {
  if (count < 1) fail<ShapeError>("chunk: count must be at least 1, got ", count);
  const int64_t whole = x.shape()[normalize_axis("chunk", axis, x.shape())];
  return whole == 0 ? Tensors{slice(x, axis, 0, 0)} : split(x, (whole - 1) / count + 1, axis);
}

}  // namespace spool
