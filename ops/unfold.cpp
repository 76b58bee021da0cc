#include <spool/autograd/saved.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/moving.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool {
namespace {

struct Windows {
  int axis = 0;
  int64_t size = 1, step = 1, whole = 0;  ///< Whole: the axis before, used by unfold_backward.
};

/// The shape of all windows.
Shape windows_of(Shape shape, const Windows& w) {
  const int axis = normalize_axis("unfold", w.axis, shape);
  if (w.step < 1) fail<ShapeError>("unfold: step must be at least 1, got ", w.step);
  if (w.size < 0 || w.size > shape[axis])
    fail<ShapeError>("unfold: windows of ", w.size, " elements do not fit axis ", axis, " of shape ", shape);
  shape[axis] = (shape[axis] - w.size) / w.step + 1;
  shape.push_back(w.size);
  return shape;
}

/// dx[i] = Σ over the windows w that hold i of g[w, i - w·step], in the order of the windows.
struct UnfoldBackward {
  static constexpr auto name = "unfold_backward";
  using Attrs = Windows;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, in);
    Shape shape = in[0].shape;
    if (shape.size() < 2) fail<ShapeError>(name, ": needs windows, got shape ", shape);
    shape.erase(shape.size() - 1);
    shape[normalize_axis(name, attrs.axis, shape)] = attrs.whole;
    if (windows_of(shape, attrs) != in[0].shape)
      fail<ShapeError>(name, ": gradient ", in[0].shape, " for windows ", windows_of(shape, attrs), " of ", shape);
    return {{{shape, in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const Shape& shape = k.out().shape();
    const int axis = normalize_axis(name, attrs.axis, shape);
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
    const int64_t whole = shape[axis], size = attrs.size, step = attrs.step, count = k.in(0).shape()[axis];
    const int64_t rows = outer * whole, work = std::max<int64_t>(1, inner * std::min(count, size / step + 1));
    const int64_t group = std::max<int64_t>(1, 16384 / work);
    visit_float(name, k.out().dtype(), [&]<class T>() {
      const T* g = static_cast<const T*>(k.in(0).raw());
      T* dx = static_cast<T*>(k.out().raw());
      parallel_blocks((rows + group - 1) / group, group * work, [&](int64_t block) {
        for (int64_t row = block * group; row < std::min(rows, (block + 1) * group); ++row) {
          const int64_t i = row % whole, first = i < size ? 0 : (i - size) / step + 1, last = std::min(count - 1, i / step);
          const T* from = g + row / whole * count * inner * size;
          for (int64_t c = 0; c < inner; ++c) {
            accumulate_t<T> sum = 0;
            for (int64_t w = first; w <= last; ++w) sum += accumulate_t<T>(from[(w * inner + c) * size + i - w * step]);
            dx[row * inner + c] = static_cast<T>(sum);
          }
        }
      });
    });
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& a) { return {unfold(s.grad(), a.axis, a.size, a.step)}; }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"overlaps", {rng.normal({4, 3})}, attrs_ptr(Attrs{0, 3, 2, 9})},
            {"middle axis", {rng.normal({2, 3, 5, 2})}, attrs_ptr(Attrs{1, 2, 1, 4})},
            {"gaps", {rng.normal({3, 2})}, attrs_ptr(Attrs{-1, 2, 5, 13})},
            {"empty windows", {rng.normal({4, 0})}, attrs_ptr(Attrs{0, 0, 1, 3})},
            {"zero size", {rng.normal({0, 3, 2})}, attrs_ptr(Attrs{1, 2, 1, 4})}};
  }
  static std::vector<BadSample> bad() {
    return {{"count", {zeros({4, 3})}, attrs_ptr(Attrs{0, 3, 2, 8}), "unfold_backward: gradient [4, 3] for windows [3, 3] of [8]"},
            {"axes", {zeros({3})}, attrs_ptr(Attrs{0, 1, 1, 3}), "unfold_backward: needs windows, got shape [3]"}};
  }
};
REGISTER_OP(UnfoldBackward);

struct Unfold {
  static constexpr auto name = "unfold";
  using Attrs = Windows;
  static Tensor view(const Tensor& x, const Attrs& attrs) {
    const Shape shape = windows_of(x.shape(), attrs);
    const int axis = normalize_axis(name, attrs.axis, x.shape());
    Strides strides = x.strides();
    strides.push_back(strides[axis]);
    if (shape[axis] > 1) strides[axis] *= attrs.step;
    return x.view_as(shape, strides, x.offset());
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Attrs back = attrs;
    back.whole = s.in_meta(0).shape[normalize_axis(name, attrs.axis, s.in_meta(0).shape)];
    back.axis = normalize_axis(name, attrs.axis, s.in_meta(0).shape);
    return {apply<UnfoldBackward>({s.grad()}, back)};
  }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"overlaps", {rng.normal({9})}, attrs_ptr(Attrs{0, 3, 2})},
            {"middle axis", {rng.normal({2, 4, 3})}, attrs_ptr(Attrs{-2, 2, 1})},
            {"gaps", {rng.normal({3, 13})}, attrs_ptr(Attrs{1, 2, 5})},
            {"one window", {rng.normal({4})}, attrs_ptr(Attrs{0, 4, 9})},
            {"empty windows", {rng.normal({3})}, attrs_ptr(Attrs{0, 0, 1})},
            {"zero size", {rng.normal({0, 4})}, attrs_ptr(Attrs{1, 2, 1})}};
  }
  static std::vector<BadSample> bad() {
    return {{"step", {zeros({4})}, attrs_ptr(Attrs{0, 2, 0}), "unfold: step must be at least 1, got 0"},
            {"size", {zeros({4})}, attrs_ptr(Attrs{0, 5, 1}), "unfold: windows of 5 elements do not fit axis 0 of shape [4]"},
            {"negative size", {zeros({4})}, attrs_ptr(Attrs{0, -1, 1}), "unfold: windows of -1 elements do not fit axis 0 of shape [4]"},
            {"axis", {zeros({4})}, attrs_ptr(Attrs{1, 2, 1}), "unfold: axis 1 is out of range for shape [4]"}};
  }
};
REGISTER_OP(Unfold);

}  // namespace

Tensor unfold(const Tensor& x, int axis, int64_t size, int64_t step) { return apply<Unfold>({x}, {axis, size, step}); }

}  // namespace spool
