#include <spool/autograd/saved.h>
#include <spool/ops/cast.h>
#include <spool/tensor/copy.h>

namespace spool {
namespace {

struct Cast {
  static constexpr auto name = "cast";
  static constexpr bool strided = true;
  struct Attrs {
    Dtype to = Dtype::f32;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) { return {{Meta{in[0].shape, attrs.to, in[0].device}}, {}}; }
  static void cpu(const Kernel& k, const Attrs&) { copy(k.out(), k.in(0)); }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs&) { return {cast(s.grad(), s.in_meta(0).dtype)}; }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    return {double(numel(in[0].shape)), double(numel(in[0].shape)) * double(dtype_size(in[0].dtype) + dtype_size(attrs.to))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"to f32", {rng.normal({3, 5})}, attrs_ptr(Attrs{Dtype::f32}), false},
            {"to f64", {rng.normal({3, 5})}, attrs_ptr(Attrs{Dtype::f64})},
            {"to bf16", {rng.normal({7})}, attrs_ptr(Attrs{Dtype::bf16}), false},
            {"to i64", {rng.normal({2, 2}, 10)}, attrs_ptr(Attrs{Dtype::i64}), false},
            {"bool to f64", {rng.booleans({4, 3})}, attrs_ptr(Attrs{Dtype::f64})},
            {"0-d", {rng.normal({})}, attrs_ptr(Attrs{Dtype::f64})},
            {"zero size", {rng.normal({0, 3})}, attrs_ptr(Attrs{Dtype::f32})}};
  }
  static std::vector<BadSample> bad() { return {}; }
};
REGISTER_OP(Cast);

}  // namespace

Tensor cast(const Tensor& x, Dtype dtype) { return x.dtype() == dtype ? x : apply<Cast>({x}, {dtype}); }

}  // namespace spool
