#include <spool/autograd/saved.h>
#include <spool/ops/cpu/bits.h>
#include <spool/ops/moving.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

#include <algorithm>
#include <limits>

namespace spool {
namespace {

constexpr int64_t lowest = std::numeric_limits<int64_t>::min();

template <bool lower>
struct Triangle {
  static constexpr auto name = lower ? "tril" : "triu";
  struct Attrs {
    int64_t diagonal = 0;
  };
  static Inferred infer(const Metas& in, const Attrs&) {
    if (in[0].shape.size() < 2) fail<ShapeError>(name, ": needs two axes, got shape ", in[0].shape);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    if (k.out().numel() == 0) return;
    const int64_t rows = k.out().size(-2), columns = k.out().size(-1), diagonal = std::clamp(attrs.diagonal, -rows, columns);
    const int64_t group = std::max<int64_t>(1, 16384 / columns), all = k.out().numel() / columns;
    kernels::visit_bits(k.out().dtype(), [&]<class U>() {
      const U* x = static_cast<const U*>(k.in(0).raw());
      U* y = static_cast<U*>(k.out().raw());
      parallel_blocks((all + group - 1) / group, group * columns, [&](int64_t block) {
        for (int64_t row = block * group; row < std::min(all, (block + 1) * group); ++row) {
          const int64_t cut = std::clamp<int64_t>(row % rows + diagonal + (lower ? 1 : 0), 0, columns);  // the first column beyond, or kept
          const U* from = x + row * columns;
          U* to = y + row * columns;
          for (int64_t c = 0; c < cut; ++c) to[c] = lower ? from[c] : U(0);
          for (int64_t c = cut; c < columns; ++c) to[c] = lower ? U(0) : from[c];
        }
      });
    });
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) { return {lower ? tril(s.grad(), attrs.diagonal) : triu(s.grad(), attrs.diagonal)}; }
  static Cost cost(const Metas& in, const Attrs&) { return {0, 2.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"square", {rng.normal({5, 5})}, {}},
            {"batch, above", {rng.normal({2, 3, 7})}, attrs_ptr(Attrs{2})},
            {"tall, below", {rng.normal({6, 3})}, attrs_ptr(Attrs{-2})},
            {"far away", {rng.normal({2, 3})}, attrs_ptr(Attrs{lowest})},
            {"zero size", {rng.normal({0, 3})}, {}}};
  }
  static std::vector<BadSample> bad() { return {{"axes", {zeros({3})}, {}, concat(name, ": needs two axes, got shape [3]")}}; }
};
using Tril = Triangle<true>;
using Triu = Triangle<false>;
REGISTER_OP(Tril);
REGISTER_OP(Triu);

struct Line {
  int64_t offset = 0;
  int axis1 = -2, axis2 = -1;
  Shape whole;  ///< Used by diag_embed.
};

Tensor line_of(const Tensor& x, const Line& line) {
  const int a = normalize_axis("diagonal", line.axis1, x.shape()), b = normalize_axis("diagonal", line.axis2, x.shape());
  if (a == b) fail<ShapeError>("diagonal: axes ", line.axis1, " and ", line.axis2, " of shape ", x.shape(), " are the same");
  const int64_t rows = x.shape()[a], columns = x.shape()[b], right = std::clamp(line.offset, -rows, columns);
  const int64_t count = std::min(rows - std::max<int64_t>(-right, 0), columns - std::max<int64_t>(right, 0));
  const int64_t start = right >= 0 ? right * x.strides()[b] : -right * x.strides()[a];
  Shape shape = x.shape();
  Strides strides = x.strides();
  const int64_t step = strides[a] + strides[b];
  for (const int axis : {std::max(a, b), std::min(a, b)}) {
    shape.erase(axis);
    strides.erase(axis);
  }
  shape.push_back(count);
  strides.push_back(step);
  return x.view_as(shape, strides, numel(shape) > 0 ? x.offset() + start : x.offset());
}

/// x on a diagonal of zeros of shape `whole`.
struct DiagEmbed {
  static constexpr auto name = "diag_embed";
  static constexpr bool strided = true;
  using Attrs = Line;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    const Shape line = line_of(zeros_view(attrs.whole, in[0].dtype, meta()), attrs).shape();
    if (line != in[0].shape) fail<ShapeError>(name, ": ", in[0].shape, " on a diagonal of ", attrs.whole, " that has shape ", line);
    return {{{attrs.whole, in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    fill(k.out(), 0);
    copy(line_of(k.out(), attrs), k.in(0));
  }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& a) { return {diagonal(s.grad(), a.offset, a.axis1, a.axis2)}; }
  static Cost cost(const Metas& in, const Attrs& attrs) { return {0, double(numel(attrs.whole)) * double(dtype_size(in[0].dtype))}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"vector", {rng.normal({3})}, attrs_ptr(Attrs{0, -2, -1, {3, 3}})},
            {"above, batch", {rng.normal({2, 3})}, attrs_ptr(Attrs{2, -2, -1, {2, 5, 5}})},
            {"outer axes, below", {rng.normal({3, 4})}, attrs_ptr(Attrs{-1, 0, 2, {5, 3, 6}})},
            {"booleans", {rng.booleans({3})}, attrs_ptr(Attrs{0, -2, -1, {3, 3}})},
            {"zero size", {rng.normal({0})}, attrs_ptr(Attrs{1, -2, -1, {1, 1}})}};
  }
  static std::vector<BadSample> bad() {
    return {{"size", {zeros({3})}, attrs_ptr(Attrs{0, -2, -1, {2, 4}}), "diag_embed: [3] on a diagonal of [2, 4] that has shape [2]"}};
  }
};
REGISTER_OP(DiagEmbed);

struct Diagonal {
  static constexpr auto name = "diagonal";
  using Attrs = Line;
  static Tensor view(const Tensor& x, const Attrs& attrs) { return line_of(x, attrs); }
  static Saves saves(Need) { return {}; }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Attrs back = attrs;
    back.whole = s.in_meta(0).shape;
    return {apply<DiagEmbed>({s.grad()}, back)};
  }
  static Cost cost(const Metas&, const Attrs&) { return {}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"matrix", {rng.normal({3, 5})}, {}},
            {"above", {rng.normal({3, 5})}, attrs_ptr(Attrs{3})},
            {"outer axes, below", {rng.normal({5, 3, 4})}, attrs_ptr(Attrs{-2, 2, 0})},
            {"beyond", {rng.normal({3, 5})}, attrs_ptr(Attrs{lowest})},
            {"zero size", {rng.normal({0, 3})}, {}}};
  }
  static std::vector<BadSample> bad() {
    return {{"same axis", {zeros({2, 3})}, attrs_ptr(Attrs{0, 1, -1}), "diagonal: axes 1 and -1 of shape [2, 3] are the same"},
            {"axes", {zeros({3})}, {}, "diagonal: axis -2 is out of range for shape [3]"}};
  }
};
REGISTER_OP(Diagonal);

}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal) { return apply<Tril>({x}, {diagonal}); }
Tensor triu(const Tensor& x, int64_t diagonal) { return apply<Triu>({x}, {diagonal}); }
Tensor diagonal(const Tensor& x, int64_t offset, int axis1, int axis2) { return apply<Diagonal>({x}, {offset, axis1, axis2, {}}); }

Tensor diag_embed(const Tensor& x, int64_t offset) {
  Shape whole = x.shape();
  if (whole.empty()) fail<ShapeError>("diag_embed: needs an axis, got shape []");
  constexpr int64_t most = int64_t(1) << 60;
  if (offset < -most || offset > most) fail<ShapeError>("diag_embed: an offset of ", offset, " is beyond ", offset < 0 ? -most : most);
  whole[whole.size() - 1] += offset < 0 ? -offset : offset;
  whole.push_back(whole.back());
  return apply<DiagEmbed>({x}, {offset, -2, -1, whole});
}

Tensor diag(const Tensor& x, int64_t offset) {
  if (x.dims() != 1 && x.dims() != 2) fail<ShapeError>("diag: needs a vector or a matrix, got shape ", x.shape());
  return x.dims() == 1 ? diag_embed(x, offset) : diagonal(x, offset);
}

}  // namespace spool
