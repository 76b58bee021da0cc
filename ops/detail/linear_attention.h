#pragma once
// What the ops of linear attention share: rows of a head in and out of blocks, states, working space, and the sum over a slice. Private to ops/.
#include <spool/autograd/saved.h>
#include <spool/ops/cpu/linear_scan.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/cpu/vec_math.h>
#include <spool/ops/linear_attention.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <algorithm>
#include <optional>

namespace spool::linear_attention_detail {

using kernels::compute_t;
inline constexpr int64_t token_block = 36;  // a multiple of the tokens that the kernel takes at a time, whose blocks fit into L1 beside a tile

struct AttentionAttrs {
  Feature feature = Feature::identity;
  double eps = 1e-16;
  std::optional<Dtype> state;  ///< Unset: f64 for f64 inputs, otherwise f32.
  Dtype state_for(Dtype inputs) const { return state.value_or(inputs == Dtype::f64 ? Dtype::f64 : Dtype::f32); }
};

struct Sizes {
  int64_t batch, length, heads, features, dim;
  int64_t tasks() const { return batch * heads; }
};
inline Sizes sizes_of(const Shape& k, const Shape& v) { return {k[0], k[1], k[2], k[3], v[3]}; }

template <Feature F, class S>
SPOOL_INLINE S feature(S x) {
  if constexpr (F == Feature::sqr) return x * x;
  if constexpr (F == Feature::relu) return x > S(0) ? x : S(0);
  if constexpr (F == Feature::elu1) return x > S(0) ? x + S(1) : kernels::vexp(x);
  if constexpr (F == Feature::abs) return x < S(0) ? -x : x;
  return x;
}
template <Feature F, class S>
SPOOL_INLINE S feature_slope(S x) {
  if constexpr (F == Feature::sqr) return S(2) * x;
  if constexpr (F == Feature::relu) return x > S(0) ? S(1) : S(0);
  if constexpr (F == Feature::elu1) return x > S(0) ? S(1) : kernels::vexp(x);
  if constexpr (F == Feature::abs) return S(x > S(0)) - S(x < S(0));
  return S(1);
}

template <class F>
void visit_feature(Feature f, F&& call) {
  switch (f) {
    case Feature::identity: return call.template operator()<Feature::identity>();
    case Feature::sqr: return call.template operator()<Feature::sqr>();
    case Feature::relu: return call.template operator()<Feature::relu>();
    case Feature::elu1: return call.template operator()<Feature::elu1>();
    case Feature::abs: return call.template operator()<Feature::abs>();
  }
}

/// Rows of a head lie apart (heads · size elements), where no hardware foresees them: asked for this many rows early.
inline constexpr int64_t rows_ahead = 8;
template <class T>
SPOOL_INLINE void ask_for(const T* from, int64_t offset, int64_t size) {
  const uintptr_t row = reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(offset) * sizeof(T);  // may lie outside of the tensor: no pointer
  for (uintptr_t i = 0; i < static_cast<uintptr_t>(size) * sizeof(T); i += 64) __builtin_prefetch(reinterpret_cast<const void*>(row + i));
}

/// Rows begin, begin + step, … of one head as `to`[n, width], widened, mapped, padded with zeros.
template <Feature F, class T, class S>
SPOOL_CLONES void gather_rows(const T* from, int64_t row_stride, int64_t step, int64_t n, int64_t size, int64_t width, S* to) {
  for (int64_t t = 0; t < n; ++t) {
    if (step == 1) {
      ask_for(from, (t + rows_ahead) * row_stride, size);
      for (int64_t i = 0; i < size; ++i) to[t * width + i] = feature<F>(static_cast<S>(static_cast<compute_t<T>>(from[t * row_stride + i])));
    } else {
      for (int64_t i = 0; i < size; ++i) to[t * width + i] = feature<F>(static_cast<S>(static_cast<compute_t<T>>(from[t * row_stride + i * step])));
    }
    for (int64_t i = size; i < width; ++i) to[t * width + i] = 0;
  }
}
/// The cotangents of numerators, [n, width], and of denominators, [n]: dnum = dout/(den + eps) and dden = −(dout·out)/(den + eps), or 0 where den ≤ eps.
/// Rows lie `stride` apart, forwards or backwards. Eight lanes whatever the vector width.
template <class T, class S>
SPOOL_CLONES void gather_cotangents(const T* dout, int64_t stride, int64_t step, const T* out, int64_t out_stride, int64_t out_step, const S* den, int64_t den_step, S eps, int64_t n,
                                    int64_t size, int64_t width, S* dnum, S* dden) {
  for (int64_t t = 0; t < n; ++t) {
    const T *g = dout + t * stride, *y = out + t * out_stride;
    S* to = dnum + t * width;
    const S total = den[t * den_step], scale = total <= eps ? S(0) : S(1) / (total + eps);
    S lane[8] = {};
    int64_t j = 0;
    if (step == 1 && out_step == 1) {
      ask_for(g, rows_ahead * stride, size);
      ask_for(y, rows_ahead * out_stride, size);
      for (; j + 8 <= size; j += 8)
        for (int l = 0; l < 8; ++l) {
          const S value = static_cast<S>(static_cast<compute_t<T>>(g[j + l]));
          lane[l] += value * static_cast<S>(static_cast<compute_t<T>>(y[j + l]));
          to[j + l] = value * scale;
        }
    }
    for (int64_t l = 0; j < size; ++j, l = (l + 1) % 8) {
      const S value = static_cast<S>(static_cast<compute_t<T>>(g[j * step]));
      lane[l] += value * static_cast<S>(static_cast<compute_t<T>>(y[j * out_step]));
      to[j] = value * scale;
    }
    for (j = size; j < width; ++j) to[j] = 0;
    dden[t] = -(((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]))) * scale;
  }
}

/// grad[t] · g′(x[t]) into a tensor's rows.
template <Feature F, class T, class S>
SPOOL_CLONES void scatter_gradient(const S* grad, const T* x, int64_t x_stride, int64_t x_step, T* to, int64_t to_stride, int64_t n, int64_t size, int64_t width) {
  for (int64_t t = 0; t < n; ++t)
    for (int64_t i = 0; i < size; ++i)
      to[t * to_stride + i] = static_cast<T>(static_cast<compute_t<T>>(grad[t * width + i] * feature_slope<F>(static_cast<S>(static_cast<compute_t<T>>(x[t * x_stride + i * x_step])))));
}

/// One head of a [batch, L, heads, size] tensor.
template <class T>
struct Head {
  T* data = nullptr;
  int64_t stride = 0, step = 1;
  Head(const Tensor& t, int64_t task, int64_t heads) {
    if (!t.defined()) return;
    data = static_cast<T*>(t.raw()) + task / heads * t.strides()[0] + task % heads * t.strides()[2];
    stride = t.strides()[1];
    step = t.strides()[3];
  }
  T* row(int64_t t) const { return data + t * stride; }
};

template <class S>
int64_t padded(int64_t n) { return (n + kernels::scan_lanes<S> - 1) / kernels::scan_lanes<S> * kernels::scan_lanes<S>; }

/// R as [rows, padded width] and S as [rows], from and to the [M, d + 1] layout; `flipped` holds R transposed.
struct StateView {
  const Tensor* tensor = nullptr;
  int64_t batch = 0, head = 0;
};
template <class S>
void load_state(const StateView& view, S* r, S* s, int64_t m, int64_t d, bool flipped) {
  const int64_t rows = flipped ? d : m, columns = flipped ? m : d, width = padded<S>(columns);
  std::fill_n(r, rows * width, S(0));
  std::fill_n(s, m, S(0));
  if (!view.tensor) return;
  const Strides& strides = view.tensor->strides();  // any: a zero state is often one element with strides 0
  const S* state = static_cast<const S*>(view.tensor->raw()) + view.batch * strides[0] + view.head * strides[1];
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < d; ++j) r[flipped ? j * width + i : i * width + j] = state[i * strides[2] + j * strides[3]];
    s[i] = state[i * strides[2] + d * strides[3]];
  }
}
template <class S>
void store_state(S* state, const S* r, const S* s, int64_t m, int64_t d) {
  const int64_t width = padded<S>(d);
  for (int64_t i = 0; i < m; ++i) {
    std::copy_n(r + i * width, d, state + i * (d + 1));
    state[i * (d + 1) + d] = s[i];
  }
}

/// R, as [m, padded d] or transposed.
template <class S>
int64_t state_space(int64_t m, int64_t d) { return std::max(m * padded<S>(d), d * padded<S>(m)); }

/// Working space of one thread, in elements of the state's type.
template <class S>
int64_t space(int64_t m, int64_t d) {
  const int64_t wide = padded<S>(std::max(m, d));
  return state_space<S>(m, d) + padded<S>(m) + token_block * (5 * wide + 8);
}
inline int64_t workers(const Sizes& z) { return std::max<int64_t>(1, std::min<int64_t>(num_threads(), z.tasks())); }
inline int64_t scratch_bytes(const Sizes& z, Dtype state) {
  return workers(z) * (state == Dtype::f64 ? space<double>(z.features, z.dim) * 8 : space<float>(z.features, z.dim) * 4);
}

/// Calls f(task, space) for each batch element and head; each worker has a space of its own.
template <class S, class F>
void each_task(const Sizes& z, std::span<std::byte> scratch, F&& f) {
  const int64_t count = workers(z), each = space<S>(z.features, z.dim);
  auto* base = reinterpret_cast<S*>(scratch.data());
  parallel_blocks(count, z.tasks() * z.length * z.features * z.dim / count + 1, [&](int64_t worker) {
    for (int64_t task = z.tasks() * worker / count; task < z.tasks() * (worker + 1) / count; ++task) f(task, base + worker * each);
  });
}

/// Token blocks of a worker's space.
template <class S>
struct Blocks {
  S *r, *s, *a, *b, *c, *o, *e, *den, *u;
  Blocks(S* space, int64_t m, int64_t d) {
    const int64_t wide = padded<S>(std::max(m, d));
    const auto take = [&](int64_t n) { return std::exchange(space, space + n); };
    r = take(state_space<S>(m, d));
    s = take(padded<S>(m));
    a = take(token_block * wide);
    b = take(token_block * wide);
    c = take(token_block * wide);
    o = take(token_block * wide);
    e = take(token_block * wide);
    den = take(token_block);
    u = take(token_block);
  }
};

inline void check_inputs(std::string_view op, const Metas& in, bool has_query) {
  const size_t first = has_query ? 0 : 1;  // in: q, k, v
  const Meta &k = in[1], &v = in[2];
  if (k.shape.size() != 4 || v.shape.size() != 4 || (has_query && in[0].shape != k.shape) || k.shape[0] != v.shape[0] || k.shape[1] != v.shape[1] || k.shape[2] != v.shape[2])
    fail<ShapeError>(op, ": q ", in[first].shape, ", k ", k.shape, " and v ", v.shape, " must be [batch, length, heads, size] with one batch, length, heads, and one size for q and k");
}

/// The state for these inputs; throws when its type is too narrow.
inline Meta state_meta(std::string_view op, const Meta& k, const Meta& v, const AttentionAttrs& attrs) {
  const Dtype state = attrs.state_for(k.dtype);
  if (state != Dtype::f64 && (state != Dtype::f32 || k.dtype == Dtype::f64))
    fail<DtypeError>(op, ": the state must be f32 or f64 and no narrower than the inputs, got ", dtype_name(state), " for ", dtype_name(k.dtype));
  return {Shape{k.shape[0], k.shape[2], k.shape[3], v.shape[3] + 1}, state, k.device};
}
inline void check_same(std::string_view op, const char* what, const Meta& given, const Meta& expected) {
  if (given.shape != expected.shape) fail<ShapeError>(op, ": the ", what, " must be ", expected, ", got ", given);
  if (given.dtype != expected.dtype) fail<DtypeError>(op, ": the ", what, " must be ", expected, ", got ", given, "; convert it with cast()");
}
inline void check_state(std::string_view op, const Meta& given, const Meta& expected) { check_same(op, "state ([batch, heads, M, d + 1])", given, expected); }

inline StateView head_state(const Kernel& k, int input, int64_t task, const Sizes& z) {
  return k.has(input) ? StateView{&k.in(input), task / z.heads, task % z.heads} : StateView{};
}

/// x.r, x.s = Σ_l g(k_l)·[v_l, 1]ᵀ, summed from zero. The one way in which a slice's sum is formed, forward and backward: the same inputs give
/// the same bits.
template <Feature F, class T, class S>
void sum_slice(const Head<const T>& key, const Head<const T>& v, int64_t length, int64_t m, int64_t d, const Blocks<S>& x) {
  const int64_t wd = padded<S>(d);
  load_state<S>({}, x.r, x.s, m, d, false);
  for (int64_t at = 0; at < length; at += token_block) {
    const int64_t n = std::min(token_block, length - at);
    gather_rows<F>(key.row(at), key.stride, key.step, n, m, m, x.a);
    gather_rows<Feature::identity>(v.row(at), v.stride, v.step, n, d, wd, x.b);
    kernels::scan_add(x.a, x.b, x.r, n, m, wd);
    for (int64_t t = 0; t < n; ++t)
      for (int64_t i = 0; i < m; ++i) x.s[i] += x.a[t * m + i];
  }
}

/// to = state + sign·sum.
template <int sign, class S>
void combine_state(const StateView& view, const S* r, const S* s, S* to, int64_t m, int64_t d) {
  const int64_t width = padded<S>(d);
  const Strides& strides = view.tensor->strides();
  const S* state = static_cast<const S*>(view.tensor->raw()) + view.batch * strides[0] + view.head * strides[1];
  for (int64_t i = 0; i < m; ++i, to += d + 1) {
    const S* row = state + i * strides[2];
    for (int64_t j = 0; j < d; ++j) to[j] = row[j * strides[3]] + S(sign) * r[i * width + j];
    to[d] = row[d * strides[3]] + S(sign) * s[i];
  }
}

}  // namespace spool::linear_attention_detail
