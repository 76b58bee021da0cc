#pragma once
// Elements fetched from and added to the places that indices name along an axis. The indices have been checked. Private to ops/.
#include <spool/ops/cpu/bits.h>
#include <spool/ops/cpu/index.h>
#include <spool/tensor/parallel.h>
#include <spool/tensor/strided.h>

#include <type_traits>

namespace spool::kernels {

/// to[… i …] = from[… index[… i …] …] along the axis. `to` and `index` have one shape; any strides.
inline void gather(const Tensor& to, const Tensor& from, int axis, const Tensor& index) {
  if (to.numel() == 0) return;
  Strides steps = from.strides();
  const int64_t jump = steps[axis];
  steps[axis] = 0;
  visit_bits(to.dtype(), [&]<class U>() {
    visit_index("gather", index.dtype(), [&]<class I>() {
      U* y = static_cast<U*>(to.raw());
      const U* x = static_cast<const U*>(from.raw());
      const I* id = static_cast<const I*>(index.raw());
      StridedLoop<3>(to.shape(), {to.strides(), steps, index.strides()}).run([&](const auto& at, int64_t n, const auto& step) {
        U* target = y + at[0];
        if (step[2] == 0) {
          const U* source = x + at[1] + int64_t(id[at[2]]) * jump;
          for (int64_t i = 0; i < n; ++i) target[i * step[0]] = source[i * step[1]];
        } else {
          for (int64_t i = 0; i < n; ++i) target[i * step[0]] = x[at[1] + i * step[1] + int64_t(id[at[2] + i * step[2]]) * jump];
        }
      });
    });
  });
}

/// a + b; integers wrap around.
template <class C>
C wrapping_sum(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    using U = std::make_unsigned_t<C>;
    return static_cast<C>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

/// to[… index[… i …] …] += source[… i …] along the axis, by one thread for each line along it, in the order of i. `index` and `source` have one
/// shape; `strides` are those of `to`.
template <class C, class T>
void scatter_add(C* to, Strides strides, int axis, const Tensor& index, const Tensor& source) {
  if (index.numel() == 0) return;
  Shape lines = index.shape();
  Strides of_index = index.strides(), of_source = source.strides();
  const int64_t length = lines[axis], jump = strides[axis], next_index = of_index[axis], next_source = of_source[axis];
  lines.erase(axis);
  for (Strides* s : {&strides, &of_index, &of_source}) s->erase(axis);
  visit_index("scatter_add", index.dtype(), [&]<class I>() {
    const I* id = static_cast<const I*>(index.raw());
    const T* from = static_cast<const T*>(source.raw());
    const auto along = [&](const auto& at, int64_t n, const auto& step) {
      for (int64_t i = 0; i < length; ++i) {
        const I* place = id + at[1] + i * next_index;
        const T* value = from + at[2] + i * next_source;
        for (int64_t line = 0; line < n; ++line) {
          C& sum = to[at[0] + line * step[0] + int64_t(place[line * step[1]]) * jump];
          sum = wrapping_sum(sum, static_cast<C>(value[line * step[2]]));
        }
      }
    };
    StridedLoop<3>(lines, {strides, of_index, of_source}).run(along, std::max<int64_t>(64, 16384 / length), length);
  });
}

}  // namespace spool::kernels
