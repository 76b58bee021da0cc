#include <spool/autograd/saved.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cpu/columns.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/detail/recurrence.h>
#include <spool/ops/moving.h>
#include <spool/ops/prefix.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

template <class T, class C>
SPOOL_CLONES void recurrence_columns(const T* a, const T* b, T* h, int64_t length, int64_t step, int64_t width) {
  C state[kernels::column_block];
  for (int64_t c = 0; c < width; ++c) {
    state[c] = static_cast<C>(b[c]);
    h[c] = b[c];
  }
  for (int64_t i = 1; i < length; ++i) {
    b += step;
    h += step;
    for (int64_t c = 0; c < width; ++c) {
      state[c] = static_cast<C>(a[c]) * state[c] + static_cast<C>(b[c]);
      h[c] = static_cast<T>(state[c]);
    }
    a += step;
  }
}

struct LinearRecurrence {
  static constexpr auto name = "linear_recurrence";
  struct Attrs {
    int axis = 0;
    bool reverse = false, late = false;  ///< Late: the factor is that of the element before.
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, in);
    if (in[0].shape != in[1].shape) fail<ShapeError>(name, ": factors ", in[0].shape, " and summands ", in[1].shape, " differ; expand() one");
    normalize_axis(name, attrs.axis, in[0].shape);
    return {{in[1]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.out().dtype(), [&]<class T>() {
      const T *a = static_cast<const T*>(k.in(0).raw()), *b = static_cast<const T*>(k.in(1).raw());
      T* h = static_cast<T*>(k.out().raw());
      const Shape& shape = k.out().shape();
      const int axis = normalize_axis(name, attrs.axis, shape);
      kernels::each_columns(shape, axis, attrs.reverse, 2, [&](int64_t at, int64_t step, int64_t width) {
        const int64_t first_factor = shape[axis] > 1 && !attrs.late ? at + step : at;
        recurrence_columns<T, accumulate_t<T>>(a + first_factor, b + at, h + at, shape[axis], step, width);
      });
    });
  }
  static Saves saves(Need need) { return Saves().input(0).output(0, need(0)); }
  /// s[i] = g[i] + a[i+1]·s[i+1] is what reaches h[i], and with it b[i].
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const auto [axis, reverse, late] = attrs;
    const Tensor sums = detail::recurrence(s.input(0), s.grad(), axis, !reverse, !late);
    Tensor da;
    if (s.needs(0)) {
      const Tensor& h = s.output();
      da = late ? mul(detail::shifted(sums, axis, !reverse), h) : mul(sums, detail::shifted(h, axis, reverse));
    }
    return {da, s.needs(1) ? sums : Tensor()};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {2.0 * double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"outer", {rng.uniform({7, 3, 2}, -1, 1), rng.normal({7, 3, 2})}, {}},
            {"inner, reversed", {rng.uniform({3, 9}, -1, 1), rng.normal({3, 9})}, attrs_ptr(Attrs{-1, true})},
            {"middle, late", {rng.uniform({2, 5, 70}, -1, 1), rng.normal({2, 5, 70})}, attrs_ptr(Attrs{1, false, true})},
            {"both, one element", {rng.normal({1}), rng.normal({1})}, attrs_ptr(Attrs{0, true, true})},
            {"both", {rng.normal({4}), rng.normal({4})}, attrs_ptr(Attrs{0, true, true})},
            {"zero size", {rng.normal({0, 3}), rng.normal({0, 3})}, {}},
            {"no columns", {rng.normal({3, 0}), rng.normal({3, 0})}, {}}};
  }
  static std::vector<BadSample> bad() {
    const Tensor two = zeros({2});
    return {{"shapes", {two, zeros({3})}, {}, "linear_recurrence: factors [2] and summands [3] differ; expand() one"},
            {"types", {two, zeros({2}, Dtype::f64)}, {}, "linear_recurrence: inputs are f32 and f64; convert one with cast()"},
            {"axis", {two, two}, attrs_ptr(Attrs{1}), "linear_recurrence: axis 1 is out of range for shape [2]"}};
  }
};
REGISTER_OP(LinearRecurrence);

}  // namespace

Tensor linear_recurrence(const Tensor& a, const Tensor& b, int axis, bool reverse) { return detail::recurrence(a, b, axis, reverse, false); }

namespace detail {

Tensor recurrence(const Tensor& a, const Tensor& b, int axis, bool reverse, bool late) {
  return apply<LinearRecurrence>({a, b}, {axis, reverse, late});
}

Tensor shifted(const Tensor& x, int axis, bool reverse, double first) {
  if (x.size(axis) == 0) return x;
  return pad(x, axis, reverse ? PadWidth{-1, 1} : PadWidth{1, -1}, {.value = first});
}

}  // namespace detail
}  // namespace spool
