#include <spool/autograd/saved.h>
#include <spool/autograd/sum_gradients.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

namespace spool {
namespace {

struct SumGradients {
  static constexpr auto name = "sum_gradients";
  static constexpr bool strided = true;
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    if (in[0].shape != in[1].shape) fail<ShapeError>(name, ": shapes ", in[0].shape, " and ", in[1].shape, " differ");
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    copy(k.out(), k.in(0));
    accumulate(k.out(), k.in(1));
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs&) { return {s.grad(), s.grad()}; }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"matrix", {rng.normal({3, 5}), rng.normal({3, 5})}, {}}, {"zero size", {rng.normal({0, 2}), rng.normal({0, 2})}, {}}, {"0-d", {rng.normal({}), rng.normal({})}, {}}};
  }
  static std::vector<BadSample> bad() { return {{"shapes", {zeros({2}), zeros({3})}, {}, "[2] and [3] differ"}}; }
};
REGISTER_OP(SumGradients);

}  // namespace

Tensor sum_gradients(const Tensor& a, const Tensor& b) { return apply<SumGradients>({a, b}); }

}  // namespace spool
