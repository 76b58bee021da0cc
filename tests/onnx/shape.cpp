// Nodes that move elements.
#include "translate.h"

#include <algorithm>

namespace spool::onnx_test {
namespace {

using V = const Vector&;

Shape shape_from(const std::vector<int64_t>& sizes) { return Shape(std::span(sizes)); }

/// A 0 stands for the size of the input at that place, unless zeros are allowed to mean 0.
Tensors reshape_to(V v) {
  auto sizes = v.numbers(1);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 0 && !v.attributes.integer("allowzero")) sizes[i] = v.in().size(int(i));
  return {reshape(v.in(), shape_from(sizes))};
}
Tensors flatten_to(V v) {
  int64_t axis = v.attributes.integer("axis", 1), rows = 1;
  if (axis < 0) axis += v.in().dims();
  for (int i = 0; i < axis; ++i) rows *= v.in().size(i);
  return {reshape(v.in(), {rows, -1})};
}
Tensors transposed(V v) {
  Dims order;
  for (const int64_t axis : v.attributes.integers("perm")) order.push_back(axis);
  if (order.empty())
    for (int i = v.in().dims() - 1; i >= 0; --i) order.push_back(i);
  return {permute(v.in(), order)};
}
Tensors unsqueezed(V v) {
  const auto axes = v.has(1) ? v.numbers(1) : v.attributes.integers("axes");
  const int dims = v.in().dims() + int(axes.size());
  std::vector<int64_t> places;
  for (const int64_t axis : axes) places.push_back(axis < 0 ? axis + dims : axis);
  std::sort(places.begin(), places.end());
  Tensor y = v.in();
  for (const int64_t place : places) y = unsqueeze(y, int(place));
  return {y};
}
Tensors squeezed(V v) {
  Tensor y = v.in();
  for (const int64_t axis : v.has(1) ? v.numbers(1) : v.attributes.integers("axes")) y = squeeze(y, int(axis));
  return {y};
}
/// Both shapes broadcast against each other.
Tensors expanded(V v) {
  auto sizes = v.numbers(1);
  const int dims = v.in().dims();
  for (size_t i = 0; i < sizes.size(); ++i)
    if (const int axis = int(i) - int(sizes.size()); -axis <= dims && sizes[i] == 1) sizes[i] = v.in().size(axis);
  return {expand(v.in(), shape_from(sizes))};
}
Tensors sliced(V v) {
  const auto begins = v.numbers(1), ends = v.numbers(2);
  Tensor y = v.in();
  for (size_t i = 0; i < begins.size(); ++i) {
    const int axis = v.has(3) ? int(v.numbers(3)[i]) : int(i);
    y = slice(y, axis, begins[i], ends[i], v.has(4) ? v.numbers(4)[i] : 1);
  }
  return {y};
}
Tensors parts(V v) {
  const int axis = axis_of(v, 0);
  if (v.has(1)) {
    const auto sizes = v.numbers(1);
    return split(v.in(), Dims(std::span(sizes)), axis);
  }
  return split(v.in(), v.in().size(axis) / int64_t(v.outputs.size()), axis);
}
Tensors triangle(V v) {
  const int64_t diagonal = v.has(1) ? int64_t(v.in(1).item()) : 0;
  return {v.attributes.integer("upper", 1) ? triu(v.in(), diagonal) : tril(v.in(), diagonal)};
}
/// Widths come as all before, then all after.
Tensors padded(V v) {
  const auto widths = v.numbers(1);
  const int dims = v.in().dims();
  const std::string mode = v.attributes.text("mode", "constant");
  std::vector<PadWidth> all;
  for (int i = 0; i < dims; ++i) all.push_back({widths[size_t(i)], widths[size_t(i + dims)]});
  return {pad(v.in(), all, {.mode = mode == "edge" ? PadMode::edge : mode == "reflect" ? PadMode::reflect : PadMode::constant, .value = v.has(2) ? v.in(2).item() : 0})};
}
Tensors tiled(V v) {
  Tensor y = v.in();
  const auto repeats = v.numbers(1);
  for (size_t i = 0; i < repeats.size(); ++i) y = concat(Tensors(size_t(repeats[i]), y), int(i));
  return {y};
}
/// [b, c, h, w] cut into blocks or joined from them: axes split, permuted and joined again.
Tensors depth_to_space(V v) {
  const int64_t s = v.attributes.integer("blocksize"), b = v.in().size(0), c = v.in().size(1) / (s * s), h = v.in().size(2), w = v.in().size(3);
  const bool column_first = v.attributes.text("mode", "DCR") == "DCR";
  const Tensor blocks = column_first ? permute(reshape(v.in(), {b, s, s, c, h, w}), {0, 3, 4, 1, 5, 2}) : permute(reshape(v.in(), {b, c, s, s, h, w}), {0, 1, 4, 2, 5, 3});
  return {reshape(blocks, {b, c, h * s, w * s})};
}
Tensors space_to_depth(V v) {
  const int64_t s = v.attributes.integer("blocksize"), b = v.in().size(0), c = v.in().size(1), h = v.in().size(2) / s, w = v.in().size(3) / s;
  return {reshape(permute(reshape(v.in(), {b, c, h, s, w, s}), {0, 3, 5, 1, 2, 4}), {b, c * s * s, h, w})};
}

/// Indices from the end are allowed there and refused here.
Tensor from_start(const Tensor& index, int64_t size) { return where(less(index, 0), index + double(size), index); }
Tensors gathered(V v) {
  const int axis = normalize_axis("gather", axis_of(v, 0), v.in().shape());
  Shape shape(std::span(v.in().shape().begin(), size_t(axis)));
  for (const int64_t size : v.in(1).shape()) shape.push_back(size);
  for (int i = axis + 1; i < v.in().dims(); ++i) shape.push_back(v.in().size(i));
  return {reshape(index_select(v.in(), axis, flatten(from_start(v.in(1), v.in().size(axis)))), shape)};
}
Tensors gathered_elements(V v) { return {gather(v.in(), axis_of(v, 0), from_start(v.in(1), v.in().size(axis_of(v, 0))))}; }
/// Only where updates are added: Spool has no scatter that overwrites.
Tensors scattered_elements(V v) {
  const int axis = axis_of(v, 0);
  return {scatter_add(v.in(), axis, from_start(v.in(1), v.in().size(axis)), v.in(2))};
}
/// Tuples of indices as places in the axes they speak of, joined; leading batch axes are part of the tuple.
Tensors gathered_tuples(V v) {
  const int batch = int(v.attributes.integer("batch_dims"));
  Tensor index = v.in(1), x = v.in(0);
  if (batch == 1) {  // the batch's own number in front of each tuple
    Shape shape = index.shape();
    shape[shape.size() - 1] = 1;
    Shape column(shape.size(), 1);
    column[0] = shape[0];
    index = concat({expand(reshape(arange(shape[0]), column), shape), index}, -1);
  }
  const int tuple = int(index.shape().back());
  Tensor place = select(index, -1, 0);
  for (int i = 1; i < tuple; ++i) place = place * double(x.size(i)) + select(index, -1, i);
  Shape shape = place.shape();
  for (int i = tuple; i < x.dims(); ++i) shape.push_back(x.size(i));
  return {reshape(index_select(tuple > 1 ? flatten(x, 0, tuple - 1) : x, 0, flatten(place)), shape)};
}
Tensors hot(V v) {
  const int64_t depth = int64_t(v.in(1).item());
  const auto values = v.in(2).to_vector<double>();
  const Tensor ids = cast(v.in(0), Dtype::i64), on = one_hot(from_start(ids, depth), depth, v.in(2).dtype());
  Dims order;
  for (int i = 0; i < on.dims() - 1; ++i) order.push_back(i);
  const int64_t axis = v.attributes.integer("axis", -1);
  order.insert(int(axis < 0 ? axis + on.dims() : axis), on.dims() - 1);
  return {permute(where(greater(on, 0.5), full({}, values[1], on.dtype()), full({}, values[0], on.dtype())), order)};
}
Tensors like_eye(V v) {
  static const std::map<int64_t, Dtype> types = {{1, Dtype::f32}, {6, Dtype::i32}, {11, Dtype::f64}};
  const Dtype dtype = v.attributes.has("dtype") ? types.at(v.attributes.integer("dtype")) : v.in().dtype();
  const int64_t k = v.attributes.integer("k");
  return {tril(triu(ones(v.in().shape(), dtype), k), k)};
}
Tensors constant_of_shape(V v) {
  const Tensor value = v.attributes.tensor("value");
  return {full(shape_from(v.numbers(0)), value.item(), value.dtype())};
}
Tensors range(V v) {
  const double from = v.in(0).item(), to = v.in(1).item(), step = v.in(2).item();
  return {arange(int64_t((to - from) / step + 0.999999), v.in(0).dtype()) * step + from};
}

[[maybe_unused]] const bool added = add_translations({
    {"Reshape", reshape_to},
    {"Flatten", flatten_to},
    {"Transpose", transposed},
    {"Unsqueeze", unsqueezed},
    {"Squeeze", squeezed},
    {"Expand", expanded},
    {"Slice", sliced},
    {"Split", parts},
    {"Concat", [](V v) { return Tensors{concat(v.inputs, axis_of(v, 0))}; }},
    {"Trilu", triangle},
    {"Pad", padded},
    {"Tile", tiled},
    {"DepthToSpace", depth_to_space},
    {"SpaceToDepth", space_to_depth},
    {"Gather", gathered},
    {"GatherElements", gathered_elements},
    {"GatherND", gathered_tuples},
    {"ScatterElements", scattered_elements},
    {"OneHot", hot},
    {"EyeLike", like_eye},
    {"ConstantOfShape", constant_of_shape},
    {"Range", range},
});

}  // namespace
}  // namespace spool::onnx_test
