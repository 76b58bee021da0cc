#include <spool/autograd/saved.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/prefix.h>

#include <algorithm>

namespace spool {
namespace {

/// Walks `length` rows of `width` adjacent columns.
template <class T, class C>
SPOOL_CLONES void prefix_columns(const T* x, T* y, int64_t length, int64_t step, int64_t width, bool exclusive) {
  C sum[64] = {};
  for (int64_t i = 0; i < length; ++i, x += step, y += step) {
    for (int64_t c = 0; c < width; ++c) {
      const C next = sum[c] + static_cast<C>(x[c]);
      y[c] = static_cast<T>(exclusive ? sum[c] : next);
      sum[c] = next;
    }
  }
}

struct PrefixSum {
  static constexpr auto name = "prefix_sum";
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
    if (k.out().numel() == 0) return;
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      const Shape& shape = k.out().shape();
      const int axis = normalize_axis(name, attrs.axis, shape);
      int64_t outer = 1, inner = 1;
      for (int i = 0; i < axis; ++i) outer *= shape[i];
      for (int i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
      const int64_t length = shape[axis], pieces = (inner + 63) / 64;
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      const int64_t start = attrs.options.reverse ? (length - 1) * inner : 0, step = attrs.options.reverse ? -inner : inner;
      parallel_blocks(outer * pieces, length * std::min<int64_t>(inner, 64), [&](int64_t block) {
        const int64_t column = block % pieces * 64, at = block / pieces * length * inner + start + column;
        prefix_columns<T, accumulate_t<T>>(x + at, y + at, length, step, std::min<int64_t>(64, inner - column), attrs.options.exclusive);
      });
    });
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    return {prefix_sum(s.grad(), attrs.axis, {.reverse = !attrs.options.reverse, .exclusive = attrs.options.exclusive})};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"outer", {rng.normal({7, 3, 2})}, attrs_ptr(Attrs{0, {}})},
            {"inner, reversed", {rng.normal({3, 9})}, attrs_ptr(Attrs{-1, {.reverse = true}})},
            {"middle, exclusive", {rng.normal({2, 5, 70})}, attrs_ptr(Attrs{1, {.exclusive = true}})},
            {"both", {rng.normal({4})}, attrs_ptr(Attrs{0, {true, true}})},
            {"zero size", {rng.normal({0, 3})}, attrs_ptr(Attrs{0, {}})}};
  }
  static std::vector<BadSample> bad() { return {{"axis", {zeros({2})}, attrs_ptr(Attrs{1, {}}), "axis 1 is out of range for shape [2]"}}; }
};
REGISTER_OP(PrefixSum);

}  // namespace

Tensor prefix_sum(const Tensor& x, int axis, PrefixOptions options) { return apply<PrefixSum>({x}, {axis, options}); }

}  // namespace spool
