// Draws with given probabilities, and permutations.
#include <spool/autograd/op.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/random.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace spool {
namespace {

constexpr uint32_t bernoulli_stream = 3, replaced_stream = 4, kept_stream = 5;  // 0 to 2 are those of uniform and normal

/// 53 random bits for each position.
class Bits {
 public:
  Bits(RandomKey key, uint32_t stream) : key_(key), stream_(stream) {}
  double at(int64_t position) {  ///< A whole number in [0, 2⁵³).
    const uint64_t block = uint64_t(position) / 2;
    if (block != block_) {
      words_ = philox4x32({uint32_t(block), uint32_t(block >> 32), stream_, 0}, key_.words());
      block_ = block;
    }
    const size_t half = position % 2 ? 2 : 0;
    return double(((uint64_t(words_[half]) << 32) | words_[half + 1]) >> 11);
  }

 private:
  RandomKey key_;
  uint32_t stream_;
  uint64_t block_ = UINT64_MAX;
  std::array<uint32_t, 4> words_{};
};

template <class P>
void draw_bernoulli(const Tensor& out, RandomKey key, P p_at) {
  visit(out.dtype(), [&]<class T>() {
    T* to = static_cast<T*>(out.raw());
    parallel_range(out.numel(), 8192, [&](int64_t begin, int64_t end) {
      Bits bits(key, bernoulli_stream);
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(bits.at(i) < p_at(i) * 0x1p53 ? 1.f : 0.f);
    });
  });
}

struct Bernoulli {
  static constexpr auto name = "bernoulli";
  static constexpr auto no_gradient = "it draws at random";
  struct Attrs {
    RandomKey key;
    Dtype dtype = Dtype::boolean;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, in);
    return {{{in[0].shape, attrs.dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class S>() {
      const S* p = static_cast<const S*>(k.in(0).raw());
      for (int64_t i = 0; i < k.in(0).numel(); ++i)
        if (const auto value = double(kernels::load(p[i])); !(value >= 0 && value <= 1)) fail<ConfigError>(name, ": p must be in [0, 1], got ", value, " at position ", i);
      draw_bernoulli(k.out(), attrs.key, [p](int64_t i) { return double(kernels::load(p[i])); });
    });
  }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    const double n = double(numel(in[0].shape));
    return {20 * n, n * double(dtype_size(in[0].dtype) + dtype_size(attrs.dtype))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"matrix", {rng.uniform({3, 37}, 0, 1)}, attrs_ptr(Attrs{RandomKey(1)})},
            {"numbers", {rng.uniform({2, 3, 5}, 0, 1)}, attrs_ptr(Attrs{RandomKey(2), Dtype::i64})},
            {"never and always", {from({{0, 1, 0, 1}}, Dtype::f64)}, attrs_ptr(Attrs{RandomKey(3), Dtype::u8})},
            {"0-d", {rng.uniform({}, 0, 1)}, attrs_ptr(Attrs{RandomKey(4)})},
            {"zero size", {rng.uniform({0, 3}, 0, 1)}, attrs_ptr(Attrs{RandomKey(5)})}};
  }
  static std::vector<BadSample> bad() {
    return {{"above 1", {from({0.5, 1.5})}, attrs_ptr(Attrs{}), "bernoulli: p must be in [0, 1], got 1.5 at position 1"},
            {"NaN", {full({1}, std::numeric_limits<double>::quiet_NaN())}, attrs_ptr(Attrs{}), "bernoulli: p must be in [0, 1], got nan at position 0"},
            {"integers", {zeros({2}, Dtype::i64)}, attrs_ptr(Attrs{}), "bernoulli: needs a float type, got i64"}};
  }
};
REGISTER_OP(Bernoulli);

struct Multinomial {
  static constexpr auto name = "multinomial";
  static constexpr auto no_gradient = "it draws at random";
  struct Attrs {
    int64_t samples = 1;
    RandomKey key;
    bool replacement = true;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    same_float(name, in);
    if (in[0].shape.empty() || in[0].shape.back() == 0) fail<ShapeError>(name, ": weights ", in[0].shape, " have nothing to draw from");
    if (attrs.samples < 0) fail<ConfigError>(name, ": samples must be at least 0, got ", attrs.samples);
    if (!attrs.replacement && attrs.samples > in[0].shape.back())
      fail<ConfigError>(name, ": cannot draw ", attrs.samples, " of ", in[0].shape.back(), " without replacement");
    Shape shape = in[0].shape;
    shape[shape.size() - 1] = attrs.samples;
    return {{{shape, Dtype::i64, in[0].device}}, {}};
  }
  static int64_t scratch(const Metas& in, const Attrs&) { return numel(in[0].shape) * int64_t(sizeof(double)); }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class S>() {
      const int64_t n = k.in(0).shape().back(), rows = k.in(0).numel() / n, samples = attrs.samples;
      const S* weights = static_cast<const S*>(k.in(0).raw());
      auto* keys = reinterpret_cast<double*>(k.scratch.data());
      auto* out = static_cast<int64_t*>(k.out().raw());
      for (int64_t r = 0; r < rows; ++r) check_row(weights + r * n, n, r, attrs);
      if (samples == 0) return;
      parallel_blocks(rows, 20 * (attrs.replacement ? n + samples * 8 : 4 * n), [&](int64_t r) {
        if (attrs.replacement) with_replacement(weights + r * n, n, keys + r * n, out + r * samples, samples, r, attrs.key);
        else without_replacement(weights + r * n, n, keys + r * n, out + r * samples, samples, r, attrs.key);
      });
    });
  }
  template <class S>
  static void check_row(const S* weights, int64_t n, int64_t row, const Attrs& attrs) {
    int64_t some = 0;
    double total = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto w = double(kernels::load(weights[i]));
      if (!(w >= 0) || std::isinf(w)) fail<ConfigError>(name, ": weights must be finite and at least 0, got ", w, " at position ", i, " of row ", row);
      some += w > 0;
      total += w;
    }
    if (some == 0) fail<ConfigError>(name, ": row ", row, " has no weight above 0");
    if (std::isinf(total)) fail<ConfigError>(name, ": the weights of row ", row, " add up to infinity; scale them down");
    if (!attrs.replacement && some < attrs.samples)
      fail<ConfigError>(name, ": row ", row, " has ", some, " weights above 0, cannot draw ", attrs.samples, " without replacement");
  }
  /// Where a uniform number falls among the running sums.
  template <class S>
  static void with_replacement(const S* weights, int64_t n, double* sums, int64_t* out, int64_t samples, int64_t row, RandomKey key) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) sums[i] = total += double(kernels::load(weights[i]));
    const int64_t last = std::lower_bound(sums, sums + n, total) - sums;  // of weight above 0
    Bits bits(key, replaced_stream);
    for (int64_t s = 0; s < samples; ++s) {
      const double target = bits.at(row * samples + s) * 0x1p-53 * total;
      out[s] = std::min(last, int64_t(std::upper_bound(sums, sums + n, target) - sums));
    }
  }
  /// Each element arrives after an exponential time at the rate of its weight; the first ones are drawn. `out` is a heap of these.
  template <class S>
  static void without_replacement(const S* weights, int64_t n, double* times, int64_t* out, int64_t samples, int64_t row, RandomKey key) {
    Bits bits(key, kept_stream);
    const auto before = [times](int64_t a, int64_t b) { return times[a] < times[b] || (times[a] == times[b] && a < b); };
    int64_t held = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto w = double(kernels::load(weights[i]));
      if (w == 0) continue;
      times[i] = std::log(-std::log((bits.at(row * n + i) + 1) * 0x1p-53)) - std::log(w);  // their logarithms: nothing overflows
      if (held < samples) {
        out[held++] = i;
        std::push_heap(out, out + held, before);
      } else if (before(i, out[0])) {
        std::pop_heap(out, out + held, before);
        out[held - 1] = i;
        std::push_heap(out, out + held, before);
      }
    }
    std::sort_heap(out, out + held, before);
  }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    const double rows = double(numel(in[0].shape)) / double(std::max<int64_t>(1, in[0].shape.back()));
    return {30.0 * double(numel(in[0].shape)) + 20 * rows * double(attrs.samples), 2.0 * double(in[0].nbytes()) + 8 * rows * double(attrs.samples)};
  }
  static std::vector<Sample> samples(Rng& rng) {
    const auto attrs = [](int64_t samples, uint64_t key, bool replacement) { return attrs_ptr(Attrs{samples, RandomKey(key), replacement}); };
    return {{"rows", {rng.uniform({3, 2, 7}, 0.1, 1)}, attrs(9, 1, true)},
            {"rows, without replacement", {rng.uniform({5, 7}, 0.1, 1)}, attrs(4, 2, false)},
            {"vector, zeros", {from({2, 0, 0, 1, 0}, {}, Dtype::f64)}, attrs(6, 3, true)},
            {"zeros, all others drawn", {from({{1, 0, 2, 0, 0}}, Dtype::f64)}, attrs(2, 4, false)},
            {"no samples", {rng.uniform({3}, 0.1, 1)}, attrs(0, 5, true)},
            {"no rows", {rng.uniform({0, 3}, 0.1, 1)}, attrs(2, 6, true)}};
  }
  static std::vector<BadSample> bad() {
    const Tensor weights = from({{1, 2, 0}, {1, 0, 0}});
    const double infinity = std::numeric_limits<double>::infinity();
    return {{"negative", {from({{1, 2}, {1, -3}})}, attrs_ptr(Attrs{}), "multinomial: weights must be finite and at least 0, got -3 at position 1 of row 1"},
            {"infinite", {from({1, infinity})}, attrs_ptr(Attrs{}), "got inf at position 1 of row 0"},
            {"NaN", {from({std::numeric_limits<double>::quiet_NaN()})}, attrs_ptr(Attrs{}), "got nan at position 0 of row 0"},
            {"all zero", {from({{1, 2}, {0, 0}})}, attrs_ptr(Attrs{}), "multinomial: row 1 has no weight above 0"},
            {"too large", {from({1e308, 1e308}, {}, Dtype::f64)}, attrs_ptr(Attrs{}), "the weights of row 0 add up to infinity; scale them down"},
            {"too few", {weights}, attrs_ptr(Attrs{2, {}, false}), "multinomial: row 1 has 1 weights above 0, cannot draw 2 without replacement"},
            {"too many", {weights}, attrs_ptr(Attrs{4, {}, false}), "multinomial: cannot draw 4 of 3 without replacement"},
            {"samples", {weights}, attrs_ptr(Attrs{-1}), "multinomial: samples must be at least 0, got -1"},
            {"nothing", {zeros({2, 0})}, attrs_ptr(Attrs{}), "multinomial: weights [2, 0] have nothing to draw from"},
            {"integers", {zeros({2}, Dtype::i64)}, attrs_ptr(Attrs{}), "multinomial: needs a float type, got i64"}};
  }
};
REGISTER_OP(Multinomial);

}  // namespace

Tensor bernoulli(double p, const Shape& shape, RandomKey key, Dtype dtype, Device device) {
  if (!(p >= 0 && p <= 1)) fail<ConfigError>("bernoulli: p must be in [0, 1], got ", p);
  const With name(&Ambient::op, "bernoulli");
  const Tensor out = empty(shape, dtype, device);
  if (!device.meta) draw_bernoulli(out, key, [p](int64_t) { return p; });
  return out;
}

Tensor bernoulli(const Tensor& p, RandomKey key, Dtype dtype) { return apply<Bernoulli>({p}, {key, dtype}); }

Tensor randperm(int64_t n, RandomKey key, Device device) {
  if (n < 0) fail<ShapeError>("randperm: needs a length of at least 0, got ", n);
  const With name(&Ambient::op, "randperm");
  const Tensor out = empty({n}, Dtype::i64, device);
  if (device.meta) return out;
  auto* to = static_cast<int64_t*>(out.raw());
  std::iota(to, to + n, int64_t(0));
  Generator random(key);
  for (int64_t i = n - 1; i > 0; --i) std::swap(to[i], to[random.integer(0, i + 1)]);
  return out;
}

Tensor multinomial(const Tensor& weights, int64_t samples, RandomKey key, bool replacement) {
  return apply<Multinomial>({weights}, {samples, key, replacement});
}

}  // namespace spool
