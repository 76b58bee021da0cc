#include <spool/autograd/saved.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cpu/columns.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/detail/recurrence.h>
#include <spool/ops/prefix.h>
#include <spool/tensor/error.h>

#include <cstring>

namespace spool {
namespace {

struct PrefixAttrs {
  int axis = 0;
  PrefixOptions options;
};

/// The type in which a scan over T runs: integers wrap around.
template <class T>
using running_t = std::conditional_t<std::is_integral_v<accumulate_t<T>>, uint64_t, accumulate_t<T>>;

constexpr int64_t wide_block = 512;  // columns of a block where there are many: whole rows of memory pages

/// Walks `length` rows of `width` adjacent columns, four at a time.
template <class Op, class T, class R, class C>
SPOOL_CLONES void scan_columns(const T* __restrict x, R* __restrict y, int64_t length, int64_t step, int64_t width, bool exclusive) {
  C total[wide_block];
  for (int64_t c = 0; c < width; ++c) total[c] = C(Op::identity);
  const auto next = [exclusive](C& running, T element) __attribute__((always_inline)) {
    const C before = running;
    running = Op::join(before, static_cast<C>(element));
    return static_cast<R>(exclusive ? before : running);
  };
  int64_t i = 0;
  for (; i + 4 <= length; i += 4, x += 4 * step, y += 4 * step) {
    for (int64_t c = 0; c < width; ++c) {
      C running = total[c];
      y[c] = next(running, x[c]);
      y[c + step] = next(running, x[c + step]);
      y[c + 2 * step] = next(running, x[c + 2 * step]);
      y[c + 3 * step] = next(running, x[c + 3 * step]);
      total[c] = running;
    }
  }
  for (; i < length; ++i, x += step, y += step)
    for (int64_t c = 0; c < width; ++c) y[c] = next(total[c], x[c]);
}

/// Rows become columns and back.
template <class V>
SPOOL_INLINE void transpose(V& a, V& b, V& c, V& d) {
  const V p = __builtin_shufflevector(a, b, 0, 4, 1, 5), q = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const V r = __builtin_shufflevector(c, d, 0, 4, 1, 5), s = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  a = __builtin_shufflevector(p, r, 0, 1, 4, 5);
  b = __builtin_shufflevector(p, r, 2, 3, 6, 7);
  c = __builtin_shufflevector(q, s, 0, 1, 4, 5);
  d = __builtin_shufflevector(q, s, 2, 3, 6, 7);
}

constexpr int64_t rows_at_once = 16, tile_columns = 64;

/// Part of a row, mostly a whole tile of it: then its length is known to the compiler, which otherwise calls for memcpy.
template <class To, class From>
SPOOL_INLINE void convert(const From* from, To* to, int64_t n) {
  if (n == tile_columns) {
    for (int64_t c = 0; c < tile_columns; ++c) to[c] = static_cast<To>(from[c]);
  } else {
    for (int64_t c = 0; c < n; ++c) to[c] = static_cast<To>(from[c]);
  }
}

/// Walks `rows` dense rows side by side, four to a vector and four vectors, since a running sum waits for itself. By tiles, so that each line
/// of memory is touched once.
template <class Op, bool reverse, bool exclusive, class T, class R>
SPOOL_CLONES void scan_rows(const T* x, R* y, int64_t rows, int64_t length) {
  using C = running_t<T>;
  using V [[gnu::vector_size(4 * sizeof(C))]] = C;
  alignas(V) C tile[rows_at_once][tile_columns];
  V total[rows_at_once / 4];
  for (V& t : total) t = V{} + C(Op::identity);
  std::fill_n(&tile[0][0], rows_at_once * tile_columns, C(Op::identity));
  const auto step = [](V& running, V& element) __attribute__((always_inline)) {
    const V before = running;
    Op::join_to(running, element);
    element = exclusive ? before : running;
  };
  for (int64_t done = 0; done < length; done += tile_columns) {
    const int64_t width = std::min(tile_columns, length - done), at = reverse ? length - done - width : done;
    for (int64_t r = 0; r < rows; ++r) {
      convert(x + r * length + at, tile[r], width);
      for (int64_t c = width; c % 4; ++c) tile[r][c] = C(Op::identity);
    }
    for (int64_t k = 0; k < width; k += 4) {
      const int64_t c = reverse ? (width - 1 - k) / 4 * 4 : k;
      for (int64_t group = 0; group < rows_at_once / 4; ++group) {
        C* at_group = &tile[4 * group][c];
        V v0, v1, v2, v3, sum = total[group];
        std::memcpy(&v0, at_group, sizeof(V));
        std::memcpy(&v1, at_group + tile_columns, sizeof(V));
        std::memcpy(&v2, at_group + 2 * tile_columns, sizeof(V));
        std::memcpy(&v3, at_group + 3 * tile_columns, sizeof(V));
        transpose(v0, v1, v2, v3);
        step(sum, reverse ? v3 : v0);
        step(sum, reverse ? v2 : v1);
        step(sum, reverse ? v1 : v2);
        step(sum, reverse ? v0 : v3);
        total[group] = sum;
        transpose(v0, v1, v2, v3);
        std::memcpy(at_group, &v0, sizeof(V));
        std::memcpy(at_group + tile_columns, &v1, sizeof(V));
        std::memcpy(at_group + 2 * tile_columns, &v2, sizeof(V));
        std::memcpy(at_group + 3 * tile_columns, &v3, sizeof(V));
      }
    }
    for (int64_t r = 0; r < rows; ++r) convert(tile[r], y + r * length + at, width);
  }
}

template <class Op>
struct Prefix {
  using Attrs = PrefixAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    normalize_axis(Op::name, attrs.axis, in[0].shape);
    return {{{in[0].shape, is_float(in[0].dtype) ? in[0].dtype : Dtype::i64, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit(k.in(0).dtype(), [&]<class T>() {
      using R = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
      const T* x = static_cast<const T*>(k.in(0).raw());
      R* y = static_cast<R*>(k.out().raw());
      const Shape& shape = k.out().shape();
      const int axis = normalize_axis(Op::name, attrs.axis, shape);
      const auto [reverse, exclusive] = attrs.options;
      const int64_t length = shape[axis], all = numel(shape), rows = all ? all / length : 0;
      if (std::all_of(shape.begin() + axis + 1, shape.end(), [](int64_t size) { return size == 1; })) {
        const auto scan = reverse ? (exclusive ? scan_rows<Op, true, true, T, R> : scan_rows<Op, true, false, T, R>)
                                  : (exclusive ? scan_rows<Op, false, true, T, R> : scan_rows<Op, false, false, T, R>);
        parallel_blocks((rows + rows_at_once - 1) / rows_at_once, rows_at_once * length, [&](int64_t block) {
          const int64_t row = block * rows_at_once, at = row * length;
          scan(x + at, y + at, std::min(rows_at_once, rows - row), length);
        });
        return;
      }
      kernels::each_columns<wide_block>(shape, axis, reverse, 1, [&](int64_t at, int64_t step, int64_t width) {
        scan_columns<Op, T, R, running_t<T>>(x + at, y + at, length, step, width, exclusive);
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"outer", {rng.normal({7, 3, 2})}, attrs_ptr(Attrs{0, {}})},
            {"inner, reversed, exclusive", {rng.normal({3, 9})}, attrs_ptr(Attrs{-1, {true, true}})},
            {"middle, exclusive", {rng.normal({2, 5, 70})}, attrs_ptr(Attrs{1, {.exclusive = true}})},
            {"integers, reversed", {rng.integers({3, 4}, -3, 4, Dtype::i32)}, attrs_ptr(Attrs{1, {.reverse = true}})},
            {"zero size", {rng.normal({0, 3})}, attrs_ptr(Attrs{0, {}})},
            {"no columns", {rng.normal({3, 0})}, attrs_ptr(Attrs{0, {}})}};
  }
  static std::vector<BadSample> bad() {
    return {{"axis", {zeros({2})}, attrs_ptr(Attrs{1, {}}), concat(Op::name, ": axis 1 is out of range for shape [2]")},
            {"0-d", {scalar(1)}, attrs_ptr(Attrs{0, {}}), concat(Op::name, ": axis 0 is out of range for shape []")}};
  }
};

struct PrefixSum : Prefix<PrefixSum> {
  static constexpr auto name = "prefix_sum";
  static constexpr int identity = 0;
  template <class C>
  SPOOL_INLINE static C join(C a, C b) {
    return a + b;
  }
  template <class V>
  SPOOL_INLINE static void join_to(V& a, const V& b) {  ///< Of vectors: passing them by value is left to the machine's calling convention.
    a += b;
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    return {prefix_sum(s.grad(), attrs.axis, {.reverse = !attrs.options.reverse, .exclusive = attrs.options.exclusive})};
  }
};
REGISTER_OP(PrefixSum);

struct PrefixProd : Prefix<PrefixProd> {
  static constexpr auto name = "prefix_prod";
  static constexpr int identity = 1;
  template <class C>
  SPOOL_INLINE static C join(C a, C b) {
    return a * b;
  }
  template <class V>
  SPOOL_INLINE static void join_to(V& a, const V& b) {  ///< Of vectors: passing them by value is left to the machine's calling convention.
    a *= b;
  }
  static Saves saves(Need) { return Saves().input(0); }
  /// dx[i] = Π_{j < i} x[j] · R[i] with R[i] = g[i] + x[i+1]·R[i+1]; of the exclusive product g[i+1] stands for g[i].
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const bool reverse = attrs.options.reverse;
    const Tensor &x = s.input(0), before = prefix_prod(x, attrs.axis, {.reverse = reverse, .exclusive = true});
    const Tensor g = attrs.options.exclusive ? detail::shifted(s.grad(), attrs.axis, !reverse) : s.grad();
    return {mul(before, detail::recurrence(x, g, attrs.axis, !reverse, true))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    auto all = Prefix<PrefixProd>::samples(rng);
    const Tensor zeros_among = from({{2, 0, 3, 4}, {0, 2, 3, 1}, {2, 3, 1, 0}, {2, 0, 0, 3}}, Dtype::f64);
    all.push_back({"zeros, reversed", {zeros_among}, attrs_ptr(Attrs{1, {.reverse = true}})});
    return all;
  }
};
REGISTER_OP(PrefixProd);

}  // namespace

Tensor prefix_sum(const Tensor& x, int axis, PrefixOptions options) { return apply<PrefixSum>({x}, {axis, options}); }
Tensor prefix_prod(const Tensor& x, int axis, PrefixOptions options) { return apply<PrefixProd>({x}, {axis, options}); }

}  // namespace spool
