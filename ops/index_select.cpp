#include <spool/ops/cpu/gather.h>
#include <spool/ops/detail/scatter_op.h>
#include <spool/ops/indexing.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

struct AlongAxis {
  int axis = 0;
};

/// The shape of the slices that the index names, and the axis.
std::pair<Shape, int> selected(std::string_view op, const AlongAxis& attrs, const Meta& x, const Meta& index) {
  kernels::require_index(op, index.dtype);
  const int axis = normalize_axis(op, attrs.axis, x.shape);
  if (index.shape.size() != 1) fail<ShapeError>(op, ": the index must have one axis, got ", index.shape);
  Shape shape = x.shape;
  shape[axis] = index.shape[0];
  return {shape, axis};
}

struct IndexSelect {
  static constexpr auto name = "index_select";
  static constexpr bool strided = true;
  using Attrs = AlongAxis;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    return {{{selected(name, attrs, in[0], in[1]).first, in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const int axis = normalize_axis(name, attrs.axis, k.in(0).shape());
    kernels::check_indices(name, k.in(1), k.in(0).shape()[axis]);
    kernels::gather(k.out(), k.in(0), axis, detail::spread_index(k.in(1), k.out().shape(), axis));
  }
  static Saves saves(Need) { return Saves().input(1); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Tensor g = s.grad(), &index = s.input(1);
    const Shape& shape = s.in_meta(0).shape;
    const int axis = normalize_axis(name, attrs.axis, shape);
    if (Tensor sum = detail::scatter_into_target(s, axis, detail::spread_index(index, g.shape(), axis), g); sum.defined()) return {sum, {}};
    return {index_add(zeros_view(shape, g.dtype(), g.device()), axis, index, g), {}};
  }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    return {0, 2.0 * double(numel(selected(name, attrs, in[0], in[1]).first)) * double(dtype_size(in[0].dtype))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({3, 5}), rng.integers({7}, 0, 3)}, {}},
            {"columns, bytes", {rng.normal({4, 5}), rng.integers({3}, 0, 5, Dtype::u8)}, attrs_ptr(Attrs{-1})},
            {"middle axis, i32", {rng.normal({2, 4, 3}), rng.integers({9}, 0, 4, Dtype::i32)}, attrs_ptr(Attrs{1})},
            {"of booleans", {rng.booleans({4}), rng.integers({6}, 0, 4)}, {}},
            {"no indices", {rng.normal({3, 2}), rng.integers({0}, 0, 3)}, {}},
            {"zero size", {rng.normal({3, 0}), rng.integers({2}, 0, 3)}, {}}};
  }
  static std::vector<BadSample> bad() {
    const Tensor x = zeros({3, 2}), index = from(std::initializer_list<double>{0, 2, 3}, {}, Dtype::i64);
    return {{"too large", {x, index}, {}, "index_select: index 3 at position 2 is out of range for 3"},
            {"negative",
             {x, from(std::initializer_list<double>{-1}, {}, Dtype::i32)},
             {},
             "index_select: index -1 at position 0 is out of range for 3"},
            {"axes", {x, zeros({1, 2}, Dtype::i64)}, {}, "index_select: the index must have one axis, got [1, 2]"},
            {"axis", {x, index}, attrs_ptr(Attrs{-3}), "index_select: axis -3 is out of range for shape [3, 2]"},
            {"floats", {x, zeros({3})}, {}, "index_select: needs u8, i32 or i64 indices, got f32"}};
  }
};
REGISTER_OP(IndexSelect);

struct IndexAdd {
  static constexpr auto name = "index_add";
  static constexpr bool strided = true;
  using Attrs = AlongAxis;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    detail::check_summands(name, in[0], in[2]);
    const auto [shape, axis] = selected(name, attrs, in[0], in[1]);
    if (in[2].shape != shape)
      fail<ShapeError>(name, ": source ", in[2].shape, " for index ", in[1].shape, " along axis ", axis, " of ", in[0].shape, ", expected ", shape);
    return {{in[0]}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs&) { return detail::scatter_scratch(in[0]); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const int axis = normalize_axis(name, attrs.axis, k.in(0).shape());
    kernels::check_indices(name, k.in(1), k.in(0).shape()[axis]);
    detail::scatter(k, axis, detail::spread_index(k.in(1), k.in(2).shape(), axis), k.in(2));
  }
  static Saves saves(Need need) { return Saves().input(1, need(2)); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    return {s.grad(), {}, s.needs(2) ? index_select(s.grad(), attrs.axis, s.input(1)) : Tensor()};
  }
  static Cost cost(const Metas& in, const Attrs&) {
    return {double(numel(in[2].shape)), 2.0 * double(in[0].nbytes()) + double(in[2].nbytes())};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({3, 5}), rng.integers({7}, 0, 3), rng.normal({7, 5})}, {}},
            {"columns, bytes", {rng.normal({4, 5}), rng.integers({3}, 0, 5, Dtype::u8), rng.normal({4, 3})}, attrs_ptr(Attrs{-1})},
            {"middle axis, i32", {rng.normal({2, 4, 3}), rng.integers({9}, 0, 4, Dtype::i32), rng.normal({2, 9, 3})}, attrs_ptr(Attrs{1})},
            {"of integers", {rng.integers({4}, -9, 9, Dtype::i32), rng.integers({6}, 0, 4), rng.integers({6}, -9, 9, Dtype::i32)}, {}},
            {"nothing to add", {rng.normal({3, 2}), rng.integers({0}, 0, 3), rng.normal({0, 2})}, {}},
            {"zero size", {rng.normal({3, 0}), rng.integers({2}, 0, 3), rng.normal({2, 0})}, {}}};
  }
  static std::vector<BadSample> bad() {
    const Tensor x = zeros({3, 2}), index = from(std::initializer_list<double>{0, 3}, {}, Dtype::i64), source = zeros({2, 2});
    return {{"too large", {x, index, source}, {}, "index_add: index 3 at position 1 is out of range for 3"},
            {"source shape", {x, index, x}, {}, "index_add: source [3, 2] for index [2] along axis 0 of [3, 2], expected [2, 2]"},
            {"types", {x, index, zeros({2, 2}, Dtype::f64)}, {}, "index_add: inputs are f32 and f64; convert one with cast()"},
            {"booleans", {zeros({3}, Dtype::boolean), index, zeros({2}, Dtype::boolean)}, {}, "index_add: needs numbers, got bool"},
            {"axes", {x, zeros({1, 2}, Dtype::i64), source}, {}, "index_add: the index must have one axis, got [1, 2]"}};
  }
};
REGISTER_OP(IndexAdd);

}  // namespace

Tensor index_select(const Tensor& x, int axis, const Tensor& index) { return apply<IndexSelect>({x, index}, {axis}); }
Tensor index_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source) { return apply<IndexAdd>({x, index, source}, {axis}); }

}  // namespace spool
