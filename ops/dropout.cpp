#include <spool/autograd/saved.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/dropout.h>
#include <spool/tensor/error.h>

#include <algorithm>
#if SPOOL_HAS_ISA_LEVELS
#include <immintrin.h>
#endif

namespace spool {
namespace {

constexpr int blocks_at_once = 32;  // Philox blocks computed side by side, four words each; more than the compiler would unroll
constexpr uint32_t multipliers[] = {0xD2511F53, 0xCD9E8D57}, key_steps[] = {0x9E3779B9, 0xBB67AE85};

/// Which words: those of the columns 4·first … 4·(first + blocks) - 1 of one row, blocks a multiple of 8. The blocks differ in their first counter word only.
struct Counters {
  uint32_t first;
  int blocks;
  uint64_t l;
  uint32_t b;
  std::array<uint32_t, 2> key;
};

void random_words_base(const Counters& at, uint32_t* words) {
  uint32_t c0[blocks_at_once], c1[blocks_at_once], c2[blocks_at_once], c3[blocks_at_once];
  for (int i = 0; i < at.blocks; ++i) {
    c0[i] = at.first + uint32_t(i);
    c1[i] = uint32_t(at.l);
    c2[i] = uint32_t(at.l >> 32);
    c3[i] = at.b;
  }
  uint32_t k0 = at.key[0], k1 = at.key[1];
  for (int round = 0; round < 10; ++round, k0 += key_steps[0], k1 += key_steps[1]) {
    for (int i = 0; i < at.blocks; ++i) {
      const uint64_t p = uint64_t(multipliers[0]) * c0[i], q = uint64_t(multipliers[1]) * c2[i];
      c0[i] = uint32_t(q >> 32) ^ c1[i] ^ k0;
      c2[i] = uint32_t(p >> 32) ^ c3[i] ^ k1;
      c1[i] = uint32_t(q);
      c3[i] = uint32_t(p);
    }
  }
  for (int i = 0; i < at.blocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

#if SPOOL_HAS_ISA_LEVELS
// The compiler makes no use of the instruction that multiplies the low halves of 64-bit lanes. A block's four words stand in four lanes; their
// high halves hold what is left of the products, and nothing reads it.
__attribute__((target("avx2"))) void random_words_v3(const Counters& at, uint32_t* words) {
  const __m256i m0 = _mm256_set1_epi64x(multipliers[0]), m1 = _mm256_set1_epi64x(multipliers[1]);
  __m256i k0[10], k1[10];
  for (uint32_t round = 0; round < 10; ++round) {
    k0[round] = _mm256_set1_epi64x(at.key[0] + round * key_steps[0]);
    k1[round] = _mm256_set1_epi64x(at.key[1] + round * key_steps[1]);
  }
  for (int i = 0; i < at.blocks; i += 4) {
    __m256i c0 = _mm256_add_epi64(_mm256_set1_epi64x(at.first + uint32_t(i)), _mm256_setr_epi64x(0, 1, 2, 3));
    __m256i c1 = _mm256_set1_epi64x(uint32_t(at.l)), c2 = _mm256_set1_epi64x(int64_t(at.l >> 32)), c3 = _mm256_set1_epi64x(at.b);
    for (int round = 0; round < 10; ++round) {
      const __m256i p = _mm256_mul_epu32(c0, m0), q = _mm256_mul_epu32(c2, m1);
      c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(q, 32), c1), k0[round]);
      c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p, 32), c3), k1[round]);
      c1 = q;
      c3 = p;
    }
    const __m256i a = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xAA), b = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xAA);
    const __m256i even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b);  // blocks 0 and 2, 1 and 3
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 4 * i), _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 4 * i + 8), _mm256_permute2x128_si256(even, odd, 0x31));
  }
}
__attribute__((target("avx512f"))) void random_words_v4(const Counters& at, uint32_t* words) {
  constexpr __mmask8 every = 0xFF;  // g++ 12 warns of an uninitialised variable in the forms without a mask
  const __m512i m0 = _mm512_set1_epi64(multipliers[0]), m1 = _mm512_set1_epi64(multipliers[1]);
  const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  __m512i k0[10], k1[10];
  for (uint32_t round = 0; round < 10; ++round) {
    k0[round] = _mm512_set1_epi64(at.key[0] + round * key_steps[0]);
    k1[round] = _mm512_set1_epi64(at.key[1] + round * key_steps[1]);
  }
  for (int i = 0; i < at.blocks; i += 8) {
    __m512i c0 = _mm512_add_epi64(_mm512_set1_epi64(at.first + uint32_t(i)), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    __m512i c1 = _mm512_set1_epi64(uint32_t(at.l)), c2 = _mm512_set1_epi64(int64_t(at.l >> 32)), c3 = _mm512_set1_epi64(at.b);
    for (int round = 0; round < 10; ++round) {
      const __m512i p = _mm512_maskz_mul_epu32(every, c0, m0), q = _mm512_maskz_mul_epu32(every, c2, m1);
      c0 = _mm512_xor_si512(_mm512_xor_si512(_mm512_maskz_srli_epi64(every, q, 32), c1), k0[round]);
      c2 = _mm512_xor_si512(_mm512_xor_si512(_mm512_maskz_srli_epi64(every, p, 32), c3), k1[round]);
      c1 = q;
      c3 = p;
    }
    const __m512i a = _mm512_mask_blend_epi32(0xAAAA, c0, _mm512_maskz_slli_epi64(every, c1, 32)),
                  b = _mm512_mask_blend_epi32(0xAAAA, c2, _mm512_maskz_slli_epi64(every, c3, 32));
    _mm512_storeu_si512(words + 4 * i, _mm512_permutex2var_epi64(a, low, b));
    _mm512_storeu_si512(words + 4 * i + 16, _mm512_permutex2var_epi64(a, high, b));
  }
}
#endif

using RandomWords = void (*)(const Counters& at, uint32_t* words);
RandomWords random_words() {
#if SPOOL_HAS_ISA_LEVELS
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return random_words_v4;
  if (__builtin_cpu_supports("avx2")) return random_words_v3;
#endif
  return random_words_base;
}

template <class T>
SPOOL_CLONES void dropout_row(RandomWords draw, const T* __restrict x, T* __restrict y, int64_t columns, Counters at, uint32_t threshold,
                              kernels::compute_t<T> scale) {
  using C = kernels::compute_t<T>;
  uint32_t words[4 * blocks_at_once];
  for (int64_t c = 0; c < columns; c += 4 * blocks_at_once) {
    const int64_t n = std::min<int64_t>(4 * blocks_at_once, columns - c);
    at.first = uint32_t(c / 4);
    at.blocks = int((n + 31) / 32 * 8);
    draw(at, words);
    for (int64_t i = 0; i < n; ++i) {
      const C kept = kernels::load(x[c + i]) * scale;
      y[c + i] = kernels::store<T>(words[i] < threshold ? C(0) : kept);
    }
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
      static const RandomWords draw = random_words();
      parallel_blocks(rows, 4 * columns, [&](int64_t row) {
        const Counters at{0, 0, uint64_t(attrs.position + row % length), uint32_t(row / length), attrs.key.words()};
        dropout_row<T>(draw, x + row * columns, y + row * columns, columns, at, threshold, scale);
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
