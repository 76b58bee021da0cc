#include <spool/autograd/op.h>
#include <spool/ops/cpu/index.h>
#include <spool/ops/random.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace spool {
namespace {

/// Fills a new tensor four elements at a time: draw(words) gives four numbers as double.
template <class Draw>
Tensor drawn(std::string_view op, const Shape& shape, Dtype dtype, Device device, Draw draw) {
  const With name(&Ambient::op, op.data());
  if (!is_float(dtype)) fail_not_float(op, dtype);
  Tensor out = empty(shape, dtype, device);
  if (device.meta) return out;
  visit_float(op, dtype, [&]<class T>() {
    T* to = out.data<T>();
    parallel_range((out.numel() + 3) / 4, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const std::array<double, 4> four = draw(uint64_t(block));
        for (int64_t i = 4 * block; i < std::min(4 * block + 4, out.numel()); ++i) {
          if constexpr (std::is_same_v<T, double>)
            to[i] = four[size_t(i % 4)];
          else
            to[i] = T(float(four[size_t(i % 4)]));
        }
      }
    });
  });
  return out;
}

std::array<uint32_t, 4> words_at(RandomKey key, uint64_t block, uint32_t stream) {
  return philox4x32({uint32_t(block), uint32_t(block >> 32), stream, 0}, key.words());
}

struct OneHot {
  static constexpr auto name = "one_hot";
  static constexpr auto no_gradient = "its input is an index";
  struct Attrs {
    int64_t classes = 0;
    Dtype dtype = Dtype::f32;
  };
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    kernels::require_index(name, in[0].dtype);
    if (attrs.classes < 0) fail<ShapeError>(name, ": needs a number of classes of at least 0, got ", attrs.classes);
    Shape shape = in[0].shape;
    shape.push_back(attrs.classes);
    return {{{shape, attrs.dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    kernels::check_indices(name, k.in(0), attrs.classes);
    visit(attrs.dtype, [&]<class T>() {
      T* to = static_cast<T*>(k.out().raw());
      std::fill_n(to, k.out().numel(), static_cast<T>(0.f));
      kernels::visit_index(name, k.in(0).dtype(), [&]<class I>() {
        const I* at = static_cast<const I*>(k.in(0).raw());
        for (int64_t i = 0; i < k.in(0).numel(); ++i) to[i * attrs.classes + int64_t(at[i])] = static_cast<T>(1.f);
      });
    });
  }
  static Cost cost(const Metas& in, const Attrs& attrs) {
    return {0, double(numel(in[0].shape)) * double(attrs.classes) * double(dtype_size(attrs.dtype))};
  }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"matrix", {rng.integers({3, 5}, 0, 7)}, attrs_ptr(Attrs{7, Dtype::f64})},
            {"bytes", {rng.integers({9}, 0, 4, Dtype::u8)}, attrs_ptr(Attrs{4, Dtype::boolean})},
            {"0-d", {rng.integers({}, 0, 3)}, attrs_ptr(Attrs{3, Dtype::f64})},
            {"zero size", {rng.integers({0, 2}, 0, 3)}, attrs_ptr(Attrs{3, Dtype::i64})}};
  }
  static std::vector<BadSample> bad() {
    return {{"index",
             {from(std::initializer_list<double>{0, 4}, {}, Dtype::i64)},
             attrs_ptr(Attrs{3}),
             "one_hot: index 4 at position 1 is out of range for 3"},
            {"negative",
             {from(std::initializer_list<double>{-1}, {}, Dtype::i64)},
             attrs_ptr(Attrs{3}),
             "one_hot: index -1 at position 0 is out of range for 3"},
            {"floats", {zeros({2})}, attrs_ptr(Attrs{3}), "one_hot: needs u8, i32 or i64 indices, got f32"}};
  }
};
REGISTER_OP(OneHot);

}  // namespace

Tensor uniform(const Shape& shape, RandomKey key, double low, double high, Dtype dtype, Device device) {
  if (!(low <= high) || !std::isfinite(high - low)) fail<ConfigError>("uniform: needs low ≤ high and a finite range, got ", low, " and ", high);
  return drawn("uniform", shape, dtype, device, [=](uint64_t block) {
    const auto a = words_at(key, block, 0);
    std::array<double, 4> four;
    if (dtype == Dtype::f64) {
      const auto b = words_at(key, block, 1);
      for (size_t i = 0; i < 4; ++i) four[i] = low + (high - low) * uniform_from(a[i], b[i]);
    } else {  // formed in float, so that rounding cannot reach `high`
      const auto from = float(low), range = float(high - low);
      for (size_t i = 0; i < 4; ++i) four[i] = double(std::min(from + range * uniform_from(a[i]), std::nextafter(float(high), from)));
    }
    return four;
  });
}

Tensor normal(const Shape& shape, RandomKey key, double mean, double deviation, Dtype dtype, Device device) {
  return drawn("normal", shape, dtype, device, [=](uint64_t block) {
    const auto w = words_at(key, block, 2);
    std::array<double, 4> four;
    for (size_t i = 0; i < 4; i += 2) {
      const double radius = deviation * std::sqrt(-2 * std::log((double(w[i]) + 1) * 0x1p-32)),
                   angle = 2 * std::numbers::pi * double(w[i + 1]) * 0x1p-32;
      four[i] = mean + radius * std::cos(angle);
      four[i + 1] = mean + radius * std::sin(angle);
    }
    return four;
  });
}

Tensor one_hot(const Tensor& indices, int64_t classes, Dtype dtype) { return apply<OneHot>({indices}, {classes, dtype}); }

}  // namespace spool
