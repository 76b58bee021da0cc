#include <spool/autograd/saved.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>
#include <spool/ops/cpu/lane_sum.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/norm.h>
#include <spool/tensor/copy.h>

#include <cmath>

namespace spool {
namespace {

using kernels::compute_t, kernels::each, kernels::Fetch, kernels::join_lanes, kernels::lane_sum;

/// A number near the elements of a row. Means are counted from it, so that where they are large against the deviations these keep their
/// digits: f32 holds a mean of 10,000 to 5e-4.
template <class T, class C>
SPOOL_INLINE C row_origin(const T* x, int64_t n) {
  const auto part = [x](int64_t i) { return C(0.25) * static_cast<C>(x[i]); };
  return (part(0) + part(n / 4)) + (part(n / 2) + part(n - n / 4 - 1));
}

/// One row: mean from the row's origin (0 for rms) and 1/√(mean square deviation + eps), then y.
template <class T, class C>
SPOOL_CLONES void norm_row(const T* __restrict x, const T* __restrict weight, const T* __restrict bias, T* __restrict y, int64_t n, C eps, bool centred, C* mean_out, C* rstd_out, Fetch<T> next) {
  const C origin = centred ? row_origin<T, C>(x, n) : C(0);
  const C mean = centred ? lane_sum<C>(0, n, [=](int64_t i) __attribute__((always_inline)) { return static_cast<C>(x[i]) - origin; }) / static_cast<C>(n) : C(0);
  const C square = lane_sum<C>(0, n, [=](int64_t i) __attribute__((always_inline)) {
    const C d = static_cast<C>(x[i]) - origin - mean;
    return d * d;
  });
  const C rstd = C(1) / std::sqrt(square / static_cast<C>(n) + eps);
  if (weight && bias) {
    each(n, [=](int64_t i) __attribute__((always_inline)) { y[i] = static_cast<T>((static_cast<C>(x[i]) - origin - mean) * rstd * static_cast<C>(weight[i]) + static_cast<C>(bias[i])); }, next);
  } else if (!centred && weight) {  // rounded before the weight, as LLaMA's reference codes do; nothing for f32
    each(n, [=](int64_t i) __attribute__((always_inline)) { y[i] = static_cast<T>(static_cast<C>(static_cast<T>(static_cast<C>(x[i]) * rstd)) * static_cast<C>(weight[i])); }, next);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const C scaled = (static_cast<C>(x[i]) - origin - mean) * rstd * (weight ? static_cast<C>(weight[i]) : C(1));
      y[i] = static_cast<T>(bias ? scaled + static_cast<C>(bias[i]) : scaled);
    }
  }
  *mean_out = mean;
  *rstd_out = rstd;
}

/// One row of backward: dx, and the row's part of dweight and dbias. With h = (x − origin − mean)·rstd and g = dy·weight:
/// dx = rstd·(g − mean(g) − h·mean(g·h)), the middle term only when centred, plus what else flows into x.
template <class T, class C, bool centred, bool weighted, bool parameters>
SPOOL_CLONES void norm_backward_row(const T* __restrict dy, const T* __restrict x, const T* __restrict weight, C mean, C rstd, const T* __restrict extra, T* __restrict dx, C* __restrict dweight,
                                    C* __restrict dbias, int64_t n, Fetch<T> next_dy, Fetch<T> next_x) {
  constexpr int lanes = kernels::many_lanes<C> / 2;  // for each of two sums
  const C origin = centred ? row_origin<T, C>(x, n) : C(0);
  C along[lanes] = {}, total[lanes] = {};
  const auto add = [&](int64_t i, int l) __attribute__((always_inline)) {
    const C d = static_cast<C>(dy[i]), h = (static_cast<C>(x[i]) - origin - mean) * rstd, g = weighted ? d * static_cast<C>(weight[i]) : d;
    if constexpr (parameters) dweight[i] += d * h;
    if constexpr (parameters && centred) dbias[i] += d;
    if constexpr (centred) total[l] += g;
    along[l] += g * h;
  };
  int64_t i = 0;
  for (const int64_t whole = n / lanes * lanes; i < whole; i += lanes)
    for (int l = 0; l < lanes; ++l) add(i + l, l);
  for (int l = 0; i < n; ++i, ++l) add(i, l);
  if (!dx) return;
  const auto plus = [](C p, C q) __attribute__((always_inline)) { return p + q; };
  const C a = join_lanes<lanes / 2>(along, plus) / static_cast<C>(n), b = centred ? join_lanes<lanes / 2>(total, plus) / static_cast<C>(n) : C(0);
  const auto value = [=](int64_t j) __attribute__((always_inline)) {
    const C g = weighted ? static_cast<C>(dy[j]) * static_cast<C>(weight[j]) : static_cast<C>(dy[j]);
    return rstd * (g - b - (static_cast<C>(x[j]) - origin - mean) * rstd * a);
  };
  if (extra)
    each(n, [=](int64_t j) __attribute__((always_inline)) { dx[j] = static_cast<T>(value(j) + static_cast<C>(extra[j])); }, next_dy, next_x);
  else
    each(n, [=](int64_t j) __attribute__((always_inline)) { dx[j] = static_cast<T>(value(j)); }, next_dy, next_x);
}

template <class T, class C, bool centred>
auto backward_row_of(bool weighted, bool parameters) {
  if (weighted) return parameters ? norm_backward_row<T, C, centred, true, true> : norm_backward_row<T, C, centred, true, false>;
  return parameters ? norm_backward_row<T, C, centred, false, true> : norm_backward_row<T, C, centred, false, false>;
}

Dtype statistics_type(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

Shape row_shape(Shape shape) {
  shape[shape.size() - 1] = 1;
  return shape;
}

void check(std::string_view op, const Metas& in) {
  same_float(op, in);
  if (in[0].shape.empty() || in[0].shape.back() == 0) fail<ShapeError>(op, ": nothing to normalise in ", in[0].shape);
  for (size_t i = 1; i < in.size(); ++i)
    if (in[i].defined && in[i].shape != Shape{in[0].shape.back()}) fail<ShapeError>(op, ": ", i == 1 ? "weight " : "bias ", in[i].shape, " does not fit x ", in[0].shape);
}

/// Rows whose parts of dweight are summed before the blocks are added, in order.
constexpr int64_t row_block = 64;

struct BackwardAttrs {
  bool centred = true;
  bool wants_dx = true, wants_parameters = true;
};

/// inputs: dy, x, weight?, mean (from each row's origin), rstd, extra? (added to dx). outputs: dx (empty when not wanted), dweight, dbias (both empty when not
/// wanted; without a centre dbias is 0).
struct NormBackward {
  static constexpr auto name = "norm_backward";
  static constexpr auto no_gradient = "it is the fused first derivative of layer_norm and rms_norm";
  using Attrs = BackwardAttrs;
  static void check_statistics(const char* what, const Meta& given, const Meta& x, bool optional) {
    if (optional && !given.defined) return;
    const Meta expected{row_shape(x.shape), statistics_type(x.dtype), x.device};
    const auto text = [&] { return concat(name, ": the rows' ", what, " must be ", expected, ", got ", given.defined ? to_string(given) : "none"); };
    if (!given.defined || given.shape != expected.shape) fail<ShapeError>(text());
    if (given.dtype != expected.dtype) fail<DtypeError>(text());
  }
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    if (in[0].shape != in[1].shape) fail<ShapeError>(name, ": shapes ", in[0].shape, " and ", in[1].shape, " differ");
    same_float(name, {in[0], in[1]});
    check(name, {in[1], in[2]});
    check_statistics("mean", in[3], in[1], !attrs.centred);
    check_statistics("scale", in[4], in[1], false);
    if (in.size() > 5 && in[5].defined && in[5] != in[1]) fail<ShapeError>(name, ": what is added must be ", in[1], ", got ", in[5]);
    Meta dx = in[1], dp{Shape{in[1].shape.back()}, in[1].dtype, in[1].device};
    if (!attrs.wants_dx) dx.shape = {0};
    if (!attrs.wants_parameters) dp.shape = {0};
    return {{dx, dp, dp}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs& attrs) {
    const int64_t n = in[1].shape.back(), rows = numel(in[1].shape) / n;
    return attrs.wants_parameters ? 2 * n * ((rows + row_block - 1) / row_block) * int64_t(dtype_size(statistics_type(in[1].dtype))) : 0;
  }
  static void cpu(const Kernel& k, const Attrs& attrs) { run(k.in(0), k.in(1), k.in(2), k.in(3), k.in(4), k.has(5) ? k.in(5) : Tensor(), k.out(0), k.out(1), k.out(2), k.scratch, attrs, false); }
  static void run(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, const Tensor& extra, const Tensor& dx, const Tensor& dweight,
                  const Tensor& dbias,
                  std::span<std::byte> scratch, const Attrs& attrs, bool accumulate) {
    visit_float(name, x.dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const int64_t n = x.shape().back(), rows = x.numel() / n, blocks = (rows + row_block - 1) / row_block;
      const T *pdy = static_cast<const T*>(dy.raw()), *px = static_cast<const T*>(x.raw()), *pw = weight.defined() ? static_cast<const T*>(weight.raw()) : nullptr;
      const C *pm = mean.defined() ? static_cast<const C*>(mean.raw()) : nullptr, *pr = static_cast<const C*>(rstd.raw());
      const T* more = extra.defined() ? static_cast<const T*>(extra.raw()) : nullptr;
      T* pdx = attrs.wants_dx ? static_cast<T*>(dx.raw()) : nullptr;
      C* parts = attrs.wants_parameters && blocks ? reinterpret_cast<C*>(scratch.data()) : nullptr;
      const auto row = attrs.centred ? backward_row_of<T, C, true>(pw, parts) : backward_row_of<T, C, false>(pw, parts);
      parallel_blocks(blocks, 8 * row_block * n, [&](int64_t block) {
        C *dw = parts ? parts + 2 * n * block : nullptr, *db = parts ? dw + n : nullptr;
        if (parts) std::fill_n(dw, 2 * n, C(0));
        for (int64_t r = block * row_block; r < std::min(rows, (block + 1) * row_block); ++r) {
          const int64_t next = std::min(r + 1, rows - 1) * n;
          row(pdy + r * n, px + r * n, pw, pm ? pm[r] : C(0), pr[r], more ? more + r * n : nullptr, pdx ? pdx + r * n : nullptr, dw, db, n,
              Fetch<T>{pdy + next}, Fetch<T>{px + next});
        }
      });
      if (!attrs.wants_parameters) return;
      const auto gather = [&](const Tensor& to, int64_t shift) {
        if (!to.defined() || to.numel() == 0) return;
        T* out = static_cast<T*>(to.raw());
        constexpr int64_t width = 512;
        parallel_range(n, width, [&](int64_t begin, int64_t end) {
          C total[width] = {};
          for (int64_t block = 0; block < blocks; ++block)
            for (int64_t i = begin; i < end; ++i) total[i - begin] += parts[2 * n * block + shift + i];
          for (int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(accumulate ? C(out[i]) + total[i - begin] : total[i - begin]);
        });
      };
      gather(dweight, 0);
      gather(dbias, n);
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return {14.0 * double(numel(in[1].shape)), 3.0 * double(in[1].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"layer norm", {rng.normal({70, 9}), rng.normal({70, 9}), rng.normal({9}), rng.normal({70, 1}), rng.uniform({70, 1}, 0.5, 2)}, attrs_ptr(Attrs{}), false, true},
            {"rms norm", {rng.normal({3, 20}), rng.normal({3, 20}), rng.normal({20}), {}, rng.uniform({3, 1}, 0.5, 2)}, attrs_ptr(Attrs{.centred = false}), false, true},
            {"something added", {rng.normal({3, 20}), rng.normal({3, 20}), rng.normal({20}), {}, rng.uniform({3, 1}, 0.5, 2), rng.normal({3, 20})}, attrs_ptr(Attrs{.centred = false}), false, true},
            {"dx only", {rng.normal({2, 5}), rng.normal({2, 5}), {}, rng.normal({2, 1}), rng.uniform({2, 1}, 0.5, 2)}, attrs_ptr(Attrs{.wants_parameters = false}), false, true},
            {"no rows", {rng.normal({0, 5}), rng.normal({0, 5}), rng.normal({5}), rng.normal({0, 1}), rng.normal({0, 1})}, attrs_ptr(Attrs{}), false, true}};
  }
  static std::vector<BadSample> bad() {
    return {{"shapes", {zeros({2, 3}), zeros({2, 4}), {}, {}, zeros({2, 1})}, {}, "[2, 3] and [2, 4] differ"},
            {"mean", {zeros({2, 3}), zeros({2, 3}), {}, {}, zeros({2, 1})}, {}, "the rows' mean must be f32[2, 1], got none"},
            {"scale", {zeros({2, 3}), zeros({2, 3}), {}, zeros({2, 1}), zeros({2, 1}, Dtype::f64)}, {}, "the rows' scale must be f32[2, 1], got f64[2, 1]"}};
  }
};
REGISTER_OP(NormBackward);

struct NormAttrs {
  double eps = 1e-5;
};

/// inputs: x, weight?, bias? (rms: no bias). residuals: mean from the row's origin (rms: none), rstd.
template <bool centred>
struct Norm {
  static constexpr auto name = centred ? "layer_norm" : "rms_norm";
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = NormAttrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    check(name, in);
    const Meta row{row_shape(in[0].shape), statistics_type(in[0].dtype), in[0].device};
    return {{in[0]}, centred ? Metas{row, row} : Metas{row}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const int64_t n = k.in(0).shape().back(), rows = k.in(0).numel() / n;
      const T *x = static_cast<const T*>(k.in(0).raw()), *w = k.has(1) ? static_cast<const T*>(k.in(1).raw()) : nullptr, *b = k.has(2) ? static_cast<const T*>(k.in(2).raw()) : nullptr;
      T* y = static_cast<T*>(k.out().raw());
      constexpr int last = centred ? 1 : 0;
      C* mean = centred && k.wants(0) ? static_cast<C*>(k.residual(0).raw()) : nullptr;
      C* rstd = k.wants(last) ? static_cast<C*>(k.residual(last).raw()) : nullptr;
      parallel_range(rows, std::max<int64_t>(1, 4096 / n), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          C m, s;
          norm_row<T, C>(x + r * n, w, b, y + r * n, n, static_cast<C>(attrs.eps), centred, &m, &s, Fetch<T>{x + std::min(r + 1, rows - 1) * n});
          if (mean) mean[r] = m;
          if (rstd) rstd[r] = s;
        }
      });
    });
  }
  static Saves saves(Need need) { return Saves().input(0).input(1, need(0)).residual(0).residual(1, centred); }
  static Tensors vjp(Saved& s, const Attrs&) {
    const bool parameters = s.needs(1) || (centred && s.needs(2));
    const Tensor dy = as_contiguous(s.grad()), x = as_contiguous(s.input(0)), weight = s.needs(0) ? s.input(1) : Tensor();
    const Tensor mean = centred ? s.residual(0) : Tensor(), rstd = s.residual(centred ? 1 : 0);
    const BackwardAttrs attrs{.centred = centred, .wants_dx = s.needs(0), .wants_parameters = parameters};
    const Tensor tw = s.needs(1) ? s.target(1) : Tensor(), tb = centred && s.needs(2) ? s.target(2) : Tensor();
    Tensors out(centred ? 3 : 2);
    if (parameters && (!s.needs(1) || tw.defined()) && (!centred || !s.needs(2) || tb.defined())) {
      // Everything that is wanted of the parameters is gathered already: add to it in place.
      out[0] = s.needs(0) ? empty(s.in_meta(0)) : Tensor();
      const Metas in{meta_of(dy), meta_of(x)};
      Storage scratch;
      {
        const With category(&Ambient::category, Category::scratch);
        scratch = Storage(new StorageBody(NormBackward::scratch(in, attrs), x.device()));
      }
      if (tw.defined()) bump_version(tw);
      if (tb.defined()) bump_version(tb);
      if (!x.device().meta) NormBackward::run(dy, x, weight, mean, rstd, {}, out[0], tw, tb, std::span(scratch->data, size_t(scratch->bytes)), attrs, true);
      out[1] = tw;
      if (centred) out[2] = tb;
      return out;
    }
    Tensors all = apply_all<NormBackward>({dy, x, weight, mean, rstd}, attrs);
    if (s.needs(0)) out[0] = std::move(all[0]);
    if (s.needs(1)) out[1] = std::move(all[1]);
    if (centred && s.needs(2)) out[2] = std::move(all[2]);
    return out;
  }
  static Saves remade_from(int, const Attrs&) { return Saves().input(0).input(1).input(2, centred); }
  static Tensor remake(Saved& s, int, const Attrs& attrs) {
    if constexpr (centred) return layer_norm(s.input(0), s.input(1), s.input(2), attrs.eps);
    else return rms_norm(s.input(0), s.input(1), attrs.eps);
  }
  static Cost cost(const Metas& in, const Attrs&) { return {8.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    std::vector<Sample> out;
    const auto inputs = [&](const Shape& shape, bool parameters) {
      Tensors t{rng.normal(shape), parameters ? rng.normal({shape.back()}) : Tensor()};
      if (centred) t.push_back(parameters ? rng.normal({shape.back()}) : Tensor());
      return t;
    };
    out.push_back({"rows", inputs({2, 3, 17}, true), {}});
    out.push_back({"plain", inputs({4, 5}, false), {}});
    out.push_back({"large eps", inputs({3, 33}, true), attrs_ptr(Attrs{0.5})});
    out.push_back({"no rows", inputs({0, 5}, true), {}});
    out.push_back({"vector", inputs({6}, true), {}});
    return out;
  }
  static std::vector<BadSample> bad() {
    Tensors wrong{zeros({2, 3}), zeros({4})}, nothing{zeros({2, 0}), {}};
    if (centred) {
      wrong.push_back({});
      nothing.push_back({});
    }
    return {{"weight", wrong, {}, "weight [4] does not fit x [2, 3]"}, {"empty", nothing, {}, "nothing to normalise in [2, 0]"}};
  }
};
/// inputs: x, delta, weight. outputs: sum = x + delta, y = rms_norm(sum). residual: rstd.
struct AddRmsNorm {
  static constexpr auto name = "add_rms_norm";
  static constexpr auto no_second_order = "its backward is one fused pass";
  using Attrs = NormAttrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    if (in[0].shape != in[1].shape) fail<ShapeError>(name, ": shapes ", in[0].shape, " and ", in[1].shape, " differ");
    same_float(name, in);
    check(name, {in[0], in[2]});
    return {{in[0], in[0]}, {Meta{row_shape(in[0].shape), statistics_type(in[0].dtype), in[0].device}}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = compute_t<T>;
      const int64_t n = k.in(0).shape().back(), rows = k.in(0).numel() / n;
      const T *x = static_cast<const T*>(k.in(0).raw()), *delta = static_cast<const T*>(k.in(1).raw()), *w = static_cast<const T*>(k.in(2).raw());
      T *sum = static_cast<T*>(k.out(0).raw()), *y = static_cast<T*>(k.out(1).raw());
      C* rstd = k.wants(0) ? static_cast<C*>(k.residual(0).raw()) : nullptr;
      parallel_range(rows, std::max<int64_t>(1, 4096 / n), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          C m, s;
          add_row<T>(x + r * n, delta + r * n, sum + r * n, n);
          norm_row<T, C>(sum + r * n, w, nullptr, y + r * n, n, static_cast<C>(attrs.eps), false, &m, &s, {});
          if (rstd) rstd[r] = s;
        }
      });
    });
  }
  template <class T>
  SPOOL_CLONES static void add_row(const T* a, const T* b, T* sum, int64_t n) {
    for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<T>(static_cast<compute_t<T>>(a[i]) + static_cast<compute_t<T>>(b[i]));
  }
  static Saves saves(Need need) { return Saves().input(2, need(0) || need(1)).output(0).residual(0); }
  static Tensors vjp(Saved& s, const Attrs&) {
    const bool wants_dx = s.needs(0) || s.needs(1);
    const Tensor dy = as_contiguous(s.grad(1)), sum = as_contiguous(s.output(0)), weight = wants_dx ? s.input(2) : Tensor();
    const Tensor extra = s.has_grad(0) && wants_dx ? as_contiguous(s.grad(0)) : Tensor();
    Tensors all = apply_all<NormBackward>({dy, sum, weight, {}, s.residual(0), extra}, {.centred = false, .wants_dx = wants_dx, .wants_parameters = s.needs(2)});
    return {s.needs(0) ? all[0] : Tensor(), s.needs(1) ? all[0] : Tensor(), s.needs(2) ? all[1] : Tensor()};
  }
  static Saves remade_from(int output, const Attrs&) { return output == 1 ? Saves().input(2).output(0) : Saves(); }
  static Tensor remake(Saved& s, int, const Attrs& attrs) { return rms_norm(s.output(0), s.input(2), attrs.eps); }
  static Cost cost(const Metas& in, const Attrs&) { return {9.0 * double(numel(in[0].shape)), 4.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"rows", {rng.normal({2, 3, 17}), rng.normal({2, 3, 17}), rng.normal({17})}, {}},
            {"large eps", {rng.normal({3, 33}), rng.normal({3, 33}), rng.normal({33})}, attrs_ptr(Attrs{0.5})},
            {"no rows", {rng.normal({0, 5}), rng.normal({0, 5}), rng.normal({5})}, {}}};
  }
  static std::vector<BadSample> bad() {
    return {{"shapes", {zeros({2, 3}), zeros({3}), zeros({3})}, {}, "add_rms_norm: shapes [2, 3] and [3] differ"}, {"weight", {zeros({2, 3}), zeros({2, 3}), zeros({4})}, {}, "weight [4] does not fit x [2, 3]"}};
  }
};
REGISTER_OP(AddRmsNorm);

using LayerNorm = Norm<true>;
REGISTER_OP(LayerNorm);
using RmsNorm = Norm<false>;
REGISTER_OP(RmsNorm);

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) { return apply<LayerNorm>({x, weight, bias}, {eps}); }
AddedNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& weight, double eps) {
  Tensors r = apply_all<AddRmsNorm>({x, delta, weight}, {eps});
  return {std::move(r[0]), std::move(r[1])};
}
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) { return apply<RmsNorm>({x, weight}, {eps}); }

}  // namespace spool
