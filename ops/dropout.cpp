#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/dropout.h>

namespace spool {
namespace {

/// One Philox block gives the choices of four adjacent columns.
struct Dropout {
  static constexpr auto name = "dropout";
  struct Attrs {
    double p = 0.5;
    RandomKey key;
    int64_t position = 0;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, in);
    if (!(attrs.p >= 0 && attrs.p <= 1)) fail<ConfigError>(name, ": p must be in [0, 1], got ", attrs.p);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      const Shape& shape = k.out().shape();
      const int64_t columns = shape.empty() ? 1 : shape.back(), length = shape.size() > 1 ? shape[shape.size() - 2] : 1;
      const int64_t rows = columns ? k.out().numel() / columns : 0;
      const T* x = static_cast<const T*>(k.in(0).raw());
      T* y = static_cast<T*>(k.out().raw());
      const auto scale = static_cast<kernels::compute_t<T>>(attrs.p < 1 ? 1 / (1 - attrs.p) : 0);
      const auto threshold = uint64_t(attrs.p * 0x1p32);  // dropped when word < threshold
      parallel_blocks(rows, 8 * columns, [&](int64_t row) {
        const auto l = uint64_t(attrs.position + row % length);
        const auto b = uint32_t(row / length);
        for (int64_t c = 0; c < columns; c += 4) {
          const auto words = philox4x32({uint32_t(c / 4), uint32_t(l), uint32_t(l >> 32), b}, attrs.key.words());
          for (int64_t i = c; i < std::min(c + 4, columns); ++i) {
            const int64_t at = row * columns + i;
            y[at] = words[size_t(i - c)] < threshold ? T(0.f) : static_cast<T>(static_cast<kernels::compute_t<T>>(x[at]) * scale);
          }
        }
      });
    });
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) { return {apply<Dropout>({s.grad()}, attrs)}; }
  static Cost cost(const Metas& in, const Attrs&) { return {12.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"half", {rng.normal({2, 3, 5})}, attrs_ptr(Attrs{0.5, RandomKey(1), 0})}, {"far position", {rng.normal({3, 6})}, attrs_ptr(Attrs{0.1, RandomKey(2), int64_t(1) << 40})},
            {"nothing dropped", {rng.normal({4})}, attrs_ptr(Attrs{0, RandomKey(3), 0})}, {"all dropped", {rng.normal({4})}, attrs_ptr(Attrs{1, RandomKey(3), 0})},
            {"0-d", {rng.normal({})}, attrs_ptr(Attrs{0.5, RandomKey(4), 0})}, {"zero size", {rng.normal({0, 3})}, attrs_ptr(Attrs{0.5, RandomKey(4), 0})}};
  }
  static std::vector<BadSample> bad() { return {{"p", {zeros({2})}, attrs_ptr(Attrs{1.5, RandomKey(1), 0}), "p must be in [0, 1], got 1.5"}}; }
};
REGISTER_OP(Dropout);

}  // namespace

Tensor dropout(const Tensor& x, double p, RandomKey key, DropoutOptions options) { return apply<Dropout>({x}, {p, key, options.position}); }

}  // namespace spool
