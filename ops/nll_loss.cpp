#include <spool/autograd/saved.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/detail/targets.h>
#include <spool/ops/loss.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <algorithm>

namespace spool {
namespace {

using detail::statistics_type;

constexpr int64_t row_block = 1024;

double divisor(const Tensor& targets, const NllOptions& options) {
  if (options.reduction != Reduction::mean) return 1;
  return double(std::max<int64_t>(1, detail::count_scored(targets, options.ignore_index)));
}

/// dlog_probs[r, target[r]] = −dy, 0 elsewhere.
struct NllBackward {
  static constexpr auto name = "nll_loss_backward";
  struct Attrs {
    NllOptions options;
    int64_t classes = 1;
    Dtype dtype = Dtype::f64;  ///< Of the gradient; dy has that of the loss.
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    Shape shape = in[1].shape;
    shape.push_back(attrs.classes);
    const Meta out{shape, attrs.dtype, in[0].device};
    const Shape rows = detail::target_rows(name, "log_probs", out, in[1]), loss = attrs.options.reduction == Reduction::none ? rows : Shape{};
    if (in[0].shape != loss) fail<ShapeError>(name, ": gradient ", in[0].shape, " does not fit targets ", rows);
    if (in[0].dtype != statistics_type(attrs.dtype)) fail<DtypeError>(name, ": gradient ", dtype_name(in[0].dtype), " does not go with ", dtype_name(attrs.dtype));
    return {{out}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    kernels::check_indices(name, k.in(1), attrs.classes, attrs.options.ignore_index, true);
    visit_float(name, attrs.dtype, [&]<class T>() {
      using C = kernels::compute_t<T>;
      kernels::visit_index(name, k.in(1).dtype(), [&]<class I>() {
        const int64_t n = attrs.classes, rows = k.in(1).numel();
        const C* dy = static_cast<const C*>(k.in(0).raw());
        const I* target = static_cast<const I*>(k.in(1).raw());
        T* dx = static_cast<T*>(k.out().raw());
        const auto scored = static_cast<C>(divisor(k.in(1), attrs.options));
        parallel_blocks(rows, n, [&](int64_t r) {
          std::fill_n(dx + r * n, n, T(0.f));
          if (int64_t(target[r]) != attrs.options.ignore_index)
            dx[r * n + int64_t(target[r])] = static_cast<T>(-dy[attrs.options.reduction == Reduction::none ? r : 0] / scored);
        });
      });
    });
  }
  static Saves saves(Need) { return Saves().input(1); }
  static Tensors vjp(Saved& s, const Attrs& attrs) { return {nll_loss(s.grad(), s.input(1), attrs.options), {}}; }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    const double rows = double(numel(in[1].shape));
    return {rows, rows * double(attrs.classes) * double(dtype_size(attrs.dtype))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"mean", {rng.normal({}), rng.integers({3}, 0, 7)}, attrs_ptr(Attrs{{}, 7})},
            {"none, bytes", {rng.normal({2, 3}), rng.integers({2, 3}, 0, 5, Dtype::u8)}, attrs_ptr(Attrs{{.reduction = Reduction::none}, 5})},
            {"sum, some ignored", {rng.normal({}), rng.integers({9}, 0, 3, Dtype::i32)}, attrs_ptr(Attrs{{.reduction = Reduction::sum, .ignore_index = 1}, 3})},
            {"no rows", {rng.normal({}), rng.integers({0}, 0, 7)}, attrs_ptr(Attrs{{}, 7})}};
  }
  static std::vector<BadSample> bad() {
    const Tensor targets = zeros({2}, Dtype::i64);
    return {{"gradient", {zeros({3}), targets}, attrs_ptr(Attrs{{}, 3, Dtype::f32}), "gradient [3] does not fit targets [2]"},
            {"type", {zeros({}, Dtype::f64), targets}, attrs_ptr(Attrs{{}, 3, Dtype::bf16}), "gradient f64 does not go with bf16"},
            {"range", {zeros({}), from(std::initializer_list<double>{0, 3}, {}, Dtype::i64)}, attrs_ptr(Attrs{{}, 3, Dtype::f32}), "index 3 at position 1 is out of range for 3"}};
  }
};
REGISTER_OP(NllBackward);

struct NllLoss {
  static constexpr auto name = "nll_loss";
  using Attrs = NllOptions;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Shape rows = detail::target_rows(name, "log_probs", in[0], in[1]);
    return {{Meta{attrs.reduction == Reduction::none ? rows : Shape{}, statistics_type(in[0].dtype), in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs&) { return (numel(in[1].shape) + row_block - 1) / row_block * int64_t(sizeof(double)); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const int64_t n = k.in(0).shape().back(), rows = k.in(1).numel();
    kernels::check_indices(name, k.in(1), n, attrs.ignore_index, true);
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = kernels::compute_t<T>;
      kernels::visit_index(name, k.in(1).dtype(), [&]<class I>() {
        const T* x = static_cast<const T*>(k.in(0).raw());
        const I* target = static_cast<const I*>(k.in(1).raw());
        C* y = static_cast<C*>(k.out().raw());
        auto* partial = reinterpret_cast<double*>(k.scratch.data());
        const auto loss = [&](int64_t r) { return int64_t(target[r]) == attrs.ignore_index ? C(0) : -static_cast<C>(x[r * n + int64_t(target[r])]); };
        const int64_t blocks = (rows + row_block - 1) / row_block;
        parallel_blocks(blocks, 16 * row_block, [&](int64_t block) {
          double total = 0;
          for (int64_t r = block * row_block; r < std::min(rows, (block + 1) * row_block); ++r) {
            if (attrs.reduction == Reduction::none) y[r] = loss(r);
            else total += double(loss(r));
          }
          partial[block] = total;
        });
        if (attrs.reduction == Reduction::none) return;
        double total = 0;
        for (int64_t block = 0; block < blocks; ++block) total += partial[block];
        y[0] = static_cast<C>(total / divisor(k.in(1), attrs));
      });
    });
  }
  static Saves saves(Need) { return Saves().input(1); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    const Meta& x = s.in_meta(0);
    return {apply<NllBackward>({s.grad(), s.input(1)}, {attrs, x.shape.back(), x.dtype}), {}};
  }
  static Cost cost(const Metas& in, const Attrs&) {
    const double rows = double(numel(in[1].shape));
    return {rows, rows * double(dtype_size(in[0].dtype) + dtype_size(in[1].dtype))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    const double infinity = std::numeric_limits<double>::infinity();
    return {{"mean", {rng.normal({3, 7}), rng.integers({3}, 0, 7)}, {}},
            {"sum, bytes, two axes", {rng.normal({2, 5, 33}), rng.integers({2, 5}, 0, 33, Dtype::u8)}, attrs_ptr(Attrs{.reduction = Reduction::sum})},
            {"none", {rng.normal({4, 3}), rng.integers({4}, 0, 3, Dtype::i32)}, attrs_ptr(Attrs{.reduction = Reduction::none})},
            {"one ignored", {rng.normal({3, 4}), from(std::initializer_list<double>{2, -100, 0}, Shape{3}, Dtype::i64)}, {}},
            {"one row, 0-d target", {rng.normal({4}), rng.integers({}, 0, 4)}, {}},
            {"all ignored, −∞", {from({{-infinity, -infinity}}, Dtype::f64), from(std::initializer_list<double>{-100}, Shape{1}, Dtype::i64)}, {}, false},
            {"no rows", {rng.normal({0, 4}), rng.integers({0}, 0, 4)}, {}}};
  }
  static std::vector<BadSample> bad() {
    return {{"range", {zeros({1, 256}), from(std::initializer_list<double>{256}, Shape{1}, Dtype::i64)}, {}, "nll_loss: index 256 at position 0 is out of range for 256"},
            {"shape", {zeros({2, 3}), zeros({3}, Dtype::i64)}, {}, "targets [3] do not fit log_probs [2, 3]"},
            {"type", {zeros({2, 3}), zeros({2})}, {}, "needs u8, i32 or i64 indices, got f32"},
            {"classes", {zeros({2, 0}), zeros({2}, Dtype::i64)}, {}, "log_probs [2, 0] have no classes"}};
  }
};
REGISTER_OP(NllLoss);

}  // namespace

Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, NllOptions options) { return apply<NllLoss>({log_probs, targets}, options); }

}  // namespace spool
