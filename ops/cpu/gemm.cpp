#include <spool/ops/cpu/gemm.h>

#include <atomic>
#include <cstring>
#include <stdexcept>

#include <spool/ops/cpu/gemm_plan.h>

namespace spool::kernels {

int64_t gemm_k_block(int64_t k) {
  if (k <= 384) return k;
  return detail::round_up(detail::ceil_div(k, detail::ceil_div(k, 320)), 8);
}

size_t gemm_scratch_bytes(const GemmShape& shape, Dtype compute, int threads) {
  if (shape.m <= 0 || shape.n <= 0 || shape.batch <= 0) return 0;
  auto bytes = [&](const GemmShape& s) {
    return static_cast<size_t>(detail::Panels(s, compute == Dtype::f64 ? 8 : 4).worker_bytes * detail::useful_workers(s, threads));
  };
  return shape.n == 1 ? std::max(bytes(shape), bytes({1, shape.m, shape.k, shape.batch})) : bytes(shape);
}

namespace detail {
namespace {

template <class T>
struct Product {
  const GemmShape shape;
  const GemmSource a, b;
  const GemmOptions<T>& options;
  const Panels panels;
  bool turned = false;  ///< Rows of this product run along C's contiguous axis: it forms Cᵀ.
  const Kernels<T>& fn = kernels<T>();

  /// Where the tiles of one block read A and B, and what follows them.
  struct Block {
    int64_t m, n;
    const T* a;
    int64_t a_strip;
    bool a_packed;
    const T* b;
    int64_t b_strip;
    const T* b_edge;  // the last strip of B when it is narrower than nr
    int64_t b_edge_row;
    T* b_copy;   // where the first rows leave the strips of B for the rest, or null
    int64_t b_copy_strip;
    bool first;  // these are the first rows
  };

  /// From an element of C to the next row's, and the next column's, of this product.
  int64_t down(int64_t c_row) const { return turned ? 1 : c_row; }
  int64_t right(int64_t c_row) const { return turned ? c_row : 1; }

  static const void* at(const GemmSource& x, int64_t offset) { return static_cast<const char*>(x.data) + offset * x.element; }

  void tiles(TileArgs<T> args, const Block& block, T* c, const Finish<T>* finish) const {
    const int64_t mr = fn.mr, nr = fn.nr, b_row = args.b_row, c_row = args.c_row;
    const bool add = args.add;
    alignas(64) T edge[max_mr * max_nr];
    for (int64_t j = 0; j < block.n; j += nr) {
      const int64_t columns = std::min(nr, block.n - j);
      const bool whole = columns == nr, direct = whole && !turned;
      const T* b_strip = whole ? block.b + j / nr * block.b_strip : block.b_edge;
      T* const b_copy = whole && block.b_copy ? block.b_copy + j / nr * block.b_copy_strip : nullptr;
      const auto& tile = fn.tile[block.a_packed][2 * columns > nr];
      args.b_row = whole ? b_row : block.b_edge_row;
      args.c_row = direct ? c_row : nr;
      args.add = add && !turned;
      for (int64_t i = 0; i < block.m; i += mr) {
        const int64_t rows = std::min(mr, block.m - i);
        const T* a_strip = block.a + i / mr * block.a_strip;
        T* corner = c + i * down(c_row) + j * right(c_row);
        const bool copying = b_copy && block.first && i == 0;
        if (b_copy && !copying) {
          b_strip = b_copy;
          args.b_row = nr;
        }
        args.copy = b_copy;
        const bool packed = block.a_packed && whole && rows == mr && args.b_row == nr;
        const auto run = copying ? fn.copying : packed ? fn.whole : tile[rows];
        if (direct) {
          run(args, a_strip, b_strip, corner);
          continue;
        }
        const auto bytes = static_cast<size_t>(columns) * sizeof(T);
        if (args.add) {
          for (int64_t r = 0; r < rows; ++r) std::memcpy(edge + r * nr, corner + r * c_row, bytes);
        }
        run(args, a_strip, b_strip, edge);
        if (turned) {
          fn.turn(rows, columns, edge, nr, corner, c_row, add);
        } else {
          for (int64_t r = 0; r < rows; ++r) std::memcpy(corner + r * c_row, edge + r * nr, bytes);
        }
      }
      if (finish) {
        const Finish<T> part = moved(*finish, 0, j);
        if (turned)
          fn.finish(columns, block.m, c + j * c_row, c_row, part);
        else
          fn.finish(block.m, columns, c + j, c_row, part);
      }
    }
  }

  /// What finishes the elements i rows and j columns of this product further on.
  Finish<T> moved(Finish<T> f, int64_t i, int64_t j) const {
    const int64_t row = turned ? j : i, column = turned ? i : j;
    if (f.bias) f.bias += column;
    if (f.pre) f.pre += row * f.pre_row + column;
    return f;
  }

  /// C[m,n] (+)= alpha · A[m, k0..k0+k) B[k0..k0+k, n] for the tile of C at (i0, j0), n ≤ nc.
  void one_k_block(int64_t i0, int64_t m, int64_t j0, int64_t n, int64_t k0, int64_t k, int64_t batch, T* c, int64_t c_row, bool add,
                   const Finish<T>* finish, T* pack_a, T* pack_b) const {
    const int64_t mr = fn.mr, nr = fn.nr;
    const void* b_at = at(b, batch * b.batch_stride + k0 * b.row_stride + j0 * b.col_stride);
    const bool b_direct = b.kind == native && b.col_stride == 1;
    const bool a_direct = turned || (a.kind == native && (n <= 4 * nr || m * k <= 8192));
    TileArgs<T> args{k, 1, mr, nr, c_row, options.alpha, add};
    Block block{};
    block.n = n;
    block.a_packed = !a_direct;
    block.b_edge_row = nr;
    if (b_direct) {
      block.b = static_cast<const T*>(b_at);
      block.b_strip = nr;
      args.b_row = b.row_stride;
      const int64_t whole = n / nr * nr;
      // Strips of a matrix whose rows lie a multiple of a page apart fall into the same sets of the caches.
      const bool again = m > 8 * mr || (m > mr && b.row_stride * static_cast<int64_t>(sizeof(T)) % 4096 == 0);
      if (again && n * k > 8192 && !a_direct) block.b_copy = pack_b;
      block.b_copy_strip = m > panels.mc ? k * nr : 0;  // one strip at a time is enough for one block of rows
      T* const edge = block.b_copy ? pack_b + whole * k : pack_b;
      if (whole < n) fn.pack_b[native](n - whole, k, block.b + whole, 1, b.row_stride, edge);
      block.b_edge = edge;
    } else {
      fn.pack_b[b.kind](n, k, b_at, b.col_stride, b.row_stride, pack_b);
      block.b = pack_b;
      block.b_strip = k * nr;
      block.b_edge = pack_b + n / nr * block.b_strip;
    }
    for (int64_t i = 0; i < m; i += panels.mc) {
      block.m = std::min(panels.mc, m - i);
      block.first = i == 0;
      const void* a_at = at(a, batch * a.batch_stride + (i0 + i) * a.row_stride + k0 * a.col_stride);
      if (a_direct) {
        block.a = static_cast<const T*>(a_at);
        block.a_strip = mr * a.row_stride;
        args.a_row = a.row_stride;
        args.a_col = a.col_stride;
      } else {
        fn.pack_a[a.kind](block.m, k, a_at, a.row_stride, a.col_stride, pack_a);
        block.a = pack_a;
        block.a_strip = k * mr;
      }
      T* const rows = c + i * down(c_row);
      if (finish) {
        const Finish<T> part = moved(*finish, i, 0);
        tiles(args, block, rows, &part);
      } else {
        tiles(args, block, rows, nullptr);
      }
    }
  }

  /// A few rows times a B whose rows are contiguous, read where it lies.
  bool streams_rows() const { return shape.m <= few_rows && shape.n >= 128 && a.kind == native && b.kind == native && b.col_stride == 1; }
  void stream_rows(int64_t i0, int64_t m, int64_t j0, int64_t n, int64_t batch, const GemmOutput<T>& c) const {
    const int64_t width = few_rows_bytes / static_cast<int64_t>(sizeof(T)) / m / 64 * 64;
    for (int64_t j = 0; j < n; j += width) {
      const int64_t columns = std::min(width, n - j);
      T* corner = c.data + batch * c.batch_stride + i0 * c.row_stride + j0 + j;
      for (int64_t k0 = 0; k0 < shape.k; k0 += panels.kc) {
        const TileArgs<T> args{std::min(panels.kc, shape.k - k0), a.row_stride, a.col_stride, b.row_stride, c.row_stride, options.alpha,
                               options.accumulate || k0 > 0};
        const void* a_at = at(a, batch * a.batch_stride + i0 * a.row_stride + k0 * a.col_stride);
        const void* b_at = at(b, batch * b.batch_stride + k0 * b.row_stride + j0 + j);
        fn.rows(m, args, static_cast<const T*>(a_at), static_cast<const T*>(b_at), corner, columns);
      }
      const Finish<T> finish = finish_at(batch, i0, j0 + j);
      if (!finish.idle()) fn.finish(m, columns, corner, c.row_stride, finish);
    }
  }

  /// A few rows times a B whose columns are contiguous, such as a layer's weights in decoding.
  bool dots_columns() const { return shape.m <= few_rows && fn.dots[1] && a.kind == native && b.kind == native && b.row_stride == 1 && b.col_stride != 1; }
  void dot_columns(int64_t i0, int64_t m, int64_t j0, int64_t n, int64_t batch, const GemmOutput<T>& c) const {
    T* corner = c.data + batch * c.batch_stride + i0 * c.row_stride + j0;
    for (int64_t k0 = 0; k0 < shape.k; k0 += panels.kc) {
      const TileArgs<T> args{std::min(panels.kc, shape.k - k0), a.row_stride, a.col_stride, b.col_stride, c.row_stride, options.alpha, options.accumulate || k0 > 0};
      const void* a_at = at(a, batch * a.batch_stride + i0 * a.row_stride + k0 * a.col_stride);
      const void* b_at = at(b, batch * b.batch_stride + k0 + j0 * b.col_stride);
      fn.dots[m](args, static_cast<const T*>(a_at), static_cast<const T*>(b_at), corner, n);
    }
    const Finish<T> finish = finish_at(batch, i0, j0);
    if (!finish.idle()) fn.finish(m, n, corner, c.row_stride, finish);
  }

  Finish<T> finish_at(int64_t batch, int64_t i, int64_t j) const {
    return moved({options.bias, options.activation, options.pre ? options.pre + batch * options.pre_batch_stride : nullptr, options.pre_row_stride}, i, j);
  }

  /// The tile [i0, i0 + m) × [j0, j0 + n) of one batch, from first block of k to last.
  void tile_of_c(const GemmOutput<T>& c, int64_t batch, int64_t i0, int64_t m, int64_t j0, int64_t n, std::byte* memory) const {
    if (!turned && shape.k > 0 && dots_columns()) return dot_columns(i0, m, j0, n, batch, c);
    if (!turned && shape.k > 0 && streams_rows()) return stream_rows(i0, m, j0, n, batch, c);
    T* pack_a = reinterpret_cast<T*>(memory);
    T* pack_b = reinterpret_cast<T*>(memory + (turned ? 0 : panels.a_bytes));  // its A is read where it lies
    for (int64_t j = 0; j < n; j += panels.nc) {
      const int64_t columns = std::min(panels.nc, n - j);
      T* corner = c.data + batch * c.batch_stride + i0 * down(c.row_stride) + (j0 + j) * right(c.row_stride);
      const Finish<T> finish = finish_at(batch, i0, j0 + j);
      for (int64_t k0 = 0; k0 < shape.k; k0 += panels.kc) {
        const int64_t k = std::min(panels.kc, shape.k - k0);
        const bool last = k0 + k == shape.k && !finish.idle();
        one_k_block(i0, m, j0 + j, columns, k0, k, batch, corner, c.row_stride, options.accumulate || k0 > 0, last ? &finish : nullptr,
                    pack_a, pack_b);
      }
      if (shape.k == 0) {
        for (int64_t i = 0; i < m && !options.accumulate; ++i) std::fill_n(corner + i * c.row_stride, columns, T(0));
        if (!finish.idle()) fn.finish(m, columns, corner, c.row_stride, finish);
      }
    }
  }

  void tiles_of_c(const GemmOutput<T>& c, int64_t workers, std::span<std::byte> scratch) const {
    const Grid grid(shape, workers, fn.mr, fn.nr);
    const int64_t each = grid.tasks_m * grid.tasks_n, tasks = each * shape.batch;
    workers = std::min(workers, tasks);
    const int64_t take = std::max<int64_t>(1, tasks / (workers * 16));
    std::atomic<int64_t> next{0};
    parallel_blocks(workers, parallel_threshold, [&](int64_t worker) {
      auto run = [&](std::byte* memory) {
        for (int64_t first; (first = next.fetch_add(take, std::memory_order_relaxed)) < tasks;) {
          for (int64_t t = first; t < std::min(first + take, tasks); ++t) {
            const int64_t i = t % each / grid.tasks_n * grid.tile_m, j = t % grid.tasks_n * grid.tile_n;
            tile_of_c(c, t / each, i, std::min(grid.tile_m, shape.m - i), j, std::min(grid.tile_n, shape.n - j), memory);
          }
        }
      };
      with_panels(worker, scratch, run);
    });
  }

  /// Each worker forms the sums of single k blocks; they are then added in the order that one worker would have used.
  void blocks_of_k(const GemmOutput<T>& c, int64_t workers, std::span<std::byte> scratch) const {
    const int64_t size = shape.m * shape.n, wave = workers * partials_per_worker;
    auto partial = [&](int64_t block) {  // of a wave; worker w owns blocks w, w + workers, …
      std::byte* own = scratch.data() + (block % workers + 1) * panels.worker_bytes - panels.partial_bytes;
      return reinterpret_cast<T*>(own) + block / workers * size;
    };
    for (int64_t first = 0; first < panels.k_blocks; first += wave) {
      const int64_t count = std::min(wave, panels.k_blocks - first);
      parallel_blocks(workers, parallel_threshold, [&](int64_t worker) {
        with_panels(worker, scratch, [&](std::byte* memory) {
          for (int64_t block = worker; block < count; block += workers) {
            const int64_t k0 = (first + block) * panels.kc, k = std::min(panels.kc, shape.k - k0);
            for (int64_t j = 0; j < shape.n; j += panels.nc) {
              one_k_block(0, shape.m, j, std::min(panels.nc, shape.n - j), k0, k, 0, partial(block) + j, shape.n, false, nullptr,
                          reinterpret_cast<T*>(memory), reinterpret_cast<T*>(memory + panels.a_bytes));
            }
          }
        });
      });
      for (int64_t block = 0; block < count; ++block) {
        for (int64_t i = 0; i < shape.m; ++i) {
          const T* from = partial(block) + i * shape.n;
          T* to = c.data + i * c.row_stride;
          if (first + block > 0 || options.accumulate) {
            for (int64_t j = 0; j < shape.n; ++j) to[j] += from[j];
          } else {
            std::copy_n(from, shape.n, to);
          }
        }
      }
    }
    const Finish<T> finish = finish_at(0, 0, 0);
    if (!finish.idle()) fn.finish(shape.m, shape.n, c.data, c.row_stride, finish);
  }

  template <class F>
  void with_panels(int64_t worker, std::span<std::byte> scratch, F&& run) const {
    if (panels.worker_bytes > panels.partial_bytes) return run(scratch.data() + worker * panels.worker_bytes);
    alignas(64) std::byte stack[stack_panel_bytes];
    run(stack);
  }
};

/// Its panel of Aᵀ fits where the panels of A and B would lie, since n is at least twice m.
bool worth_turning(const GemmShape& s, const GemmSource& b, const Panels& panels) {
  return b.kind == native && b.row_stride == 1 && b.col_stride != 1 && s.m <= most_turned_rows && s.n >= 2 * s.m && s.n >= max_nr && s.m > few_rows && s.k > 0 && !panels.split_k;
}

}  // namespace

template <class T>
void gemm(const GemmShape& shape, const GemmSource& a, const GemmSource& b, const GemmOutput<T>& c, const GemmOptions<T>& options,
          std::span<std::byte> scratch) {
  if (shape.m <= 0 || shape.n <= 0 || shape.batch <= 0) return;
  if (shape.n == 1 && shape.m > 1 && c.row_stride == 1 && !options.bias && (!options.pre || options.pre_row_stride == 1)) {
    // A times a column is the row times Aᵀ: the same bits, with vectors along the long side.
    GemmSource at = a, bt = b;
    std::swap(at.row_stride, at.col_stride);
    std::swap(bt.row_stride, bt.col_stride);
    return gemm<T>({1, shape.m, shape.k, shape.batch}, bt, at, c, options, scratch);
  }
  const Panels panels(shape, sizeof(T));
  int64_t workers = useful_workers(shape, num_threads());
  if (const int64_t bytes = panels.worker_bytes; bytes > 0) {
    workers = std::min(workers, static_cast<int64_t>(scratch.size()) / bytes);
    if (workers < 1 || reinterpret_cast<uintptr_t>(scratch.data()) % 64 != 0) {
      throw std::invalid_argument("gemm: the scratch is smaller than gemm_scratch_bytes or not aligned to 64");
    }
  }
  if (worth_turning(shape, b, panels)) {
    // Few rows times a matrix that would have to be packed transposed, such as a layer's weights: Cᵀ = Bᵀ Aᵀ reads it where it lies.
    const auto swapped = [](GemmSource x) {
      std::swap(x.row_stride, x.col_stride);
      return x;
    };
    Product<T>{{shape.n, shape.m, shape.k, shape.batch}, swapped(b), swapped(a), options, panels, true}.tiles_of_c(c, workers, scratch);
    return;
  }
  const Product<T> product{shape, a, b, options, panels};
  if (panels.split_k && workers > 1) {
    product.blocks_of_k(c, std::min(workers, panels.k_blocks), scratch);
  } else {
    product.tiles_of_c(c, workers, scratch);
  }
}
template void gemm<float>(const GemmShape&, const GemmSource&, const GemmSource&, const GemmOutput<float>&, const GemmOptions<float>&,
                          std::span<std::byte>);
template void gemm<double>(const GemmShape&, const GemmSource&, const GemmSource&, const GemmOutput<double>&, const GemmOptions<double>&,
                           std::span<std::byte>);

}  // namespace detail
}  // namespace spool::kernels
