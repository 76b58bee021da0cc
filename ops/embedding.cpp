#include <spool/autograd/saved.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>
#include <spool/ops/cpu/index.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/ops/embedding.h>
#include <spool/tensor/copy.h>

namespace spool {
namespace {

struct TableAttrs {
  int64_t count = 1;
};

/// dtable[ids[i]] += dy[i]
struct EmbeddingBackward {
  static constexpr auto name = "embedding_backward";
  using Attrs = TableAttrs;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    if (!is_float(in[0].dtype)) fail_not_float(name, in[0].dtype);
    kernels::require_index(name, in[1].dtype);
    Shape ids = in[0].shape;
    if (!ids.empty()) ids.erase(ids.size() - 1);
    if (in[0].shape.empty() || ids != in[1].shape) fail<ShapeError>(name, ": gradient ", in[0].shape, " does not fit ids ", in[1].shape);
    return {{Meta{Shape{attrs.count, in[0].shape.back()}, in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    kernels::check_indices(name, k.in(1), attrs.count);
    fill(k.out(), 0);
    add(k.out(), k.in(0), k.in(1));
  }
  static constexpr int64_t width = 64;  ///< Columns of a block.

  /// 16-bit rows: each is summed in f32 and rounded once. A task has 64 rows and `width` columns of the table and looks through all ids, which
  /// costs no memory, and little beside a product with the table.
  template <class T, class I>
  static void add_rounding_once(T* to, const T* from, const I* id, int64_t count, int64_t dim, int64_t n) {
    constexpr int64_t rows = 64;
    const int64_t across = (dim + width - 1) / width;
    parallel_blocks(across * ((count + rows - 1) / rows), n, [&](int64_t task) {
      const int64_t first = task / across * rows, begin = task % across * width, end = std::min(dim, begin + width);
      float sum[rows][width];
      uint64_t seen = 0;
      for (int64_t i = 0; i < n; ++i) {
        const auto row = uint64_t(int64_t(id[i]) - first);
        if (row >= uint64_t(rows)) continue;
        if (!(seen >> row & 1))
          for (int64_t c = begin; c < end; ++c) sum[row][c - begin] = static_cast<float>(to[(first + int64_t(row)) * dim + c]);
        seen |= uint64_t(1) << row;
        for (int64_t c = begin; c < end; ++c) sum[row][c - begin] += static_cast<float>(from[i * dim + c]);
      }
      for (int64_t row = 0; row < rows; ++row)
        if (seen >> row & 1)
          for (int64_t c = begin; c < end; ++c) to[(first + row) * dim + c] = static_cast<T>(sum[row][c - begin]);
    });
  }

  /// Blocks of columns in parallel, rows in the order of the ids.
  static void add(const Tensor& table, const Tensor& dy, const Tensor& ids) {
    const int64_t count = table.shape()[0], dim = table.shape()[1], n = ids.numel();
    visit_float(name, table.dtype(), [&]<class T>() {
      kernels::visit_index(name, ids.dtype(), [&]<class I>() {
        T* to = static_cast<T*>(table.raw());
        const T* from = static_cast<const T*>(dy.raw());
        const I* id = static_cast<const I*>(ids.raw());
        if constexpr (sizeof(T) == 2) return add_rounding_once(to, from, id, count, dim, n);
        parallel_blocks((dim + width - 1) / width, n * width, [&](int64_t block) {
          const int64_t begin = block * width, end = std::min(dim, begin + width);
          for (int64_t i = 0; i < n; ++i) {
            T* row = to + int64_t(id[i]) * dim;
            for (int64_t c = begin; c < end; ++c) row[c] = static_cast<T>(accumulate_t<T>(row[c]) + accumulate_t<T>(from[i * dim + c]));
          }
        });
      });
    });
  }
  static Saves saves(Need) { return Saves().input(1); }
  static Tensors vjp(Saved& s, const Attrs&) { return {embedding(s.grad(), s.input(1)), {}}; }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return {{"repeats", {rng.normal({3, 4, 5}), rng.integers({3, 4}, 0, 3)}, attrs_ptr(Attrs{4})}, {"no ids", {rng.normal({0, 5}), rng.integers({0}, 0, 3)}, attrs_ptr(Attrs{4})}}; }
  static std::vector<BadSample> bad() {
    return {{"shape", {zeros({3, 2}), zeros({2}, Dtype::i64)}, attrs_ptr(Attrs{4}), "gradient [3, 2] does not fit ids [2]"},
            {"range", {zeros({1, 2}), from(std::initializer_list<double>{4}, {}, Dtype::i64)}, attrs_ptr(Attrs{4}), "index 4 at position 0 is out of range for 4"}};
  }
};
REGISTER_OP(EmbeddingBackward);

struct Embedding {
  static constexpr auto name = "embedding";
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    if (!is_float(in[0].dtype)) fail_not_float(name, in[0].dtype);
    kernels::require_index(name, in[1].dtype);
    if (in[0].shape.size() != 2) fail<ShapeError>(name, ": the table must be [count, dim], got ", in[0].shape);
    Shape out = in[1].shape;
    out.push_back(in[0].shape[1]);
    return {{Meta{out, in[0].dtype, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    const int64_t count = k.in(0).shape()[0], dim = k.in(0).shape()[1], n = k.in(1).numel();
    kernels::check_indices(name, k.in(1), count);
    visit_float(name, k.in(0).dtype(), [&]<class T>() {
      kernels::visit_index(name, k.in(1).dtype(), [&]<class I>() {
        const T* table = static_cast<const T*>(k.in(0).raw());
        const I* id = static_cast<const I*>(k.in(1).raw());
        T* y = static_cast<T*>(k.out().raw());
        parallel_range(n, std::max<int64_t>(1, 16384 / std::max<int64_t>(dim, 1)), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) std::copy_n(table + int64_t(id[i]) * dim, dim, y + i * dim);
        });
      });
    });
  }
  static Saves saves(Need) { return Saves().input(1); }
  static Tensors vjp(Saved& s, const Attrs&) {
    if (const Tensor table = s.target(0); table.defined()) {
      const Tensor dy = as_contiguous(s.grad()), ids = as_contiguous(s.input(1));
      bump_version(table);
      if (!table.device().meta) EmbeddingBackward::add(table, dy, ids);
      return {table, {}};
    }
    return {apply<EmbeddingBackward>({s.grad(), s.input(1)}, {s.in_meta(0).shape[0]}), {}};
  }
  static Cost cost(const Metas& in, const Attrs&) { return {0, 2.0 * double(numel(in[1].shape) * in[0].shape[1]) * double(dtype_size(in[0].dtype))}; }
  static std::vector<Sample> samples(Rng& rng) {
    return {{"bytes", {rng.normal({7, 3}), rng.integers({2, 5}, 0, 7, Dtype::u8)}, {}}, {"i64, repeats", {rng.normal({4, 70}), from(std::initializer_list<double>{1, 3, 1, 1}, Shape{4}, Dtype::i64)}, {}},
            {"0-d id", {rng.normal({4, 2}), rng.integers({}, 0, 4, Dtype::i32)}, {}}, {"no ids", {rng.normal({4, 2}), rng.integers({0}, 0, 4)}, {}}};
  }
  static std::vector<BadSample> bad() {
    return {{"too large", {zeros({3, 2}), from(std::initializer_list<double>{0, 4}, Shape{2}, Dtype::i64)}, {}, "index 4 at position 1 is out of range for 3"},
            {"negative", {zeros({3, 2}), from(std::initializer_list<double>{-1}, Shape{1}, Dtype::i32)}, {}, "index -1 at position 0 is out of range for 3"},
            {"float ids", {zeros({3, 2}), zeros({1})}, {}, "needs u8, i32 or i64 indices, got f32"}};
  }
};
REGISTER_OP(Embedding);

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids) { return apply<Embedding>({table, ids}); }

}  // namespace spool
