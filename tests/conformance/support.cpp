#include "support.h"

#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace spool::test {

std::vector<Sample> samples_of(const OpInfo& op) {
  Rng rng(11);
  return op.samples(rng);
}

const void* attrs_of(const OpInfo& op, const Sample& sample) { return sample.attrs ? sample.attrs.get() : op.default_attrs.get(); }

Tensors run(const OpInfo& op, const Sample& sample, const Tensors& inputs) { return dispatch(op, inputs, attrs_of(op, sample)); }

uint32_t float_inputs(const Tensors& inputs) {
  uint32_t mask = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && is_float(inputs[i].dtype())) mask |= uint32_t(1) << i;
  return mask;
}

std::vector<uint32_t> need_masks(const Tensors& inputs) {
  const uint32_t all = float_inputs(inputs);
  std::vector<uint32_t> masks;
  if (std::popcount(all) <= 4) {
    for (uint32_t mask = all; mask; mask = (mask - 1) & all) masks.push_back(mask);
    return masks;
  }
  masks.push_back(all);
  for (uint32_t bit = 1; bit && bit <= all; bit <<= 1)
    if (all & bit) masks.push_back(bit);
  return masks;
}

Tensors leaves(const Tensors& inputs, uint32_t mask) {
  Tensors out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    out.push_back(inputs[i].defined() ? inputs[i].detach() : Tensor());
    if (mask >> i & 1) out.back().requires_grad(true);
  }
  return out;
}

Tensors cotangents_for(const Tensors& outputs, uint64_t seed) {
  Rng rng(seed);
  Tensors out;
  for (const Tensor& y : outputs) out.push_back(is_float(y.dtype()) ? converted({rng.normal(y.shape())}, y.dtype())[0] : Tensor());
  return out;
}

void only_floats(Tensors& outputs, Tensors& cotangents) {
  Tensors kept, seeds;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!cotangents[i].defined() || !is_recorded(outputs[i])) continue;
    kept.push_back(outputs[i]);
    seeds.push_back(cotangents[i]);
  }
  outputs = std::move(kept);
  cotangents = std::move(seeds);
}

Gradients run_backward(const OpInfo& op, const Sample& sample, const Tensors& inputs, uint32_t mask, const Tensors& cotangents) {
  const Tensors from = leaves(inputs, mask);
  Tape tape;
  Gradients result;
  result.outputs = run(op, sample, from);
  Tensors outputs = result.outputs, seeds = cotangents.empty() ? cotangents_for(outputs) : cotangents;
  only_floats(outputs, seeds);
  if (outputs.empty()) result.gradients.resize(inputs.size());
  else result.gradients = tape.gradient(outputs, from, seeds);
  return result;
}

const char* layout_name(Layout layout) {
  switch (layout) {
    case Layout::offset: return "offset";
    case Layout::transposed: return "transposed";
    case Layout::stepped: return "stepped";
    case Layout::reversed: return "reversed";
  }
  return "";
}

Tensor laid_out(const Tensor& t, Layout layout) {
  const int dims = t.dims();
  Shape shape = t.shape();
  Strides strides = contiguous_strides(shape);
  int64_t offset = 3;
  if (layout == Layout::transposed) {
    int64_t step = 1;
    for (int axis = 0; axis < dims; ++axis) {
      strides[axis] = step;
      step *= std::max<int64_t>(shape[axis], 1);
    }
  } else if (layout == Layout::stepped) {
    for (auto& stride : strides) stride *= 2;
  } else if (layout == Layout::reversed) {
    for (int axis = 0; axis < dims; ++axis) {
      offset += std::max<int64_t>(shape[axis] - 1, 0) * strides[axis];
      strides[axis] = -strides[axis];
    }
  }
  int64_t room = 3 + std::max<int64_t>(numel(shape), 1) * (layout == Layout::stepped ? 2 : 1) + 2;
  const Tensor base = empty({room}, t.dtype(), t.device());
  if (!t.device().meta) fill(base, 1);  // never read
  const Tensor view = base.view_as(shape, strides, offset);
  if (!t.device().meta) copy(view, t);
  return view;
}

Tensors laid_out(const Tensors& tensors, Layout layout) {
  Tensors out;
  for (const Tensor& t : tensors) out.push_back(t.defined() ? laid_out(t, layout) : t);
  return out;
}

Tensors spread(const Tensors& tensors) {
  Tensors out;
  for (const Tensor& t : tensors) {
    const bool spreads = t.defined() && is_float(t.dtype()) && t.numel() > 0;
    out.push_back(spreads ? contiguous_copy(t.view_as({1}, {1}, t.offset())).view_as(t.shape(), Strides(t.dims(), 0), 0) : t);
  }
  return out;
}

Tensors scalars(const Tensors& tensors) {
  Tensors out;
  for (const Tensor& t : tensors) out.push_back(t.defined() && t.numel() > 0 ? contiguous_copy(t.view_as({}, {}, t.offset())) : t);
  return out;
}

Tensors converted(const Tensors& tensors, Dtype dtype) {
  Tensors out;
  for (const Tensor& t : tensors) {
    out.push_back(t);
    if (!t.defined() || !is_float(t.dtype()) || t.dtype() == dtype) continue;
    out.back() = empty(t.shape(), dtype);
    copy(out.back(), t);
  }
  return out;
}

Tensors resized(const Tensors& tensors, int64_t from, int64_t to) {
  Tensors out;
  for (const Tensor& t : tensors) {
    out.push_back(t);
    if (!t.defined() || std::find(t.shape().begin(), t.shape().end(), from) == t.shape().end()) continue;
    Tensor now = as_contiguous(t);
    for (int axis = 0; axis < t.dims(); ++axis) {
      if (t.shape()[axis] != from) continue;
      Shape shape = now.shape();
      shape[axis] = to;
      const Tensor next = empty(shape, t.dtype());
      Shape piece = shape;
      for (int64_t at = 0; at < to; at += from) {
        piece[axis] = std::min(from, to - at);
        copy(next.view_as(piece, next.strides(), at * next.strides()[axis]), now.view_as(piece, now.strides(), 0));
      }
      now = next;
    }
    out.back() = now;
  }
  return out;
}

/// Work of an enlarged sample: enough for several threads, little enough for the many times that a check runs it.
constexpr double most_flops = 3e7;

std::optional<Tensors> enlarged(const OpInfo& op, const Sample& sample, int64_t elements) {
  std::set<int64_t, std::greater<>> sizes;
  for (const Tensor& t : sample.inputs)
    if (t.defined() && t.numel() > 0)
      for (const int64_t size : t.shape())
        if (size > 1) sizes.insert(size);
  for (const int64_t size : sizes) {
    int64_t to = elements;  // the smallest raise that makes one tensor large
    for (const Tensor& t : sample.inputs) {
      if (!t.defined() || t.numel() == 0) continue;
      const auto repeats = std::count(t.shape().begin(), t.shape().end(), size);
      if (repeats == 1) to = std::min(to, elements / (t.numel() / size) + 1);
      if (repeats > 1) to = std::min<int64_t>(to, 300);
    }
    try {
      Tensors inputs = resized(sample.inputs, size, to);
      Metas metas;
      for (const Tensor& t : inputs) metas.push_back(meta_of(t));
      const AttrsPtr& attrs = sample.attrs ? sample.attrs : op.default_attrs;
      if (op.cost(metas, attrs.get()).flops > most_flops) continue;  // a length that counts twice: raise another size
      const NoGrad quiet;
      run(op, sample, inputs);
      return inputs;
    } catch (const Error&) {
    }
  }
  return {};
}

std::vector<Tensors> variants_of(const OpInfo& op, const Sample& sample, int64_t elements, std::optional<Layout> layout) {
  std::vector<Tensors> variants;
  variants.reserve(3);
  variants.push_back(sample.inputs);
  if (layout) variants.push_back(laid_out(sample.inputs, *layout));
  if (auto large = enlarged(op, sample, elements)) variants.push_back(std::move(*large));
  return variants;
}

int64_t elements_of(const Tensors& inputs) {
  int64_t total = 0;
  for (const Tensor& t : inputs) total += t.defined() ? t.numel() : 0;
  return total;
}

namespace {

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
  else if constexpr (requires { a.bits; }) return a.bits == b.bits || (float(a) != float(a) && float(b) != float(b));
  else return a == b;
}

}  // namespace

std::string bit_difference(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return a.defined() ? "the second is undefined" : "the first is undefined";
  if (!a.defined()) return "";
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return concat(meta_of(a), " and ", meta_of(b));
  const Tensor x = as_contiguous(a), y = as_contiguous(b);
  return visit(a.dtype(), [&]<class T>() -> std::string {
    const T *p = static_cast<const T*>(x.raw()), *q = static_cast<const T*>(y.raw());
    for (int64_t i = 0; i < x.numel(); ++i)
      if (!same(p[i], q[i])) return concat("element ", i, " of ", meta_of(a), ": ", double(p[i]), " and ", double(q[i]));
    return "";
  });
}

std::string bit_difference(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return concat(a.size(), " and ", b.size(), " tensors");
  for (size_t i = 0; i < a.size(); ++i)
    if (const std::string text = bit_difference(a[i], b[i]); !text.empty()) return concat("tensor ", i, ": ", text);
  return "";
}

std::string difference(const std::vector<double>& a, const std::vector<double>& b, double tolerance, double floor) {
  if (a.size() != b.size()) return concat(a.size(), " and ", b.size(), " elements");
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    if (!(std::fabs(a[i] - b[i]) <= tolerance * std::max(floor, std::fabs(b[i]))) || std::isinf(b[i])) return concat("element ", i, ": ", a[i], ", expected ", b[i]);
  }
  return "";
}

std::string difference(const Tensor& a, const Tensor& b, double tolerance, double floor) {
  if (a.defined() != b.defined()) return a.defined() ? "the second is undefined" : "the first is undefined";
  if (!a.defined()) return "";
  if (a.shape() != b.shape()) return concat("shapes ", a.shape(), " and ", b.shape());
  return difference(a.to_vector<double>(), b.to_vector<double>(), tolerance, floor);
}

std::string describe(const Sample& sample) { return describe(sample, sample.inputs); }
std::string describe(const Sample& sample, const Tensors& inputs) {
  std::string text = concat("sample '", sample.label, "' (");
  for (size_t i = 0; i < inputs.size(); ++i) text += concat(i ? ", " : "", inputs[i].defined() ? to_string(meta_of(inputs[i])) : "none");
  return text + ")";
}

}  // namespace spool::test
