#include <spool/ops/cpu/gemm.h>
#include <spool/ops/cpu/product.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/profiler.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <utility>

namespace spool::kernels {
namespace {

bool is_half(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::f16; }

/// Batch axes of the three operands; those that can be walked with one stride each are merged.
struct Batches {
  Shape sizes;
  Strides a, b, c;
  Batches(const Tensor& ta, const Tensor& tb, const Tensor& tc) {
    for (int i = 0; i < tc.dims() - 2; ++i) {
      const int64_t size = tc.shape()[i], sa = ta.strides()[i], sb = tb.strides()[i], sc = tc.strides()[i];
      if (size == 1) continue;
      const int last = sizes.size() - 1;
      if (last >= 0 && a[last] == sa * size && b[last] == sb * size && c[last] == sc * size) {
        sizes[last] *= size;
        a[last] = sa;
        b[last] = sb;
        c[last] = sc;
      } else {
        sizes.push_back(size);
        a.push_back(sa);
        b.push_back(sb);
        c.push_back(sc);
      }
    }
    if (sizes.empty()) {
      sizes.push_back(1);
      a.push_back(0);
      b.push_back(0);
      c.push_back(0);
    }
  }
};

GemmShape gemm_shape(const Shape& c, int64_t k, int64_t batch) { return {c[c.size() - 2], c[c.size() - 1], k, batch}; }

template <class In, class C>
void run(C* c, const Tensor& tc, const Tensor& a, const Tensor& b, const ProductOptions& options, std::span<std::byte> scratch) {
  const int rows = tc.dims() - 2, columns = tc.dims() - 1;
  const Batches batches(a, b, tc);
  const int inner = batches.sizes.size() - 1;
  int64_t outer = 1;
  for (int i = 0; i < inner; ++i) outer *= batches.sizes[i];
  GemmOptions<C> gemm_options;
  gemm_options.accumulate = options.accumulate;
  gemm_options.activation = options.activation;
  if (options.bias.defined() && std::is_same_v<In, C>) gemm_options.bias = static_cast<const C*>(options.bias.raw());
  for (int64_t o = 0; o < outer; ++o) {
    int64_t at_a = 0, at_b = 0, at_c = 0, rest = o;
    for (int i = inner - 1; i >= 0; --i) {
      const int64_t at = rest % batches.sizes[i];
      rest /= batches.sizes[i];
      at_a += at * batches.a[i];
      at_b += at * batches.b[i];
      at_c += at * batches.c[i];
    }
    if (options.pre.defined() && std::is_same_v<In, C>) {
      gemm_options.pre = static_cast<C*>(options.pre.raw()) + at_c;
      gemm_options.pre_row_stride = tc.strides()[rows];
      gemm_options.pre_batch_stride = batches.c[inner];
    }
    gemm(gemm_shape(tc.shape(), a.shape()[columns], batches.sizes[inner]),
         GemmInput<In>{static_cast<const In*>(a.raw()) + at_a, a.strides()[rows], a.strides()[columns], batches.a[inner]},
         GemmInput<In>{static_cast<const In*>(b.raw()) + at_b, b.strides()[rows], b.strides()[columns], batches.b[inner]},
         GemmOutput<C>{c + at_c, tc.strides()[rows], batches.c[inner]}, gemm_options, scratch);
  }
}

/// 16-bit results: an f32 product in scratch, then bias, what is there already, activation and rounding in one pass.
template <class In>
void finish_half(const float* wide, const Tensor& c, const ProductOptions& options) {
  const int64_t n = c.shape().back(), rows = n ? c.numel() / n : 0;
  In* out = static_cast<In*>(c.raw());
  In* pre = options.pre.defined() ? static_cast<In*>(options.pre.raw()) : nullptr;
  const In* bias = options.bias.defined() ? static_cast<const In*>(options.bias.raw()) : nullptr;
  const auto act = [&](float z) {
    switch (options.activation) {
      case Activation::relu: return activate<Activation::relu>(z);
      case Activation::gelu_erf: return activate<Activation::gelu_erf>(z);
      case Activation::gelu_tanh: return activate<Activation::gelu_tanh>(z);
      case Activation::silu: return activate<Activation::silu>(z);
      case Activation::none: break;
    }
    return z;
  };
  parallel_blocks(rows, 4 * n, [&](int64_t r) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = r * n + j;
      const float z = wide[at] + (bias ? float(bias[j]) : 0.f) + (options.accumulate ? float(out[at]) : 0.f);
      const In rounded = static_cast<In>(z);  // as if the activation were an op of its own, so that it can be made again
      if (pre) pre[at] = rounded;
      out[at] = static_cast<In>(act(static_cast<float>(rounded)));
    }
  });
}

int64_t align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Rows of a 16-bit matrix whose f32 product exists at a time: 64 MiB of it, or 512 rows where those are more (then packing b again for each
/// panel is not felt).
int64_t panel_rows(const Shape& c) {
  constexpr int64_t elements = int64_t(16) << 20, least = 512;
  const int64_t m = c[c.size() - 2], n = std::max<int64_t>(c[c.size() - 1], 1);
  return c.size() > 2 ? m : std::min(m, std::max(least, elements / n));
}

Tensor rows_of(const Tensor& t, int64_t begin, int64_t count) {
  return t.view_as({count, t.size(1)}, t.strides(), t.offset() + begin * t.strides()[0]);
}

}  // namespace

int64_t product_scratch(const Shape& c, int64_t k, Dtype dtype) {
  int64_t batch = 1;
  for (int i = 0; i < c.size() - 2; ++i) batch *= c[i];
  if (!is_half(dtype)) return int64_t(gemm_scratch_bytes(gemm_shape(c, k, batch), dtype));
  const int64_t m = c[c.size() - 2], rows = panel_rows(c);
  const auto bytes = [&](int64_t count) {
    Shape part = c;
    part[c.size() - 2] = count;
    return align(numel(part) * 4) + int64_t(gemm_scratch_bytes(gemm_shape(part, k, batch), Dtype::f32));
  };
  return rows && m % rows ? std::max(bytes(rows), bytes(m % rows)) : bytes(rows);
}

void product(const Tensor& c, const Tensor& a, const Tensor& b, const ProductOptions& options, std::span<std::byte> scratch) {
  if (c.numel() == 0) return;
  visit_float("product", c.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
      const auto part = [&](const Tensor& to, const Tensor& from, const ProductOptions& finish) {
        auto* wide = reinterpret_cast<float*>(scratch.data());
        run<T, float>(wide, to, from, b, {}, scratch.subspan(size_t(align(to.numel() * 4))));
        finish_half<T>(wide, to, finish);
      };
      const int64_t m = c.size(-2), rows = panel_rows(c.shape());
      if (rows == m) return part(c, a, options);
      for (int64_t begin = 0; begin < m; begin += rows) {
        const int64_t count = std::min(rows, m - begin);
        ProductOptions finish = options;
        if (options.pre.defined()) finish.pre = rows_of(options.pre, begin, count);
        part(rows_of(c, begin, count), rows_of(a, begin, count), finish);
      }
    } else {
      run<T, T>(static_cast<T*>(c.raw()), c, a, b, options, scratch);
    }
  });
}

void accumulate_product(const Tensor& target, const Tensor& a, const Tensor& b) {
  Storage scratch;
  {
    const With category(&Ambient::category, Category::scratch);
    scratch = Storage(new StorageBody(product_scratch(target.shape(), a.shape().back(), target.dtype()), target.device()));
  }
  bump_version(target);
  if (target.device().meta) return;
  const Timed timed(2.0 * double(target.numel()) * double(a.shape().back()), double(a.nbytes() + b.nbytes() + 2 * target.nbytes()));
  product(target, a, b, {.accumulate = true}, std::span(scratch->data, size_t(scratch->bytes)));
}

Tensor swapped(const Tensor& t) {
  Shape shape = t.shape();
  Strides strides = t.strides();
  std::swap(shape[t.dims() - 1], shape[t.dims() - 2]);
  std::swap(strides[t.dims() - 1], strides[t.dims() - 2]);
  return t.view_as(shape, strides, t.offset());
}

}  // namespace spool::kernels
