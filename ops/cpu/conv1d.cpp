#include <spool/ops/cpu/clones.h>
#include <spool/ops/cpu/conv1d.h>
#include <spool/ops/cpu/gemm.h>
#include <spool/ops/cpu/lane_sum.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/tensor/parallel.h>

#include <algorithm>

namespace spool::kernels {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

constexpr int64_t piece = 1024;  // outputs that are summed on the stack

/// sum[i] += factor·x[i·step]
template <class T, class C>
SPOOL_CLONES void add_scaled(C* __restrict sum, const T* __restrict x, C factor, int64_t n, int64_t step) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) sum[i] += factor * load(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) sum[i] += factor * load(x[i * step]);
  }
}
/// sum[i·step] += factor·x[i]
template <class T, class C>
SPOOL_CLONES void spread_scaled(C* __restrict sum, const T* __restrict x, C factor, int64_t n, int64_t step) {
  for (int64_t i = 0; i < n; ++i) sum[i * step] += factor * load(x[i]);
}
template <class T, class C>
SPOOL_CLONES void store_row(const C* from, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = store<T>(from[i]);
}

/// Σ a[i]·b[i·step]
template <class T, class C>
SPOOL_CLONES double dot(const T* a, const T* b, int64_t n, int64_t step) {
  double total = 0;
  for (int64_t at = 0; at < n; at += lane_run) {
    const int64_t end = std::min(n, at + lane_run);
    total += double(step == 1 ? lane_sum<C>(at, end, [a, b](int64_t i) __attribute__((always_inline)) { return load(a[i]) * load(b[i]); })
                              : lane_sum<C>(at, end, [a, b, step](int64_t i) __attribute__((always_inline)) { return load(a[i]) * load(b[i * step]); }));
  }
  return total;
}

/// Rows of `count` elements in pieces: f(row, first element, elements).
template <class F>
void each_piece(int64_t rows, int64_t count, int64_t work_per_element, F&& f) {
  const int64_t pieces = (count + piece - 1) / piece;
  parallel_blocks(rows * pieces, std::min(count, piece) * work_per_element, [&](int64_t block) {
    const int64_t first = block % pieces * piece;
    f(block / pieces, first, std::min(piece, count - first));
  });
}

template <class T>
void depthwise_forward(const Conv1dSizes& z, const T* x, const T* weight, const T* bias, T* y) {
  using C = compute_t<T>;
  const int64_t multiple = z.group_out();
  each_piece(z.batch * z.out, z.out_length, 2 * z.kernel, [&](int64_t row, int64_t first, int64_t n) {
    const int64_t b = row / z.out, o = row % z.out;
    const T* from = x + (b * z.in + o / multiple) * z.length;
    C sum[piece];
    std::fill_n(sum, n, bias ? load(bias[o]) : C(0));
    for (int64_t j = 0; j < z.kernel; ++j) {
      const auto [begin, end] = z.outputs(z.shift(j), 0, z.length);
      const int64_t low = std::max(begin, first), high = std::min(end, first + n);
      if (low < high) add_scaled<T, C>(sum + low - first, from + low * z.stride + z.shift(j), load(weight[o * z.kernel + j]), high - low, z.stride);
    }
    store_row<T, C>(sum, y + row * z.out_length + first, n);
  });
}

template <class T>
void depthwise_input(const Conv1dSizes& z, const T* dy, const T* weight, T* dx) {
  using C = compute_t<T>;
  const int64_t multiple = z.group_out();
  each_piece(z.batch * z.in, z.length, 2 * z.kernel * multiple, [&](int64_t row, int64_t first, int64_t n) {
    const int64_t b = row / z.in, i = row % z.in;
    C sum[piece];
    std::fill_n(sum, n, C(0));
    for (int64_t o = i * multiple; o < (i + 1) * multiple; ++o) {
      const T* from = dy + (b * z.out + o) * z.out_length;
      for (int64_t j = 0; j < z.kernel; ++j) {
        const auto [low, high] = z.outputs(z.shift(j), first, first + n);
        if (low >= high) continue;
        C* to = sum + low * z.stride + z.shift(j) - first;
        const C factor = load(weight[o * z.kernel + j]);
        if (z.stride == 1) add_scaled<T, C>(to, from + low, factor, high - low, 1);
        else spread_scaled<T, C>(to, from + low, factor, high - low, z.stride);
      }
    }
    store_row<T, C>(sum, dx + row * z.length + first, n);
  });
}

template <class T>
void depthwise_weight(const Conv1dSizes& z, const T* dy, const T* x, T* dweight) {
  const int64_t multiple = z.group_out();
  parallel_blocks(z.out * z.kernel, 2 * z.batch * z.out_length, [&](int64_t at) {
    const int64_t o = at / z.kernel, j = at % z.kernel;
    const auto [low, high] = z.outputs(z.shift(j), 0, z.length);
    double total = 0;
    for (int64_t b = 0; b < z.batch && low < high; ++b) {
      const T* from = x + (b * z.in + o / multiple) * z.length + low * z.stride + z.shift(j);
      total += dot<T, compute_t<T>>(dy + (b * z.out + o) * z.out_length + low, from, high - low, z.stride);
    }
    dweight[at] = store<T>(static_cast<compute_t<T>>(total));
  });
}

/// Working space: sums that cannot be formed where they go, one tap's product, and what gemm wants.
struct Space {
  int64_t sums = 0, product = 0, gemm = 0;  // bytes
  int64_t total() const { return sums + product + gemm; }
};

GemmShape forward_shape(const Conv1dSizes& z, int64_t count, int64_t batch) { return {z.group_out(), count, z.group_in(), batch}; }
GemmShape input_shape(const Conv1dSizes& z, int64_t count, int64_t batch) { return {z.group_in(), count, z.group_out(), batch}; }
GemmShape weight_shape(const Conv1dSizes& z, int64_t count) { return {z.group_out(), z.group_in(), count, 1}; }

Space space_of(const Conv1dSizes& z, Dtype dtype, Conv1dPart part) {
  if (z.in == z.groups) return {};
  const bool narrow = dtype == Dtype::bf16 || dtype == Dtype::f16;
  const Dtype compute = dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  const int64_t bytes = int64_t(dtype_size(compute)), batch = narrow ? 1 : z.batch;
  Space space;
  if (part == Conv1dPart::forward && narrow) space.sums = aligned(z.group_out() * z.out_length * bytes);
  if (part == Conv1dPart::input && narrow) space.sums = aligned(z.group_in() * z.length * bytes);
  if (part == Conv1dPart::input && z.stride > 1) space.product = aligned(z.group_in() * z.out_length * bytes);
  if (part == Conv1dPart::weight) space.product = aligned(z.group_out() * z.group_in() * bytes);
  for (int64_t j = 0; j < z.kernel; ++j) {
    const int64_t count = std::max<int64_t>(0, z.outputs(z.shift(j), 0, z.length).count());
    const GemmShape shape = part == Conv1dPart::forward ? forward_shape(z, count, batch)
                            : part == Conv1dPart::input ? input_shape(z, count, z.stride > 1 ? 1 : batch)
                                                        : weight_shape(z, count);
    space.gemm = std::max(space.gemm, int64_t(gemm_scratch_bytes(shape, compute)));
  }
  return space;
}

template <class T>
struct Areas {
  using C = compute_t<T>;
  C *sums, *product;
  std::span<std::byte> gemm;
  Areas(const Conv1dSizes& z, Conv1dPart part, std::span<std::byte> scratch) {
    const Space space = space_of(z, dtype_of<T>, part);
    sums = reinterpret_cast<C*>(scratch.data());
    product = reinterpret_cast<C*>(scratch.data() + space.sums);
    gemm = scratch.subspan(size_t(space.sums + space.product), size_t(space.gemm));
  }
};

template <class T>
void grouped_forward(const Conv1dSizes& z, const T* x, const T* weight, const T* bias, T* y, std::span<std::byte> scratch) {
  using C = compute_t<T>;
  const Areas<T> areas(z, Conv1dPart::forward, scratch);
  const int64_t in = z.group_in(), out = z.group_out(), columns = z.out_length;
  const auto fill_bias = [&](int64_t o, C* to) { std::fill_n(to, columns, bias ? load(bias[o]) : C(0)); };
  const auto add_taps = [&](int64_t g, int64_t b, int64_t batch, C* to) {
    for (int64_t j = 0; j < z.kernel; ++j) {
      const auto range = z.outputs(z.shift(j), 0, z.length);
      if (range.count() <= 0 || in == 0) continue;
      const GemmInput<T> w{weight + g * out * in * z.kernel + j, in * z.kernel, z.kernel, 0};
      const GemmInput<T> from{x + (b * z.in + g * in) * z.length + range.first * z.stride + z.shift(j), z.length, z.stride, z.in * z.length};
      gemm(forward_shape(z, range.count(), batch), w, from, GemmOutput<C>{to + range.first, columns, z.out * columns}, {.accumulate = true}, areas.gemm);
    }
  };
  if constexpr (std::is_same_v<T, C>) {
    parallel_blocks(z.batch * z.out, columns, [&](int64_t row) { fill_bias(row % z.out, y + row * columns); });
    for (int64_t g = 0; g < z.groups; ++g) add_taps(g, 0, z.batch, y + g * out * columns);
  } else {
    for (int64_t b = 0; b < z.batch; ++b)
      for (int64_t g = 0; g < z.groups; ++g) {
        for (int64_t o = 0; o < out; ++o) fill_bias(g * out + o, areas.sums + o * columns);
        add_taps(g, b, 1, areas.sums);
        store_row<T, C>(areas.sums, y + (b * z.out + g * out) * columns, out * columns);
      }
  }
}

template <class T>
void grouped_input(const Conv1dSizes& z, const T* dy, const T* weight, T* dx, std::span<std::byte> scratch) {
  using C = compute_t<T>;
  const Areas<T> areas(z, Conv1dPart::input, scratch);
  const int64_t in = z.group_in(), out = z.group_out(), columns = z.out_length;
  const auto add_taps = [&](int64_t g, int64_t b, int64_t batch, C* to) {
    for (int64_t j = 0; j < z.kernel; ++j) {
      const auto range = z.outputs(z.shift(j), 0, z.length);
      if (range.count() <= 0 || out == 0) continue;
      const GemmInput<T> w{weight + g * out * in * z.kernel + j, z.kernel, in * z.kernel, 0};
      const GemmInput<T> from{dy + (b * z.out + g * out) * columns + range.first, columns, 1, z.out * columns};
      C* at = to + range.first * z.stride + z.shift(j);
      if (z.stride == 1) {
        gemm(input_shape(z, range.count(), batch), w, from, GemmOutput<C>{at, z.length, z.in * z.length}, {.accumulate = true}, areas.gemm);
        continue;
      }
      gemm(input_shape(z, range.count(), 1), w, from, GemmOutput<C>{areas.product, range.count(), 0}, {}, areas.gemm);
      parallel_blocks(in, range.count(), [&](int64_t i) { spread_scaled<C, C>(at + i * z.length, areas.product + i * range.count(), C(1), range.count(), z.stride); });
    }
  };
  if constexpr (std::is_same_v<T, C>) {
    std::fill_n(dx, z.batch * z.in * z.length, T(0));
    const int64_t at_once = z.stride == 1 ? z.batch : 1;
    for (int64_t b = 0; b < z.batch; b += at_once)
      for (int64_t g = 0; g < z.groups; ++g) add_taps(g, b, at_once, dx + (b * z.in + g * in) * z.length);
  } else {
    for (int64_t b = 0; b < z.batch; ++b)
      for (int64_t g = 0; g < z.groups; ++g) {
        std::fill_n(areas.sums, in * z.length, C(0));
        add_taps(g, b, 1, areas.sums);
        store_row<T, C>(areas.sums, dx + (b * z.in + g * in) * z.length, in * z.length);
      }
  }
}

template <class T>
void grouped_weight(const Conv1dSizes& z, const T* dy, const T* x, T* dweight, std::span<std::byte> scratch) {
  using C = compute_t<T>;
  const Areas<T> areas(z, Conv1dPart::weight, scratch);
  const int64_t in = z.group_in(), out = z.group_out();
  for (int64_t g = 0; g < z.groups; ++g)
    for (int64_t j = 0; j < z.kernel; ++j) {
      const auto range = z.outputs(z.shift(j), 0, z.length);
      std::fill_n(areas.product, out * in, C(0));
      for (int64_t b = 0; b < z.batch && range.count() > 0; ++b) {
        const GemmInput<T> left{dy + (b * z.out + g * out) * z.out_length + range.first, z.out_length, 1, 0};
        const GemmInput<T> right{x + (b * z.in + g * in) * z.length + range.first * z.stride + z.shift(j), z.stride, z.length, 0};
        gemm(weight_shape(z, range.count()), left, right, GemmOutput<C>{areas.product, in, 0}, {.accumulate = true}, areas.gemm);
      }
      T* to = dweight + g * out * in * z.kernel + j;
      for (int64_t i = 0; i < out * in; ++i) to[i * z.kernel] = store<T>(areas.product[i]);
    }
}

template <class T>
const T* pointer(const Tensor& t) {
  return t.defined() ? static_cast<const T*>(t.raw()) : nullptr;
}

}  // namespace

Conv1dSizes::Range Conv1dSizes::outputs(int64_t shift, int64_t low, int64_t high) const {
  return {std::max<int64_t>(0, ceil_div(low - shift, stride)), std::min(out_length, ceil_div(high - shift, stride))};
}

int64_t conv1d_scratch(const Conv1dSizes& sizes, Dtype dtype, Conv1dPart part) { return space_of(sizes, dtype, part).total(); }

void conv1d_forward(const Conv1dSizes& z, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y, std::span<std::byte> scratch) {
  if (y.numel() == 0) return;
  visit_float("conv1d", y.dtype(), [&]<class T>() {
    T* to = static_cast<T*>(y.raw());
    if (z.in == z.groups) depthwise_forward(z, pointer<T>(x), pointer<T>(weight), pointer<T>(bias), to);
    else grouped_forward(z, pointer<T>(x), pointer<T>(weight), pointer<T>(bias), to, scratch);
  });
}

void conv1d_input(const Conv1dSizes& z, const Tensor& dy, const Tensor& weight, const Tensor& dx, std::span<std::byte> scratch) {
  if (dx.numel() == 0) return;
  visit_float("conv1d", dx.dtype(), [&]<class T>() {
    T* to = static_cast<T*>(dx.raw());
    if (z.in == z.groups) depthwise_input(z, pointer<T>(dy), pointer<T>(weight), to);
    else grouped_input(z, pointer<T>(dy), pointer<T>(weight), to, scratch);
  });
}

void conv1d_weight(const Conv1dSizes& z, const Tensor& dy, const Tensor& x, const Tensor& dweight, std::span<std::byte> scratch) {
  if (dweight.numel() == 0) return;
  visit_float("conv1d", dweight.dtype(), [&]<class T>() {
    T* to = static_cast<T*>(dweight.raw());
    if (z.in == z.groups) depthwise_weight(z, pointer<T>(dy), pointer<T>(x), to);
    else grouped_weight(z, pointer<T>(dy), pointer<T>(x), to, scratch);
  });
}

}  // namespace spool::kernels
