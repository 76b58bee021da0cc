#include <spool/autograd/saved.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cpu/columns.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/detail/recurrence.h>
#include <spool/ops/prefix.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

struct PrefixAttrs {
  int axis = 0;
  PrefixOptions options;
};

/// The type in which a scan over T runs: integers wrap around.
template <class T>
using running_t = std::conditional_t<std::is_integral_v<accumulate_t<T>>, uint64_t, accumulate_t<T>>;

/// Walks `length` rows of `width` adjacent columns.
template <class Op, class T, class R, class C>
SPOOL_CLONES void scan_columns(const T* x, R* y, int64_t length, int64_t step, int64_t width, bool exclusive) {
  C total[kernels::column_block];
  for (C& t : total) t = C(Op::identity);
  for (int64_t i = 0; i < length; ++i, x += step, y += step) {
    for (int64_t c = 0; c < width; ++c) {
      const C next = Op::join(total[c], static_cast<C>(x[c]));
      y[c] = static_cast<R>(exclusive ? total[c] : next);
      total[c] = next;
    }
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
      kernels::each_columns(shape, axis, attrs.options.reverse, 1, [&](int64_t at, int64_t step, int64_t width) {
        scan_columns<Op, T, R, running_t<T>>(x + at, y + at, shape[axis], step, width, attrs.options.exclusive);
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
