// Orders along the last axis; the public functions move the axis there, and fetch the values with gather, which has the gradient.
#include <spool/autograd/op.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/detail/reduce_op.h>
#include <spool/ops/indexing.h>
#include <spool/ops/reduce.h>
#include <spool/ops/reshape.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace spool {
namespace {

/// Whether position a comes before position b: by value with NaN as the largest, then by position, so that no two are equal.
template <class T>
struct Before {
  const T* x;
  bool descending;
  bool operator()(int64_t a, int64_t b) const {
    const auto p = kernels::load(x[a]), q = kernels::load(x[b]);
    if (descending ? above(p, q) : above(q, p)) return true;
    if (descending ? above(q, p) : above(p, q)) return false;
    return a < b;
  }
  template <class C>
  static bool above(C p, C q) {
    return p > q || (p != p && q == q);
  }
};

/// Calls f(before, order) for each row of `n` elements of x, which writes `k` positions of its order.
template <class F>
void each_order(const Kernel& kernel, int64_t n, int64_t k, bool descending, F&& f) {
  visit(kernel.in(0).dtype(), [&]<class T>() {
    const T* x = static_cast<const T*>(kernel.in(0).raw());
    auto* order = static_cast<int64_t*>(kernel.out().raw());
    const int64_t rows = k > 0 ? kernel.out().numel() / k : 0;
    parallel_blocks(rows, 20 * n, [&](int64_t row) { f(Before<T>{x + row * n, descending}, order + row * k); });
  });
}

/// Ties, extremes and other types: attrs(direction).
template <class F>
void add_awkward(std::vector<Sample>& all, Rng& rng, F&& attrs) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Tensor ties = from({{1, 2, 2, 0}, {0, 0, 0, 0}, {1, nan, 3, nan}, {inf, -inf, nan, -inf}}, Dtype::f64);
  all.push_back({"ties and extremes, up", {ties}, attrs(false)});
  all.push_back({"ties and extremes, down", {ties}, attrs(true)});
  all.push_back({"integers", {rng.integers({3, 9}, -3, 3, Dtype::i32)}, attrs(false)});
  all.push_back({"booleans", {rng.booleans({7})}, attrs(true)});
}

Cost order_cost(const Metas& in, double rounds) { return {rounds * double(numel(in[0].shape)), double(in[0].nbytes())}; }

struct Argsort {
  static constexpr auto name = "argsort";
  static constexpr auto no_gradient = "its result is an index";
  struct Attrs {
    bool descending = false;
  };
  static Inferred infer(const Metas& in, const Attrs&) {
    if (in[0].shape.empty()) fail<ShapeError>(name, ": needs an axis, got shape []");
    return {{{in[0].shape, Dtype::i64, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    const int64_t n = k.in(0).shape().back();
    each_order(k, n, n, attrs.descending, [n](const auto& before, int64_t* order) {
      std::iota(order, order + n, int64_t(0));
      std::sort(order, order + n, before);
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return order_cost(in, 20); }
  static std::vector<Sample> samples(Rng& rng) {
    std::vector<Sample> all{{"rows", {rng.normal({3, 37})}, {}},
                            {"descending", {rng.normal({2, 3, 5})}, attrs_ptr(Attrs{true})},
                            {"no rows", {rng.normal({0, 4})}, {}},
                            {"of nothing", {rng.normal({2, 0})}, {}}};
    add_awkward(all, rng, [](bool down) { return attrs_ptr(Attrs{down}); });
    return all;
  }
  static std::vector<BadSample> bad() { return {{"0-d", {scalar(1)}, {}, "argsort: needs an axis, got shape []"}}; }
};
REGISTER_OP(Argsort);

struct TopkIndices {
  static constexpr auto name = "topk_indices";
  static constexpr auto no_gradient = "its result is an index";
  struct Attrs {
    int64_t k = 1;
    bool largest = true;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    Shape shape = in[0].shape;
    if (shape.empty()) fail<ShapeError>("topk: needs an axis, got shape []");
    int64_t& size = shape[shape.size() - 1];
    if (attrs.k < 0 || attrs.k > size) fail<ShapeError>("topk: k = ", attrs.k, " of an axis of ", size, " elements in shape ", in[0].shape);
    size = attrs.k;
    return {{{shape, Dtype::i64, in[0].device}}, {}};
  }
  /// The best so far are a heap whose top is the worst of them.
  static void cpu(const Kernel& kernel, const Attrs& attrs) {
    const int64_t n = kernel.in(0).shape().back(), k = attrs.k;
    each_order(kernel, n, k, attrs.largest, [n, k](const auto& before, int64_t* best) {
      std::iota(best, best + k, int64_t(0));
      std::make_heap(best, best + k, before);
      for (int64_t i = k; i < n; ++i) {
        if (!before(i, best[0])) continue;
        std::pop_heap(best, best + k, before);
        best[k - 1] = i;
        std::push_heap(best, best + k, before);
      }
      std::sort_heap(best, best + k, before);
    });
  }
  static Cost cost(const Metas& in, const Attrs&) { return order_cost(in, 4); }
  static std::vector<Sample> samples(Rng& rng) {
    std::vector<Sample> all{{"rows", {rng.normal({3, 37})}, attrs_ptr(Attrs{5})},
                            {"smallest", {rng.normal({2, 3, 5})}, attrs_ptr(Attrs{2, false})},
                            {"all", {rng.normal({3, 4})}, attrs_ptr(Attrs{4})},
                            {"none", {rng.normal({3, 4})}, attrs_ptr(Attrs{0})},
                            {"no rows", {rng.normal({0, 4})}, attrs_ptr(Attrs{3})}};
    add_awkward(all, rng, [](bool down) { return attrs_ptr(Attrs{3, down}); });
    return all;
  }
  static std::vector<BadSample> bad() {
    return {{"too many", {zeros({2, 3})}, attrs_ptr(Attrs{4}), "topk: k = 4 of an axis of 3 elements in shape [2, 3]"},
            {"negative", {zeros({3})}, attrs_ptr(Attrs{-1}), "topk: k = -1 of an axis of 3 elements in shape [3]"},
            {"0-d", {scalar(1)}, {}, "topk: needs an axis, got shape []"}};
  }
};
REGISTER_OP(TopkIndices);

template <class Op>
Tensor along(std::string_view op, const Tensor& x, int axis, const typename Op::Attrs& attrs) {
  const int at = normalize_axis(op, axis, x.shape());
  return at == x.dims() - 1 ? apply<Op>({x}, attrs) : transpose(apply<Op>({transpose(x, at, -1)}, attrs), at, -1);
}

/// The values at those positions.
ValuesAndIndices chosen(const Tensor& x, int axis, const Tensor& indices) { return {gather(x, axis, indices), indices}; }

ValuesAndIndices extremum(std::string_view op, const Tensor& x, int axis, bool keepdim, Tensor (*position)(const Tensor&, int, bool)) {
  detail::check_not_empty(op, x.shape(), detail::axes_mask(op, Axes(axis), x.shape()));
  const auto [values, indices] = chosen(x, axis, position(x, axis, true));
  return keepdim ? ValuesAndIndices{values, indices} : ValuesAndIndices{squeeze(values, axis), squeeze(indices, axis)};
}

}  // namespace

Tensor argsort(const Tensor& x, int axis, bool descending) { return along<Argsort>("argsort", x, axis, {descending}); }
ValuesAndIndices sort(const Tensor& x, int axis, bool descending) { return chosen(x, axis, along<Argsort>("sort", x, axis, {descending})); }
ValuesAndIndices topk(const Tensor& x, int64_t k, int axis, bool largest) { return chosen(x, axis, along<TopkIndices>("topk", x, axis, {k, largest})); }

ValuesAndIndices max(const Tensor& x, int axis, bool keepdim) { return extremum("max", x, axis, keepdim, argmax); }
ValuesAndIndices min(const Tensor& x, int axis, bool keepdim) { return extremum("min", x, axis, keepdim, argmin); }

}  // namespace spool
