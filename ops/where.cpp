#include <spool/autograd/saved.h>
#include <spool/ops/shape.h>
#include <spool/ops/where.h>
#include <spool/tensor/error.h>
#include <spool/tensor/strided.h>

namespace spool {
namespace {

struct Where {
  static constexpr auto name = "where";
  static constexpr bool strided = true;
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    if (in[0].dtype != Dtype::boolean) fail<DtypeError>(name, ": the condition must be bool, got ", dtype_name(in[0].dtype));
    if (in[1].dtype != in[2].dtype) fail<DtypeError>(name, ": the choices are ", dtype_name(in[1].dtype), " and ", dtype_name(in[2].dtype), "; convert one with cast()");
    if (in[0].shape != in[1].shape || in[1].shape != in[2].shape) fail<ShapeError>(name, ": shapes ", in[0].shape, ", ", in[1].shape, " and ", in[2].shape, " differ");
    return {{in[1]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit(k.in(1).dtype(), [&]<class T>() {
      const bool* condition = static_cast<const bool*>(k.in(0).raw());
      const T *a = static_cast<const T*>(k.in(1).raw()), *b = static_cast<const T*>(k.in(2).raw());
      T* y = static_cast<T*>(k.out().raw());
      StridedLoop<4>(k.out().shape(), {k.out().strides(), k.in(0).strides(), k.in(1).strides(), k.in(2).strides()}).run([&](const auto& at, int64_t n, const auto& step) {
        for (int64_t i = 0; i < n; ++i) y[at[0] + i * step[0]] = condition[at[1] + i * step[1]] ? a[at[2] + i * step[2]] : b[at[3] + i * step[3]];
      });
    });
  }
  static Saves saves(Need) { return Saves().input(0); }
  static Tensors vjp(Saved& s, const Attrs&) {
    const Meta& m = s.in_meta(1);
    const Tensor zero = zeros_view(m.shape, m.dtype, m.device);
    return {{}, s.needs(1) ? where(s.input(0), s.grad(), zero) : Tensor(), s.needs(2) ? where(s.input(0), zero, s.grad()) : Tensor()};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 3.0 * double(in[1].nbytes()) + double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"matrix", {rng.booleans({3, 7}), rng.normal({3, 7}), rng.normal({3, 7})}, {}},
            {"0-d", {rng.booleans({}), rng.normal({}), rng.normal({})}, {}},
            {"zero size", {rng.booleans({2, 0}), rng.normal({2, 0}), rng.normal({2, 0})}, {}}};
  }
  static std::vector<BadSample> bad() {
    return {{"condition", {zeros({2}), zeros({2}), zeros({2})}, {}, "must be bool, got f32"},
            {"types", {zeros({2}, Dtype::boolean), zeros({2}), zeros({2}, Dtype::f64)}, {}, "f32 and f64"},
            {"shapes", {zeros({2}, Dtype::boolean), zeros({2}), zeros({3})}, {}, "[2], [2] and [3] differ"}};
  }
};
REGISTER_OP(Where);

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shapes("where", broadcast_shapes("where", a.shape(), b.shape()), condition.shape());
  return apply<Where>({expand(condition, shape), expand(a, shape), expand(b, shape)});
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) { return where(mask, full({}, value, x.dtype(), x.device()), x); }

}  // namespace spool
