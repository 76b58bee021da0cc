#include <spool/autograd/saved.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/dropout.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool {
namespace {

constexpr int blocks_at_once = 32;  // Philox blocks computed side by side, four words each; more than the compiler would unroll

/// Words for the columns 4·first … 4·(first + 16) - 1 of one row: the blocks differ in their first counter word only.
SPOOL_INLINE void random_words(uint32_t first, int blocks, uint64_t l, uint32_t b, std::array<uint32_t, 2> key,
                               uint32_t* __restrict words) {
  uint32_t c0[blocks_at_once], c1[blocks_at_once], c2[blocks_at_once], c3[blocks_at_once];
  for (int i = 0; i < blocks; ++i) {
    c0[i] = first + uint32_t(i);
    c1[i] = uint32_t(l);
    c2[i] = uint32_t(l >> 32);
    c3[i] = b;
  }
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < blocks; ++i) {
      const uint64_t p = uint64_t(0xD2511F53) * c0[i], q = uint64_t(0xCD9E8D57) * c2[i];
      c0[i] = uint32_t(q >> 32) ^ c1[i] ^ k0;
      c2[i] = uint32_t(p >> 32) ^ c3[i] ^ k1;
      c1[i] = uint32_t(q);
      c3[i] = uint32_t(p);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (int i = 0; i < blocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

template <class T>
SPOOL_CLONES void dropout_row(const T* __restrict x, T* __restrict y, int64_t columns, uint64_t l, uint32_t b, std::array<uint32_t, 2> key,
                              uint32_t threshold, kernels::compute_t<T> scale) {
  using C = kernels::compute_t<T>;
  uint32_t words[4 * blocks_at_once];
  for (int64_t c = 0; c < columns; c += 4 * blocks_at_once) {
    const int64_t n = std::min<int64_t>(4 * blocks_at_once, columns - c);
    random_words(uint32_t(c / 4), int((n + 31) / 32 * 8), l, b, key, words);
    for (int64_t i = 0; i < n; ++i) y[c + i] = kernels::store<T>(words[i] < threshold ? C(0) : kernels::load(x[c + i]) * scale);
  }
}

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
      if (attrs.p == 1) {
        std::fill_n(y, k.out().numel(), T(0.f));
        return;
      }
      const auto scale = static_cast<kernels::compute_t<T>>(1 / (1 - attrs.p));
      const auto threshold = uint32_t(std::min(attrs.p * 0x1p32, 0x1p32 - 1));  // dropped when the word is below
      parallel_blocks(rows, 4 * columns, [&](int64_t row) {
        dropout_row<T>(x + row * columns, y + row * columns, columns, uint64_t(attrs.position + row % length), uint32_t(row / length),
                       attrs.key.words(), threshold, scale);
      });
    });
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) { return {apply<Dropout>({s.grad()}, attrs)}; }
  static Cost cost(const Metas& in, const Attrs&) { return {12.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"half", {rng.normal({2, 3, 70})}, attrs_ptr(Attrs{0.5, RandomKey(1), 0})},
            {"far position", {rng.normal({3, 6})}, attrs_ptr(Attrs{0.1, RandomKey(2), int64_t(1) << 40})},
            {"nothing dropped", {rng.normal({4})}, attrs_ptr(Attrs{0, RandomKey(3), 0})},
            {"all dropped", {rng.normal({4})}, attrs_ptr(Attrs{1, RandomKey(3), 0})},
            {"0-d", {rng.normal({})}, attrs_ptr(Attrs{0.5, RandomKey(4), 0})},
            {"zero size", {rng.normal({0, 3})}, attrs_ptr(Attrs{0.5, RandomKey(4), 0})}};
  }
  static std::vector<BadSample> bad() {
    return {{"p", {zeros({2})}, attrs_ptr(Attrs{1.5, RandomKey(1), 0}), "dropout: p must be in [0, 1], got 1.5"},
            {"integers", {zeros({2}, Dtype::i64)}, {}, "dropout: needs a float type, got i64"}};
  }
};
REGISTER_OP(Dropout);

}  // namespace

Tensor dropout(const Tensor& x, double p, RandomKey key, DropoutOptions options) { return apply<Dropout>({x}, {p, key, options.position}); }

}  // namespace spool
