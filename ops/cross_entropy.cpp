#include <spool/autograd/saved.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/cpu/softmax.h>
#include <spool/ops/cross_entropy.h>
#include <spool/ops/detail/targets.h>
#include <spool/tensor/copy.h>

#include <cmath>
#include <limits>

namespace spool {
namespace {

using detail::count_scored;
using detail::statistics_type;
using detail::target_rows;
using kernels::compute_t;

/// log Σ e^x of a row; NaN where nothing in it is above −∞.
template <class T, class C>
C row_lse(const T* x, int64_t n, kernels::Fetch<T> fetch) {
  const C top = kernels::row_max<T, C>(x, n);
  return top + std::log(kernels::exponentials<T, C>(x, n, top, fetch));
}

template <class T, class C>
SPOOL_CLONES void gradient_row(const T* __restrict x, T* __restrict dx, int64_t n, C lse, C scale, C share) {
  for (int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(scale * (kernels::vexp_flushed(static_cast<C>(x[i]) - lse) - share));
}

constexpr int64_t row_block = 256;

/// dlogits = dy·(softmax − target distribution) from logits and the rows' log Σ e^logit.
struct CrossEntropyBackward {
  static constexpr auto name = "cross_entropy_backward";
  static constexpr auto no_gradient = "it is the fused first derivative of cross_entropy";
  using Attrs = CrossEntropyOptions;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Shape rows = target_rows(name, "logits", in[1], in[2]), gradient = attrs.reduction == Reduction::none ? rows : Shape{};
    if (in[0].shape != gradient || in[3].shape != rows)
      fail<ShapeError>(name, ": gradient ", in[0].shape, " and log-sums ", in[3].shape, " do not fit logits ", in[1].shape);
    if (in[0].dtype != statistics_type(in[1].dtype) || in[3].dtype != statistics_type(in[1].dtype))
      fail<DtypeError>(name, ": gradient ", dtype_name(in[0].dtype), " and log-sums ", dtype_name(in[3].dtype), " do not go with ", dtype_name(in[1].dtype));
    return {{in[1]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    kernels::check_indices(name, k.in(2), k.in(1).shape().back(), attrs.ignore_index, true);
    visit_float(name, k.in(1).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      kernels::visit_index(name, k.in(2).dtype(), [&]<class I>() {
        const int64_t n = k.in(1).shape().back(), rows = k.in(2).numel();
        const C* dy = static_cast<const C*>(k.in(0).raw());
        const T* x = static_cast<const T*>(k.in(1).raw());
        const I* target = static_cast<const I*>(k.in(2).raw());
        const C* lse = static_cast<const C*>(k.in(3).raw());
        T* dx = static_cast<T*>(k.out().raw());
        const int64_t scored = attrs.reduction == Reduction::mean ? std::max<int64_t>(1, count_scored(k.in(2), attrs.ignore_index)) : 1;
        const C share = static_cast<C>(attrs.label_smoothing / double(n)), hit = static_cast<C>(1 - attrs.label_smoothing);
        parallel_blocks(rows, 10 * n, [&](int64_t r) {
          if (int64_t(target[r]) == attrs.ignore_index) return void(std::fill_n(dx + r * n, n, T(0.f)));
          const C scale = dy[attrs.reduction == Reduction::none ? r : 0] / static_cast<C>(scored);
          gradient_row<T, C>(x + r * n, dx + r * n, n, lse[r], scale, share);
          T& at = dx[r * n + int64_t(target[r])];
          at = static_cast<T>(static_cast<C>(at) - scale * hit);
        });
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {12.0 * double(numel(in[1].shape)), 2.0 * double(in[1].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"sum", {rng.normal({}), rng.normal({3, 7}), rng.integers({3}, 0, 7), rng.uniform({3}, 2, 3)}, attrs_ptr(Attrs{.reduction = Reduction::sum}), false, true},
            {"none, smoothed", {rng.normal({2, 3}), rng.normal({2, 3, 4}), rng.integers({2, 3}, 0, 4, Dtype::u8), rng.uniform({2, 3}, 2, 3)},
             attrs_ptr(Attrs{.reduction = Reduction::none, .label_smoothing = 0.1}), false, true},
            {"no rows", {rng.normal({}), rng.normal({0, 7}), rng.integers({0}, 0, 7), rng.uniform({0}, 2, 3)}, {}, false, true}};
  }
  static std::vector<BadSample> bad() {
    const Tensor logits = zeros({2, 3}), targets = zeros({2}, Dtype::i64);
    return {{"gradient", {zeros({2}), logits, targets, zeros({2})}, {}, "gradient [2] and log-sums [2] do not fit logits [2, 3]"},
            {"log-sums", {zeros({}), logits, targets, zeros({2}, Dtype::f64)}, {}, "log-sums f64 do not go with f32"},
            {"range", {zeros({}), logits, from(std::initializer_list<double>{0, 3}, {}, Dtype::i64), zeros({2})}, {}, "index 3 at position 1 is out of range for 3"}};
  }
};
REGISTER_OP(CrossEntropyBackward);

struct CrossEntropy {
  static constexpr auto name = "cross_entropy";
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = CrossEntropyOptions;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Shape rows = target_rows(name, "logits", in[0], in[1]);
    if (!(attrs.label_smoothing >= 0 && attrs.label_smoothing < 1)) fail<ConfigError>(name, ": label_smoothing must be in [0, 1), got ", attrs.label_smoothing);
    const Dtype type = statistics_type(in[0].dtype);
    return {{Meta{attrs.reduction == Reduction::none ? rows : Shape{}, type, in[0].device}}, {Meta{rows, type, in[0].device}}};
  }
  static int64_t scratch(const Metas& in, const Attrs&) { return (numel(in[1].shape) + row_block - 1) / row_block * int64_t(sizeof(double)); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const int64_t n = k.in(0).shape().back(), rows = k.in(1).numel();
    kernels::check_indices(name, k.in(1), n, attrs.ignore_index, true);
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      kernels::visit_index(name, k.in(1).dtype(), [&]<class I>() {
        const T* x = static_cast<const T*>(k.in(0).raw());
        const I* target = static_cast<const I*>(k.in(1).raw());
        C* y = static_cast<C*>(k.out().raw());
        C* lse = k.wants(0) ? static_cast<C*>(k.residual(0).raw()) : nullptr;
        auto* partial = reinterpret_cast<double*>(k.scratch.data());
        const int64_t blocks = (rows + row_block - 1) / row_block;
        parallel_blocks(blocks, 10 * n * row_block, [&](int64_t block) {
          double total = 0;
          for (int64_t r = block * row_block; r < std::min(rows, (block + 1) * row_block); ++r) {
            const T* row = x + r * n;
            const C l = row_lse<T, C>(row, n, {x + std::min(r + 1, rows - 1) * n});
            if (lse) lse[r] = l;
            double loss = 0;
            if (int64_t(target[r]) != attrs.ignore_index) {
              loss = (1 - attrs.label_smoothing) * double(l - static_cast<C>(row[int64_t(target[r])]));
              if (attrs.label_smoothing > 0) {
                double mean = 0;
                for (int64_t i = 0; i < n; ++i) mean += double(static_cast<C>(row[i]));
                loss += attrs.label_smoothing * (double(l) - mean / double(n));
              }
            }
            if (attrs.reduction == Reduction::none) y[r] = static_cast<C>(loss);
            total += loss;
          }
          partial[block] = total;
        });
        if (attrs.reduction == Reduction::none) return;
        double total = 0;
        for (int64_t block = 0; block < blocks; ++block) total += partial[block];
        if (attrs.reduction == Reduction::mean) total /= double(std::max<int64_t>(1, count_scored(k.in(1), attrs.ignore_index)));
        y[0] = static_cast<C>(total);
      });
    });
  }
  static Saves saves(Need) { return Saves().input(0).input(1).residual(0); }
  static Tensors vjp(Saved& s, const Attrs& attrs) { return {apply<CrossEntropyBackward>({s.grad(), s.input(0), s.input(1), s.residual(0)}, attrs), {}}; }
  static Cost cost(const Metas& in, const Attrs&) { return {12.0 * double(numel(in[0].shape)), double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    const double infinity = std::numeric_limits<double>::infinity();
    const Tensor ignoring = from(std::initializer_list<double>{2, -100, 0}, Shape{3}, Dtype::i64);
    return {{"mean", {rng.normal({3, 7}), rng.integers({3}, 0, 7)}, {}},
            {"sum, bytes, two axes", {rng.normal({2, 5, 33}), rng.integers({2, 5}, 0, 33, Dtype::u8)}, attrs_ptr(Attrs{.reduction = Reduction::sum})},
            {"none", {rng.normal({4, 3}), rng.integers({4}, 0, 3, Dtype::i32)}, attrs_ptr(Attrs{.reduction = Reduction::none})},
            {"one ignored", {rng.normal({3, 4}), ignoring}, {}},
            {"smoothed", {rng.normal({5, 4}), rng.integers({5}, 0, 4)}, attrs_ptr(Attrs{.label_smoothing = 0.1})},
            {"all ignored, −∞", {from({{-infinity, -infinity}}, Dtype::f64), from(std::initializer_list<double>{-100}, Shape{1}, Dtype::i64)}, {}, false},
            {"no rows", {rng.normal({0, 4}), rng.integers({0}, 0, 4)}, {}}};
  }
  static std::vector<BadSample> bad() {
    return {{"range", {zeros({1, 256}), from(std::initializer_list<double>{256}, Shape{1}, Dtype::i64)}, {}, "index 256 at position 0 is out of range for 256"},
            {"shape", {zeros({2, 3}), zeros({3}, Dtype::i64)}, {}, "targets [3] do not fit logits [2, 3]"},
            {"type", {zeros({2, 3}), zeros({2})}, {}, "needs u8, i32 or i64 indices, got f32"}};
  }
};
REGISTER_OP(CrossEntropy);

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, CrossEntropyOptions options) { return apply<CrossEntropy>({logits, targets}, options); }

}  // namespace spool
