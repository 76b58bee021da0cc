#include <spool/autograd/saved.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cpu/columns.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/detail/recurrence.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/prefix.h>
#include <spool/ops/where.h>
#include <spool/tensor/error.h>

#include <cmath>
#include <limits>

namespace spool {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// The sum so far is sum·e^top, with top the largest so far.
template <class T, class C>
void lse_columns(const T* x, T* y, int64_t length, int64_t step, int64_t width, bool exclusive) {
  C top[kernels::column_block], sum[kernels::column_block] = {};
  std::fill_n(top, width, C(-inf));
  for (int64_t i = 0; i < length; ++i, x += step, y += step) {
    for (int64_t c = 0; c < width; ++c) {
      const C next = static_cast<C>(x[c]);
      if (exclusive) y[c] = static_cast<T>(top[c] + std::log(sum[c]));
      if (next > top[c]) {
        sum[c] = sum[c] * std::exp(top[c] - next) + 1;
        top[c] = next;
      } else {
        sum[c] += next == top[c] ? C(1) : std::exp(next - top[c]);  // the difference of infinities would be NaN
      }
      if (!exclusive) y[c] = static_cast<T>(top[c] + std::log(sum[c]));
    }
  }
}

struct LogCumSumExp {
  static constexpr auto name = "logcumsumexp";
  struct Attrs {
    int axis = 0;
    PrefixOptions options;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, in);
    normalize_axis(name, attrs.axis, in[0].shape);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      const Shape& shape = k.out().shape();
      const int axis = normalize_axis(name, attrs.axis, shape);
      kernels::each_columns(shape, axis, attrs.options.reverse, 30, [&](int64_t at, int64_t step, int64_t width) {
        lse_columns<T, accumulate_t<T>>(x + at, y + at, shape[axis], step, width, attrs.options.exclusive);
      });
    });
  }
  static Saves saves(Need, const Attrs& attrs) { return Saves().input(0).output(0, !attrs.options.exclusive); }
  /// dx[i] = e^(x[i]-y[i]) · W[i] with W[i] = g[i] + e^(y[i]-y[i+1])·W[i+1]: y does not fall, so no factor exceeds 1.
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const auto [reverse, exclusive] = attrs.options;
    const Tensor& x = s.input(0);
    const Tensor y = exclusive ? logcumsumexp(x, attrs.axis, {.reverse = reverse}) : s.output();
    const Tensor g = exclusive ? detail::shifted(s.grad(), attrs.axis, !reverse) : s.grad();
    const Tensor masked = equal(y, -inf);
    const auto ratio = [&](const Tensor& part) { return exp(masked_fill(sub(part, y), masked, -inf)); };
    const Tensor kept = ratio(detail::shifted(y, attrs.axis, reverse, -inf));
    return {mul(ratio(x), detail::recurrence(kept, g, attrs.axis, !reverse, true))};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {30.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    const Tensor extremes = from({{-inf, -inf, 0, 1}, {-inf, -inf, -inf, -inf}, {1000, 1000, -1000, 3}, {1, inf, 0, std::nan("")}}, Dtype::f64);
    std::vector<Sample> all{{"outer", {rng.normal({7, 3, 2})}, {}},
                            {"inner, reversed", {rng.normal({3, 9})}, attrs_ptr(Attrs{-1, {.reverse = true}})},
                            {"middle, exclusive", {rng.normal({2, 5, 3})}, attrs_ptr(Attrs{1, {.exclusive = true}})},
                            {"zero size", {rng.normal({0, 3})}, {}},
                            {"no columns", {rng.normal({3, 0})}, {}}};
    all[2].check_gradient = false;  // the first result is −∞
    all.push_back({"masked, large, infinite, NaN", {extremes}, attrs_ptr(Attrs{1, {}}), false});
    return all;
  }
  static std::vector<BadSample> bad() {
    return {{"axis", {zeros({2})}, attrs_ptr(Attrs{1, {}}), "logcumsumexp: axis 1 is out of range for shape [2]"},
            {"integers", {zeros({2}, Dtype::i64)}, {}, "logcumsumexp: needs a float type, got i64"}};
  }
};
REGISTER_OP(LogCumSumExp);

}  // namespace

Tensor logcumsumexp(const Tensor& x, int axis, PrefixOptions options) { return apply<LogCumSumExp>({x}, {axis, options}); }

}  // namespace spool
