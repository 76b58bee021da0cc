#include <spool/ops/cpu/gather.h>
#include <spool/ops/detail/scatter_op.h>
#include <spool/ops/expand.h>
#include <spool/ops/indexing.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

struct AlongAxis {
  int axis = 0;
};

/// The axis; throws unless the index has as many axes as x and is nowhere else longer.
int checked_axis(std::string_view op, const AlongAxis& attrs, const Meta& x, const Meta& index) {
  kernels::require_index(op, index.dtype);
  const int axis = normalize_axis(op, attrs.axis, x.shape);
  bool fits = index.shape.size() == x.shape.size();
  for (int i = 0; fits && i < x.shape.size(); ++i) fits = i == axis || index.shape[i] <= x.shape[i];
  if (!fits) fail<ShapeError>(op, ": index ", index.shape, " does not fit ", x.shape, " along axis ", axis, "; only that axis may be longer");
  return axis;
}

struct Gather {
  static constexpr auto name = "gather";
  static constexpr bool strided = true;
  using Attrs = AlongAxis;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    checked_axis(name, attrs, in[0], in[1]);
    return {{{in[1].shape, in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const int axis = normalize_axis(name, attrs.axis, k.in(0).shape());
    kernels::check_indices(name, k.in(1), k.in(0).shape()[axis]);
    kernels::gather(k.out(), k.in(0), axis, k.in(1));
  }
  static Saves saves(Need) { return Saves().input(1); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Tensor g = s.grad(), &index = s.input(1);
    const Shape& shape = s.in_meta(0).shape;
    const int axis = normalize_axis(name, attrs.axis, shape);
    if (Tensor sum = detail::scatter_into_target(s, axis, index, g); sum.defined()) return {sum, {}};
    return {scatter_add(zeros_view(shape, g.dtype(), g.device()), axis, index, g), {}};
  }
  static Cost cost(const Metas& in, const Attrs&) {
    return {0, double(numel(in[1].shape)) * double(2 * dtype_size(in[0].dtype) + dtype_size(in[1].dtype))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({3, 5}), rng.integers({7, 5}, 0, 3)}, {}},
            {"columns, bytes, shorter", {rng.normal({4, 5}), rng.integers({3, 2}, 0, 5, Dtype::u8)}, attrs_ptr(Attrs{-1})},
            {"middle axis, i32", {rng.normal({2, 4, 3}), rng.integers({2, 9, 3}, 0, 4, Dtype::i32)}, attrs_ptr(Attrs{1})},
            {"of integers", {rng.integers({4}, -9, 9, Dtype::i32), rng.integers({6}, 0, 4)}, {}},
            {"no indices", {rng.normal({3, 2}), rng.integers({0, 2}, 0, 3)}, {}},
            {"no lines", {rng.normal({0, 3}), rng.integers({0, 2}, 0, 3)}, attrs_ptr(Attrs{1})}};
  }
  static std::vector<BadSample> bad() {
    const Tensor x = zeros({3, 2}), last = from(std::initializer_list<double>{0, 2, 3, 0}, Shape{2, 2}, Dtype::i64);
    return {{"too large", {x, last}, {}, "gather: index 3 at position 2 is out of range for 3"},
            {"negative",
             {x, from(std::initializer_list<double>{0, -1}, Shape{1, 2}, Dtype::i32)},
             {},
             "gather: index -1 at position 1 is out of range for 3"},
            {"of nothing", {zeros({0, 2}), zeros({1, 2}, Dtype::i64)}, {}, "gather: index 0 at position 0 is out of range for 0"},
            {"axes", {x, zeros({2}, Dtype::i64)}, {}, "gather: index [2] does not fit [3, 2] along axis 0"},
            {"longer", {x, zeros({3, 3}, Dtype::i64)}, {}, "gather: index [3, 3] does not fit [3, 2] along axis 0; only that axis may be longer"},
            {"axis", {x, last}, attrs_ptr(Attrs{2}), "gather: axis 2 is out of range for shape [3, 2]"},
            {"floats", {x, zeros({3, 2})}, {}, "gather: needs u8, i32 or i64 indices, got f32"}};
  }
};
REGISTER_OP(Gather);

struct ScatterAdd {
  static constexpr auto name = "scatter_add";
  static constexpr bool strided = true;
  using Attrs = AlongAxis;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    detail::check_summands(name, in[0], in[2]);
    checked_axis(name, attrs, in[0], in[1]);
    if (in[2].shape != in[1].shape) fail<ShapeError>(name, ": source ", in[2].shape, " and index ", in[1].shape, " differ");
    return {{in[0]}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs&) { return detail::scatter_scratch(in[0]); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const int axis = normalize_axis(name, attrs.axis, k.in(0).shape());
    kernels::check_indices(name, k.in(1), k.in(0).shape()[axis]);
    detail::scatter(k, axis, k.in(1), k.in(2));
  }
  static Saves saves(Need need) { return Saves().input(1, need(2)); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    return {s.grad(), {}, s.needs(2) ? gather(s.grad(), attrs.axis, s.input(1)) : Tensor()};
  }
  static Cost cost(const Metas& in, const Attrs&) {
    return {double(numel(in[1].shape)), 2.0 * double(in[0].nbytes()) + double(in[1].nbytes()) + double(in[2].nbytes())};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({3, 5}), rng.integers({7, 5}, 0, 3), rng.normal({7, 5})}, {}},
            {"columns, bytes, shorter", {rng.normal({4, 5}), rng.integers({3, 2}, 0, 5, Dtype::u8), rng.normal({3, 2})}, attrs_ptr(Attrs{-1})},
            {"middle axis, i32", {rng.normal({2, 4, 3}), rng.integers({2, 9, 3}, 0, 4, Dtype::i32), rng.normal({2, 9, 3})}, attrs_ptr(Attrs{1})},
            {"of integers", {rng.integers({4}, -9, 9), rng.integers({6}, 0, 4), rng.integers({6}, -9, 9)}, {}},
            {"nothing to add", {rng.normal({3, 2}), rng.integers({0, 2}, 0, 3), rng.normal({0, 2})}, {}},
            {"no lines", {rng.normal({0, 3}), rng.integers({0, 2}, 0, 3), rng.normal({0, 2})}, attrs_ptr(Attrs{1})}};
  }
  static std::vector<BadSample> bad() {
    const Tensor x = zeros({3}), index = from(std::initializer_list<double>{0, 3}, {}, Dtype::i64), two = zeros({2});
    return {{"too large", {x, index, two}, {}, "scatter_add: index 3 at position 1 is out of range for 3"},
            {"source shape", {x, index, x}, {}, "scatter_add: source [3] and index [2] differ"},
            {"index shape", {x, zeros({1, 2}, Dtype::i64), zeros({1, 2})}, {}, "scatter_add: index [1, 2] does not fit [3] along axis 0"},
            {"types", {x, index, zeros({2}, Dtype::f64)}, {}, "scatter_add: inputs are f32 and f64; convert one with cast()"},
            {"booleans", {zeros({3}, Dtype::boolean), index, zeros({2}, Dtype::boolean)}, {}, "scatter_add: needs numbers, got bool"},
            {"floats", {x, two, two}, {}, "scatter_add: needs u8, i32 or i64 indices, got f32"}};
  }
};
REGISTER_OP(ScatterAdd);

}  // namespace

Tensor gather(const Tensor& x, int axis, const Tensor& index) { return apply<Gather>({x, index}, {axis}); }

Tensor take_along(const Tensor& x, const Tensor& index, int axis) {
  const int at = normalize_axis("take_along", axis, x.shape());
  if (index.dims() != x.dims())
    fail<ShapeError>("take_along: index ", index.shape(), " and values ", x.shape(), " must have as many axes; unsqueeze() one");
  Shape from = x.shape(), to = index.shape();
  from[at] = to[at] = 1;
  const Shape others = broadcast_shapes("take_along", from, to);
  from = to = others;
  from[at] = x.shape()[at];
  to[at] = index.shape()[at];
  return gather(expand(x, from), at, expand(index, to));
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source) {
  return apply<ScatterAdd>({x, index, source}, {axis});
}

}  // namespace spool
