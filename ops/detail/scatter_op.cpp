#include <spool/ops/cpu/gather.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/detail/scatter_op.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

namespace spool::detail {
namespace {

template <class From, class To>
void converted(const From* from, To* to, int64_t n) {
  parallel_range(n, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
  });
}

}  // namespace

void check_summands(std::string_view op, const Meta& x, const Meta& source) {
  if (x.dtype == Dtype::boolean) fail<DtypeError>(op, ": needs numbers, got bool; convert with cast()");
  if (x.dtype != source.dtype)
    fail<DtypeError>(op, ": inputs are ", dtype_name(x.dtype), " and ", dtype_name(source.dtype), "; convert one with cast()");
}

int64_t scatter_scratch(const Meta& x) { return dtype_size(x.dtype) == 2 ? numel(x.shape) * int64_t(sizeof(float)) : 0; }

void scatter(const Kernel& k, int axis, const Tensor& index, const Tensor& source) {
  const Tensor& out = k.out();
  copy(out, k.in(0));
  visit(out.dtype(), [&]<class T>() {
    T* to = static_cast<T*>(out.raw());
    if constexpr (kernels::is_16_bit<T>) {
      auto* sums = reinterpret_cast<float*>(k.scratch.data());
      converted(to, sums, out.numel());
      kernels::scatter_add<float, T>(sums, out.strides(), axis, index, source);
      converted(sums, to, out.numel());
    } else if constexpr (!std::is_same_v<T, bool>) {
      kernels::scatter_add<T, T>(to, out.strides(), axis, index, source);
    }
  });
}

Tensor scatter_into_target(Saved& s, int axis, const Tensor& index, const Tensor& g) {
  const Tensor target = s.target(0);
  if (!target.defined() || dtype_size(target.dtype()) == 2) return {};
  bump_version(target);
  if (target.device().meta) return target;
  visit_float("scatter_add", target.dtype(), [&]<class T>() {
    if constexpr (!kernels::is_16_bit<T>)
      kernels::scatter_add<T, T>(static_cast<T*>(target.raw()), target.strides(), axis, index, g);
  });
  return target;
}

Tensor spread_index(const Tensor& index, const Shape& shape, int axis) {
  Strides strides(shape.size(), 0);
  strides[axis] = index.strides()[0];
  return index.view_as(shape, strides, index.offset());
}

}  // namespace spool::detail
