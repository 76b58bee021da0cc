#include <spool/autograd/saved.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cast.h>
#include <spool/ops/concat.h>
#include <spool/ops/cpu/index.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/reduce.h>
#include <spool/ops/rotary.h>
#include <spool/ops/slice.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <cmath>
#include <functional>
#include <numbers>

namespace spool {
namespace {

/// f_j for j < d/2.
std::vector<double> frequencies(const RotaryOptions& o, int64_t length) {
  const int64_t half = o.dim / 2;
  const RotaryScaling& s = o.scaling;
  using Kind = RotaryScaling::Kind;
  double theta = o.theta, divisor = 1;
  const auto stretched = [&](double factor) { return o.theta * std::pow(factor, double(o.dim) / double(o.dim - 2)); };
  if (s.kind == Kind::linear) divisor = s.factor;
  if (s.kind == Kind::ntk) theta = stretched(s.factor);
  if (s.kind == Kind::dynamic && length > s.original) theta = stretched(s.factor * double(length) / double(s.original) - (s.factor - 1));
  std::vector<double> f(static_cast<size_t>(half));
  for (int64_t j = 0; j < half; ++j) {
    double frequency = std::pow(theta, -2.0 * double(j) / double(o.dim)) / divisor;
    if (o.hf_compat) frequency = 1.0f / std::pow(float(theta), float(2 * j) / float(o.dim)) / float(divisor);
    if (s.kind == Kind::llama3) {
      const double wavelength = 2 * std::numbers::pi / frequency;
      const double smooth = (double(s.original) / wavelength - s.low) / (s.high - s.low);
      if (wavelength > double(s.original) / s.low) frequency /= s.factor;
      else if (wavelength >= double(s.original) / s.high) frequency = (1 - smooth) * frequency / s.factor + smooth * frequency;
    }
    f[size_t(j)] = frequency;
  }
  return f;
}

void check(const RotaryOptions& o) {
  const RotaryScaling& s = o.scaling;
  using Kind = RotaryScaling::Kind;
  if (o.dim < 2 || o.dim % 2) fail<ShapeError>("rotary: dim must be even and at least 2, got ", o.dim);
  if (!(o.theta > 0) || std::isinf(o.theta)) fail<ConfigError>("rotary: theta must be above 0, got ", o.theta);
  if (s.kind == Kind::none) return;
  if (!(s.factor >= 1) || std::isinf(s.factor)) fail<ConfigError>("rotary: scaling factor must be at least 1, got ", s.factor);
  if ((s.kind == Kind::ntk || s.kind == Kind::dynamic) && o.dim < 4) fail<ShapeError>("rotary: ntk scaling needs a dim of at least 4, got ", o.dim);
  if ((s.kind == Kind::dynamic || s.kind == Kind::llama3) && s.original < 1) fail<ConfigError>("rotary: this scaling needs the original length, got ", s.original);
  if (s.kind == Kind::llama3 && !(s.low > 0 && s.high > s.low)) fail<ConfigError>("rotary: llama3 needs 0 < low < high, got ", s.low, " and ", s.high);
}

Tensor angles_of(int64_t count, const std::function<int64_t(int64_t)>& position, const RotaryOptions& options, Dtype dtype, Device device, int64_t length) {
  check(options);
  if (dtype != Dtype::f32 && dtype != Dtype::f64) fail<DtypeError>("rotary_angles: must be f32 or f64, got ", dtype_name(dtype));
  const With op(&Ambient::op, "rotary_angles");
  Tensor out = empty({count, options.dim}, dtype, device);
  if (device.meta) return out;
  const std::vector<double> f = frequencies(options, length);
  const int64_t half = options.dim / 2;
  visit_float("rotary_angles", dtype, [&]<class T>() {
    T* to = static_cast<T*>(out.raw());
    parallel_range(count, std::max<int64_t>(1, 2048 / half), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = position(i);
        for (int64_t j = 0; j < half; ++j) {
          const double angle = options.hf_compat ? double(float(at) * float(f[size_t(j)])) : double(at) * f[size_t(j)];
          to[i * 2 * half + j] = static_cast<T>(options.hf_compat ? double(std::cos(float(angle))) : std::cos(angle));
          to[i * 2 * half + half + j] = static_cast<T>(options.hf_compat ? double(std::sin(float(angle))) : std::sin(angle));
        }
      }
    });
  });
  return out;
}

/// One head: point j is (x[j·pair], x[j·pair + other]).
template <class T, class C>
SPOOL_CLONES void turn(const T* x, const C* cosines, const C* sines, T* y, int64_t half, int64_t pair, int64_t other, C sign) {
  if (pair == 1) {
    for (int64_t j = 0; j < half; ++j) {
      const C a = kernels::load(x[j]), b = kernels::load(x[j + half]), c = cosines[j], s = sign * sines[j];
      y[j] = static_cast<T>(a * c - b * s);
      y[j + half] = static_cast<T>(a * s + b * c);
    }
    return;
  }
  for (int64_t j = 0; j < half; ++j) {
    const C a = kernels::load(x[j * pair]), b = kernels::load(x[j * pair + other]), c = cosines[j], s = sign * sines[j];
    y[j * pair] = static_cast<T>(a * c - b * s);
    y[j * pair + other] = static_cast<T>(a * s + b * c);
  }
}

struct RotaryAttrs {
  RotaryPairs pairs = RotaryPairs::rotate_half;
  bool back = false;  ///< Turn the other way: the transposed map.
};

struct Rotary {
  static constexpr auto name = "rotary";
  using Attrs = RotaryAttrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    const Shape &x = in[0].shape, &angles = in[1].shape;
    if (!is_float(in[0].dtype)) fail_not_float(name, in[0].dtype);
    if (x.size() != 4 || x[3] % 2) fail<ShapeError>(name, ": x must be [batch, length, heads, an even number], got ", x);
    if (angles != Shape{x[1], x[3]}) fail<ShapeError>(name, ": angles ", angles, " do not fit x ", x, "; they must be ", Shape{x[1], x[3]});
    const Dtype expected = in[0].dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    if (in[1].dtype != expected) fail<DtypeError>(name, ": angles of ", dtype_name(in[0].dtype), " must be ", dtype_name(expected), ", got ", dtype_name(in[1].dtype));
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      using C = kernels::compute_t<T>;
      const Shape& shape = k.in(0).shape();
      const int64_t length = shape[1], heads = shape[2], d = shape[3], half = d / 2;
      const T* x = static_cast<const T*>(k.in(0).raw());
      const C* angles = static_cast<const C*>(k.in(1).raw());
      T* y = static_cast<T*>(k.out().raw());
      const bool neighbours = attrs.pairs == RotaryPairs::interleaved;
      parallel_blocks(shape[0] * length, 3 * heads * d, [&](int64_t row) {
        const C* at = angles + row % length * d;
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t place = (row * heads + h) * d;
          turn<T, C>(x + place, at, at + half, y + place, half, neighbours ? 2 : 1, neighbours ? 1 : half, attrs.back ? C(-1) : C(1));
        }
      });
    });
  }
  static Saves saves(Need need) { return Saves().input(0, need(1)).input(1, need(0)); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensors out(2);
    if (s.needs(0)) out[0] = apply<Rotary>({s.grad(), s.input(1)}, {attrs.pairs, !attrs.back});
    if (s.needs(1)) out[1] = angle_gradient(s.grad(), s.input(0), attrs, s.in_meta(1).dtype);
    return out;
  }
  /// With points (a, b) turned into (a', b'): Σ over batch and heads of da'·a + db'·b for the cosine, db'·a − da'·b for the sine.
  static Tensor angle_gradient(const Tensor& dy, const Tensor& x, const Attrs& attrs, Dtype dtype) {
    const int64_t half = x.size(3) / 2;
    const bool neighbours = attrs.pairs == RotaryPairs::interleaved;
    const auto part = [&](const Tensor& t, int which) {
      return cast(neighbours ? slice(t, 3, which, slice_end, 2) : slice(t, 3, which * half, (which + 1) * half), dtype);
    };
    const Tensor a = part(x, 0), b = part(x, 1), da = part(dy, 0), db = part(dy, 1);
    const Tensor sine = attrs.back ? da * b - db * a : db * a - da * b;
    return concat({sum(da * a + db * b, {0, 2}), sum(sine, {0, 2})}, 1);
  }
  static Cost cost(const Metas& in, const Attrs&) { return {3.0 * double(numel(in[0].shape)), 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    // Angles are f32 for 16-bit types too, which the harness would convert along with the rest.
    const auto sample = [&](const char* label, const Shape& x, const Attrs& attrs) {
      return Sample{label, {rng.normal(x), rotary_angles(x[1], 3, {.dim = x[3], .theta = 100}, Dtype::f64)}, attrs_ptr(attrs), true, true};
    };
    return {sample("halves", {2, 5, 3, 8}, {}), sample("neighbours", {1, 4, 2, 6}, {RotaryPairs::interleaved}), sample("back", {1, 3, 1, 34}, {RotaryPairs::rotate_half, true}),
            sample("neighbours, back", {2, 2, 1, 4}, {RotaryPairs::interleaved, true}), sample("no tokens", {2, 0, 3, 8}, {})};
  }
  static std::vector<BadSample> bad() {
    const Tensor x = zeros({1, 3, 2, 4});
    return {{"angles", {x, zeros({4, 4})}, {}, "angles [4, 4] do not fit x [1, 3, 2, 4]; they must be [3, 4]"},
            {"odd", {zeros({1, 3, 2, 5}), zeros({3, 5})}, {}, "an even number], got [1, 3, 2, 5]"},
            {"type", {x, zeros({3, 4}, Dtype::f64)}, {}, "angles of f32 must be f32, got f64"}};
  }
};
REGISTER_OP(Rotary);

}  // namespace

Tensor rotary_angles(int64_t count, int64_t start, const RotaryOptions& options, Dtype dtype, Device device, int64_t length) {
  return angles_of(count, [start](int64_t i) { return start + i; }, options, dtype, device, length ? length : start + count);
}

Tensor rotary_angles(const Tensor& positions, const RotaryOptions& options, Dtype dtype, int64_t length) {
  if (positions.dims() != 1) fail<ShapeError>("rotary_angles: positions must be [count], got ", positions.shape());
  kernels::require_index("rotary_angles", positions.dtype());
  const Tensor list = as_contiguous(positions);
  int64_t most = 0;
  std::vector<int64_t> at;
  if (!positions.device().meta) at = list.to_vector<int64_t>();
  for (const int64_t p : at) most = std::max(most, p + 1);
  return angles_of(positions.size(0), [&at](int64_t i) { return at[size_t(i)]; }, options, dtype, positions.device(), length ? length : most);
}

Tensor rotary(const Tensor& x, const Tensor& angles, RotaryPairs pairs) { return apply<Rotary>({x, angles}, {pairs}); }

}  // namespace spool
