#include <spool/autograd/saved.h>
#include <spool/ops/cpu/columns.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/indexing.h>
#include <spool/ops/prefix.h>
#include <spool/ops/slice.h>
#include <spool/tensor/error.h>

#include <limits>

namespace spool {
namespace {

template <bool larger, class C>
constexpr C of_nothing() {
  using Limits = std::numeric_limits<C>;
  if constexpr (Limits::has_infinity)
    return larger ? -Limits::infinity() : Limits::infinity();
  else
    return larger ? Limits::lowest() : Limits::max();
}

/// Walks rows of adjacent columns. Row i of the scan is position `first` + i·direction of the axis; the position of y goes to `position`, if
/// it is given.
template <bool larger, class T>
void extremum_columns(const T* x, T* y, int64_t* position, int64_t length, int64_t step, int64_t width, bool exclusive, int64_t first,
                      int64_t direction) {
  using C = kernels::compute_t<T>;
  C best[kernels::column_block];
  int64_t at[kernels::column_block];
  std::fill_n(best, width, of_nothing<larger, C>());
  std::fill_n(at, width, first);
  for (int64_t i = 0; i < length; ++i) {
    const int64_t offset = i * step;
    for (int64_t c = 0; c < width; ++c) {
      const C before = best[c], next = kernels::load(x[offset + c]);
      const int64_t before_at = at[c];
      if (before == before && !(larger ? next <= before : next >= before)) {  // beyond, or the first NaN
        best[c] = next;
        at[c] = first + i * direction;
      }
      y[offset + c] = static_cast<T>(exclusive ? before : best[c]);
      if (position) position[offset + c] = exclusive ? before_at : at[c];
    }
  }
}

template <bool larger>
struct PrefixExtremum {
  static constexpr auto name = larger ? "prefix_max" : "prefix_min";
  struct Attrs {
    int axis = 0;
    PrefixOptions options;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    normalize_axis(name, attrs.axis, in[0].shape);
    return {{in[0]}, {{in[0].shape, Dtype::i64, in[0].device}}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit(k.in(0).dtype(), [&]<class T>() {
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      auto* position = k.wants(0) ? static_cast<int64_t*>(k.residual(0).raw()) : nullptr;
      const Shape& shape = k.out().shape();
      const int axis = normalize_axis(name, attrs.axis, shape);
      const bool reverse = attrs.options.reverse;
      const int64_t length = shape[axis], first = reverse ? length - 1 : 0, direction = reverse ? -1 : 1;
      kernels::each_columns(shape, axis, reverse, 2, [&](int64_t at, int64_t step, int64_t width) {
        int64_t* from_here = position ? position + at : nullptr;
        extremum_columns<larger>(x + at, y + at, from_here, length, step, width, attrs.options.exclusive, first, direction);
      });
    });
  }
  static Saves saves(Need) { return Saves().residual(0); }
  /// The first result of an exclusive scan comes from no element.
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Shape& shape = s.in_meta(0).shape;
    Tensor g = s.grad(), position = s.residual(0);
    if (const int64_t length = shape[normalize_axis(name, attrs.axis, shape)]; attrs.options.exclusive && length > 0) {
      for (Tensor* t : {&g, &position}) *t = narrow(*t, attrs.axis, attrs.options.reverse ? 0 : 1, length - 1);
    }
    return {scatter_add(zeros_view(shape, g.dtype(), g.device()), attrs.axis, position, g)};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {2.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    const Tensor awkward = from({{1, 2, 2, 0, 3}, {0, 0, 0, 0, 0}, {1, nan, 3, nan, 4}, {-inf, inf, -inf, inf, 0}}, Dtype::f64);
    std::vector<Sample> all{{"outer", {rng.normal({7, 3, 2})}, {}},
                            {"inner, reversed", {rng.normal({3, 9})}, attrs_ptr(Attrs{-1, {.reverse = true}})},
                            {"middle, exclusive", {rng.normal({2, 5, 70})}, attrs_ptr(Attrs{1, {.exclusive = true}})},
                            {"integers", {rng.integers({3, 4}, -3, 4, Dtype::i32)}, attrs_ptr(Attrs{1, {.exclusive = true}})},
                            {"zero size", {rng.normal({0, 3})}, attrs_ptr(Attrs{0, {.exclusive = true}})},
                            {"no columns", {rng.normal({3, 0})}, {}}};
    all[2].check_gradient = false;  // the first result is infinite
    all.push_back({"ties and extremes", {awkward}, attrs_ptr(Attrs{1, {}}), false});
    return all;
  }
  static std::vector<BadSample> bad() {
    return {{"axis", {zeros({2})}, attrs_ptr(Attrs{1, {}}), concat(name, ": axis 1 is out of range for shape [2]")},
            {"0-d", {scalar(1)}, {}, concat(name, ": axis 0 is out of range for shape []")}};
  }
};
using PrefixMax = PrefixExtremum<true>;
using PrefixMin = PrefixExtremum<false>;
REGISTER_OP(PrefixMax);
REGISTER_OP(PrefixMin);

}  // namespace

Tensor prefix_max(const Tensor& x, int axis, PrefixOptions options) { return apply<PrefixMax>({x}, {axis, options}); }
Tensor prefix_min(const Tensor& x, int axis, PrefixOptions options) { return apply<PrefixMin>({x}, {axis, options}); }

}  // namespace spool
