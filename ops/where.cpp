#include <spool/ops/cpu/bits.h>
#include <spool/ops/detail/pointwise_op.h>
#include <spool/ops/expand.h>
#include <spool/ops/where.h>

#include <bit>

namespace spool {
namespace {

using detail::NoAttrs, kernels::visit_bits;

Tensor zeros_like_view(const Tensor& g) { return zeros_view(g.shape(), g.dtype(), g.device()); }

void check_mask(std::string_view op, std::string_view what, const Meta& mask, const Meta& x) {
  if (mask.dtype != Dtype::boolean)
    fail<DtypeError>(op, ": the ", what, " must be bool, got ", dtype_name(mask.dtype), "; compare first, for example greater(x, 0)");
  if (mask.shape != x.shape) fail<ShapeError>(op, ": ", what, " ", mask.shape, " and values ", x.shape, " differ; expand() one");
}

/// a when condition is 1, b when it is 0. Without a conditional load, so that it vectorises.
template <class U>
SPOOL_INLINE U choose(uint8_t condition, U a, U b) {
  const U mask = U(-U(condition));
  return U((a & mask) | (b & U(~mask)));
}

struct Where {
  static constexpr auto name = "where";
  static constexpr bool strided = true;
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    check_mask(name, "condition", in[0], in[1]);
    detail::check_pair(name, detail::Domain::anything, {in[1], in[2]});
    return {{in[1]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_bits(k.out().dtype(), [&]<class U>() {
      kernels::map3<uint8_t, U, U, U>(
          k.out(), k.in(0), k.in(1), k.in(2), [](uint8_t c, U a, U b) __attribute__((always_inline)) { return choose<U>(c, a, b); });
    });
  }
  static Saves saves(Need) { return Saves().input(0); }
  static Tensors vjp(Saved& s, const Attrs&) {
    const Tensor &condition = s.input(0), g = s.grad(), zero = zeros_like_view(g);
    return {Tensor(), s.needs(1) ? where(condition, g, zero) : Tensor(), s.needs(2) ? where(condition, zero, g) : Tensor()};
  }
  static Cost cost(const Metas& in, const Attrs&) { return detail::pointwise_cost({in[1], in[2]}, 0); }
  static std::vector<Sample> samples(Rng& rng) {
    std::vector<Sample> all;
    for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 37}, Shape{}, Shape{0, 3}}) {
      all.push_back({to_string(shape), {rng.booleans(shape), rng.normal(shape), rng.normal(shape)}, {}});
    }
    return all;
  }
  static std::vector<BadSample> bad() {
    return {{"condition type", {zeros({2}), zeros({2}), zeros({2})}, {}, "where: the condition must be bool, got f32"},
            {"condition shape", {zeros({3}, Dtype::boolean), zeros({2}), zeros({2})}, {}, "where: condition [3] and values [2] differ"},
            {"types",
             {zeros({2}, Dtype::boolean), zeros({2}), zeros({2}, Dtype::f64)},
             {},
             "where: inputs are f32 and f64; convert one with cast()"}};
  }
};
REGISTER_OP(Where);

struct MaskedFill {
  static constexpr auto name = "masked_fill";
  static constexpr bool strided = true;
  struct Attrs {
    double value = 0;
  };
  static Inferred infer(const Metas& in, const Attrs&) {
    check_mask(name, "mask", in[1], in[0]);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit(k.out().dtype(), [&]<class T>() {
      const T filler = static_cast<T>(static_cast<kernels::compute_t<T>>(attrs.value));
      visit_bits(k.out().dtype(), [&]<class U>() {
        if constexpr (sizeof(U) == sizeof(T)) {
          const auto bits = std::bit_cast<U>(filler);
          kernels::map2<U, uint8_t, U>(
              k.out(), k.in(0), k.in(1), [bits](U x, uint8_t masked) __attribute__((always_inline)) { return choose<U>(masked, bits, x); });
        }
      });
    });
  }
  static Saves saves(Need) { return Saves().input(1); }
  static Tensors vjp(Saved& s, const Attrs&) { return {masked_fill(s.grad(), s.input(1), 0), Tensor()}; }
  static Cost cost(const Metas& in, const Attrs&) { return detail::pointwise_cost(in, 0); }
  static std::vector<Sample> samples(Rng& rng) {
    const AttrsPtr attrs = attrs_ptr(Attrs{-2.5});
    std::vector<Sample> all;
    for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 37}, Shape{}, Shape{0, 3}})
      all.push_back({to_string(shape), {rng.normal(shape), rng.booleans(shape)}, attrs});
    all.push_back({.label = "minus infinity",
                   .inputs = {rng.normal({4}), rng.booleans({4})},
                   .attrs = attrs_ptr(Attrs{-std::numeric_limits<double>::infinity()}),
                   .check_gradient = false});
    return all;
  }
  static std::vector<BadSample> bad() {
    return {{"mask type", {zeros({2}), zeros({2})}, {}, "masked_fill: the mask must be bool, got f32"},
            {"mask shape", {zeros({2}), zeros({3}, Dtype::boolean)}, {}, "masked_fill: mask [3] and values [2] differ"}};
  }
};
REGISTER_OP(MaskedFill);

Tensor constant(double value, const Tensor& like) { return full({}, value, like.dtype(), like.device()); }

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shapes("where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape()));
  return apply<Where>({expand(condition, shape), expand(a, shape), expand(b, shape)});
}
Tensor where(const Tensor& condition, const Tensor& a, double b) { return where(condition, a, constant(b, a)); }
Tensor where(const Tensor& condition, double a, const Tensor& b) { return where(condition, constant(a, b), b); }

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) { return apply<MaskedFill>({x, expand(mask, x.shape())}, {value}); }

}  // namespace spool
