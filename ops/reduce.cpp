#include <spool/autograd/saved.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cast.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/cpu/reduce.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/reduce.h>
#include <spool/ops/shape.h>

#include <limits>

namespace spool {
namespace {

struct ReduceAttrs {
  uint32_t axes = 1;  ///< One bit an axis.
};

Shape reduced_shape(const Shape& shape, uint32_t axes) {
  Shape out = shape;
  for (int i = 0; i < shape.size(); ++i) if (axes >> i & 1) out[i] = 1;
  return out;
}

std::vector<Sample> reduce_samples(Rng& rng, bool empty_too) {
  std::vector<Sample> out;
  for (const uint32_t axes : {1u, 2u, 4u, 5u, 3u, 7u, 0u}) out.push_back({"3 axes", {rng.normal({3, 4, 5})}, attrs_ptr(ReduceAttrs{axes})});
  out.push_back({"many rows", {rng.normal({70, 3})}, attrs_ptr(ReduceAttrs{1})});
  out.push_back({"0-d", {rng.normal({})}, attrs_ptr(ReduceAttrs{0})});
  if (empty_too) out.push_back({"nothing", {rng.normal({0, 3})}, attrs_ptr(ReduceAttrs{1})});
  out.push_back({"empty result", {rng.normal({0, 3})}, attrs_ptr(ReduceAttrs{2})});
  return out;
}

/// Keeps all axes; reduced ones have size 1. F: start, join; `gradient(Saved&, attrs)`.
template <class F>
struct Reduction {
  static constexpr auto name = F::name;
  using Attrs = ReduceAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    if (!is_float(in[0].dtype)) fail_not_float(name, in[0].dtype);
    const Shape out = reduced_shape(in[0].shape, attrs.axes);
    if (F::needs_elements && numel(in[0].shape) == 0 && numel(out) > 0) fail<ShapeError>(name, ": nothing to choose from in ", in[0].shape);
    return {{Meta{out, in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using W = std::conditional_t<F::exact || std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, accumulate_t<T>, double>;
      kernels::reduce<F, T, W>(static_cast<const T*>(k.in(0).raw()), static_cast<T*>(k.out().raw()), k.in(0).shape(), attrs.axes);
    });
  }
  static Saves saves(Need) { return F::saves(); }
  static Tensors vjp(Saved& s, const Attrs& attrs) { return {F::gradient(s, attrs)}; }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return reduce_samples(rng, !F::needs_elements); }
  static std::vector<BadSample> bad() {
    std::vector<BadSample> out{{"integers", {zeros({2}, Dtype::i64)}, {}, "needs a float type, got i64"}};
    if (F::needs_elements) out.push_back({"nothing", {zeros({0})}, {}, "nothing to choose from in [0]"});
    return out;
  }
};

struct Sum {
  static constexpr auto name = "sum";
  static constexpr bool needs_elements = false, exact = false;
  template <class W> SPOOL_INLINE static W start() { return 0; }
  template <class W> SPOOL_INLINE static W join(W a, W b) { return a + b; }
  static Saves saves() { return {}; }
  static Tensor gradient(Saved& s, const ReduceAttrs&) { return expand(s.grad(), s.in_meta(0).shape); }
};

/// The gradient goes to the elements that equal the result, in equal shares.
Tensor tied_gradient(Saved& s, const ReduceAttrs& attrs) {
  const Tensor& x = s.input(0);
  const Tensor chosen = cast(equal(x, expand(s.output(), x.shape())), x.dtype());
  std::vector<int> axes;
  for (int i = 0; i < x.dims(); ++i) if (attrs.axes >> i & 1) axes.push_back(i);
  const Tensor count = axes.empty() ? ones(s.out_meta().shape, x.dtype(), x.device()) : sum(chosen, axes, true);
  return chosen * (s.grad() / count);
}
struct Amax {
  static constexpr auto name = "amax";
  static constexpr bool needs_elements = true, exact = true;
  template <class W> SPOOL_INLINE static W start() { return -std::numeric_limits<W>::infinity(); }
  template <class W> SPOOL_INLINE static W join(W a, W b) { return a > b || a != a ? a : b; }
  static Saves saves() { return Saves().input(0).output(0); }
  static Tensor gradient(Saved& s, const ReduceAttrs& attrs) { return tied_gradient(s, attrs); }
};
struct Amin {
  static constexpr auto name = "amin";
  static constexpr bool needs_elements = true, exact = true;
  template <class W> SPOOL_INLINE static W start() { return std::numeric_limits<W>::infinity(); }
  template <class W> SPOOL_INLINE static W join(W a, W b) { return a < b || a != a ? a : b; }
  static Saves saves() { return Saves().input(0).output(0); }
  static Tensor gradient(Saved& s, const ReduceAttrs& attrs) { return tied_gradient(s, attrs); }
};
using SumOp = Reduction<Sum>;
REGISTER_OP(SumOp);
using AmaxOp = Reduction<Amax>;
REGISTER_OP(AmaxOp);
using AminOp = Reduction<Amin>;
REGISTER_OP(AminOp);

// Along the last axis only; the public functions move the axis there.

/// dx[i] = dy · ∏_{j≠i} x[j], from products of what lies before and after: no division.
struct ProdBackward {
  static constexpr auto name = "prod_backward";
  static constexpr auto no_gradient = "it is the fused first derivative of prod";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    if (in[0].shape.empty() || in[1].shape.empty()) fail<ShapeError>(name, ": needs an axis, got ", in[0].shape);
    return {{in[1]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using W = accumulate_t<T>;
      const T *dy = static_cast<const T*>(k.in(0).raw()), *x = static_cast<const T*>(k.in(1).raw());
      T* dx = static_cast<T*>(k.out().raw());
      const int64_t n = k.out().shape().back(), rows = n ? k.out().numel() / n : 0;
      parallel_blocks(rows, 2 * n, [&](int64_t r) {
        W before = W(dy[r]);
        for (int64_t i = 0; i < n; ++i) {
          dx[r * n + i] = static_cast<T>(before);
          before *= W(x[r * n + i]);
        }
        W after = 1;
        for (int64_t i = n - 1; i >= 0; --i) {
          dx[r * n + i] = static_cast<T>(W(dx[r * n + i]) * after);
          after *= W(x[r * n + i]);
        }
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {4.0 * double(numel(in[1].shape)), 2.0 * double(in[1].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return {{"rows", {rng.normal({3, 1}), rng.normal({3, 5})}, {}}, {"zero size", {rng.normal({0, 1}), rng.normal({0, 4})}, {}}}; }
  static std::vector<BadSample> bad() { return {{"0-d", {scalar(1), scalar(1)}, {}, "needs an axis"}}; }
};
REGISTER_OP(ProdBackward);

struct Prod {
  static constexpr auto name = "prod";
  static constexpr auto no_second_order = "its backward is one fused pass";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    if (in[0].shape.empty()) fail<ShapeError>(name, ": needs an axis, got []");
    Meta out = in[0];
    out.shape[out.shape.size() - 1] = 1;
    return {{out}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      const int64_t n = k.in(0).shape().back();
      for (int64_t r = 0; r < k.out().numel(); ++r) {
        accumulate_t<T> product = 1;
        for (int64_t i = 0; i < n; ++i) product *= accumulate_t<T>(x[r * n + i]);
        y[r] = static_cast<T>(product);
      }
    });
  }
  static Saves saves(Need) { return Saves().input(0); }
  static Tensors vjp(Saved& s, const Attrs&) { return {apply<ProdBackward>({s.grad(), s.input(0)})}; }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({3, 5})}, {}}, {"zeros", {from({{2, 0, 3, 4}, {2, 0, 0, 3}}, Dtype::f64)}, {}}, {"of nothing", {rng.normal({2, 0})}, {}}};
  }
  static std::vector<BadSample> bad() { return {{"0-d", {scalar(1)}, {}, "needs an axis"}}; }
};
REGISTER_OP(Prod);

template <bool largest>
struct ArgOp {
  static constexpr auto name = largest ? "argmax" : "argmin";
  static constexpr auto no_gradient = "its result is an index";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    if (in[0].shape.empty() || in[0].shape.back() == 0) fail<ShapeError>(name, ": nothing to choose from in ", in[0].shape);
    Shape out = in[0].shape;
    out[out.size() - 1] = 1;
    return {{Meta{out, Dtype::i64, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit(k.in(0).dtype(), [&]<class T>() {
      const T* x = static_cast<const T*>(k.in(0).raw());
      auto* y = static_cast<int64_t*>(k.out().raw());
      const int64_t n = k.in(0).shape().back();
      for (int64_t r = 0; r < k.out().numel(); ++r) {
        const T* row = x + r * n;
        int64_t best = 0;
        for (int64_t i = 1; i < n && !(row[best] != row[best]); ++i)
          if ((largest ? row[i] > row[best] : row[i] < row[best]) || row[i] != row[i]) best = i;
        y[r] = best;
      }
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return {{"rows", {rng.normal({3, 9})}, {}}, {"ties", {from({{1, 2, 2}, {0, 0, 0}}, Dtype::f64)}, {}}, {"no rows", {rng.normal({0, 4})}, {}}}; }
  static std::vector<BadSample> bad() { return {{"nothing", {zeros({2, 0})}, {}, "nothing to choose from in [2, 0]"}}; }
};
using ArgmaxOp = ArgOp<true>;
REGISTER_OP(ArgmaxOp);
using ArgminOp = ArgOp<false>;
REGISTER_OP(ArgminOp);

uint32_t mask_of(std::string_view op, const Tensor& x, const std::vector<int>& axes) {
  if (axes.empty()) return (uint32_t(1) << x.dims()) - 1;
  uint32_t mask = 0;
  for (int axis : axes) {
    const uint32_t bit = uint32_t(1) << normalize_axis(op, axis, x.shape());
    if (mask & bit) fail<ShapeError>(op, ": axis ", axis, " is given twice");
    mask |= bit;
  }
  return mask;
}

Tensor drop(const Tensor& y, uint32_t axes, bool keepdim) {
  if (keepdim || axes == 0) return y;
  Shape shape;
  for (int i = 0; i < y.dims(); ++i) if (!(axes >> i & 1)) shape.push_back(y.shape()[i]);
  return reshape(y, shape);
}

template <class Op>
Tensor reduced(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  const uint32_t mask = mask_of(Op::name, x, axes);
  return drop(apply<Op>({x}, {mask}), mask, keepdim);
}

template <class Op>
Tensor along(const Tensor& x, int axis, bool keepdim) {
  const int at = normalize_axis(Op::name, axis, x.shape());
  const Tensor y = transpose(apply<Op>({transpose(x, at, -1)}), at, -1);
  return keepdim ? y : squeeze(y, at);
}

double count_of(const Tensor& x, uint32_t axes) {
  double count = 1;
  for (int i = 0; i < x.dims(); ++i) if (axes >> i & 1) count *= double(x.shape()[i]);
  return count;
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keepdim) { return reduced<SumOp>(x, axes, keepdim); }
Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keepdim) { return sum(x, axes, keepdim) * (1 / count_of(x, mask_of("mean", x, axes))); }
Tensor amax(const Tensor& x, const std::vector<int>& axes, bool keepdim) { return reduced<AmaxOp>(x, axes, keepdim); }
Tensor amin(const Tensor& x, const std::vector<int>& axes, bool keepdim) { return reduced<AminOp>(x, axes, keepdim); }
Tensor prod(const Tensor& x, int axis, bool keepdim) { return along<Prod>(x, axis, keepdim); }
Tensor argmax(const Tensor& x, int axis, bool keepdim) { return along<ArgmaxOp>(x, axis, keepdim); }
Tensor argmin(const Tensor& x, int axis, bool keepdim) { return along<ArgminOp>(x, axis, keepdim); }

Tensor var(const Tensor& x, const std::vector<int>& axes, bool keepdim, double correction) {
  const double count = count_of(x, mask_of("var", x, axes));
  return sum(square(x - mean(x, axes, true)), axes, keepdim) * (1 / (count - correction));
}

}  // namespace spool
