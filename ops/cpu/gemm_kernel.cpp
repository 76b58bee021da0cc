#include <spool/ops/cpu/gemm_pack.h>

#include <array>
#include <utility>

namespace spool::kernels::detail {
namespace {

template <class T, int Lanes>
struct Simd {
  typedef T Vector __attribute__((vector_size(Lanes * sizeof(T))));
  SPOOL_INLINE static void load(Vector& v, const T* from) { std::memcpy(&v, from, sizeof(Vector)); }
  SPOOL_INLINE static void store(T* to, const Vector& v) { std::memcpy(to, &v, sizeof(Vector)); }
};

template <class T>
SPOOL_INLINE const T* advance(const T* from, int64_t bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(from) + bytes);
}

/// Rows of a strip of B that are asked for before they are needed; read where it lies, each is somewhere else.
constexpr int64_t rows_ahead = 16;

/// `Step`: elements between the columns of a packed A, whose rows lie side by side; 0 when A is read where it lies. `Packed`: so is B.
template <class T, int Lanes, int Rows, int Vectors, int Step, bool Copy, bool Packed = false>
SPOOL_INLINE void tile_body(const TileArgs<T>& args, const T* a, const T* b, T* c) {
  using S = Simd<T, Lanes>;
  using V = typename S::Vector;
  V sum[Rows][Vectors] = {};
  constexpr int64_t size = sizeof(T);  // strides in bytes keep the compiler from making a second copy of the loop for stride 1
  const int64_t a_row = (Step ? 1 : args.a_row) * size, a_col = (Step ? Step : args.a_col) * size, b_row = args.b_row * size, c_row = args.c_row;
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int64_t line = 0; line < Vectors * Lanes * size; line += 64) __builtin_prefetch(advance(c + r * c_row, line), 1);
  }
  T* copy = args.copy;
#pragma GCC unroll 4
  for (int64_t p = args.k; p > 0; --p) {
    V bv[Vectors];
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      S::load(bv[v], b + v * Lanes);
      if constexpr (Copy) S::store(copy + v * Lanes, bv[v]);
    }
    if constexpr (Copy) copy += Vectors * Lanes;
    if constexpr (!Packed) {
#pragma GCC unroll 2
      for (int64_t line = 0; line < Vectors * Lanes * size; line += 64) __builtin_prefetch(advance(b, rows_ahead * b_row + line), 0, 2);
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#if SPOOL_HAS_ISA_LEVELS
      // A product that broadcasts its operand itself is one instruction less to decode and one load more. A core that shares its decoders with
      // another thread is held up by the first, so most rows do, as many as the loads allow. Only where the compiler fuses the rest too (`fuses`).
      if constexpr (Packed && sizeof(T) == 4 && Lanes == 16) {
        if (r >= 4) {
#pragma GCC unroll 2
          for (int v = 0; v < Vectors; ++v) asm("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum[r][v]) : "v"(bv[v]), "m"(*advance(a, r * a_row)));
          continue;
        }
      }
#endif
      const T x = *advance(a, r * a_row);
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) sum[r][v] += x * bv[v];
    }
    a = advance(a, a_col);
    b = advance(b, b_row);
  }
  // Scaled in a step of its own: partial sums that are added later (split k) then have the same bits as these.
  if (const T alpha = args.alpha; alpha != T(1)) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) sum[r][v] *= alpha;
    }
  }
  if (args.add) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) {
        V old;
        S::load(old, c + r * c_row + v * Lanes);
        old += sum[r][v];
        S::store(c + r * c_row + v * Lanes, old);
      }
    }
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) S::store(c + r * c_row + v * Lanes, sum[r][v]);
    }
  }
}

template <class T>
SPOOL_INLINE void rows_body(int64_t rows, const TileArgs<T>& args, const T* a, const T* b, T* c, int64_t n) {
  T sums[few_rows_bytes / sizeof(T)];
  for (int64_t j = 0; j < rows * n; ++j) sums[j] = T(0);
  int64_t p = 0;
  for (; p + 4 <= args.k; p += 4) {
    const T* b0 = b + p * args.b_row;
    const T *b1 = b0 + args.b_row, *b2 = b1 + args.b_row, *b3 = b2 + args.b_row;
    for (int64_t i = 0; i < rows; ++i) {
      const T* x = a + i * args.a_row + p * args.a_col;
      const T x0 = x[0], x1 = x[args.a_col], x2 = x[2 * args.a_col], x3 = x[3 * args.a_col];
      T* sum = sums + i * n;
      for (int64_t j = 0; j < n; ++j) {
        T s = sum[j];
        s += x0 * b0[j];
        s += x1 * b1[j];
        s += x2 * b2[j];
        s += x3 * b3[j];
        sum[j] = s;
      }
    }
  }
  for (; p < args.k; ++p) {
    const T* from = b + p * args.b_row;
    for (int64_t i = 0; i < rows; ++i) {
      const T x = a[i * args.a_row + p * args.a_col];
      for (int64_t j = 0; j < n; ++j) sums[i * n + j] += x * from[j];
    }
  }
  if (const T alpha = args.alpha; alpha != T(1)) {
    for (int64_t j = 0; j < rows * n; ++j) sums[j] *= alpha;
  }
  for (int64_t i = 0; i < rows; ++i) {
    T* to = c + i * args.c_row;
    if (args.add) {
      for (int64_t j = 0; j < n; ++j) to[j] += sums[i * n + j];
    } else {
      for (int64_t j = 0; j < n; ++j) to[j] = sums[i * n + j];
    }
  }
}

/// x, rounded: a product that is not fused with the sum it goes into.
SPOOL_INLINE float apart(float x) {
#if SPOOL_HAS_ISA_LEVELS
  asm("" : "+x"(x));
#endif
  return x;
}

/// Four neighbouring columns of X[Lanes, …], whose rows are contiguous: out[i] holds column i.
template <int Lanes>
SPOOL_INLINE void four_columns(const float* x, int64_t stride, typename Simd<float, Lanes>::Vector (&out)[4]) {
  using Q = typename Quad<float>::Vector;
  typedef float Eight __attribute__((vector_size(32)));
  Q q[Lanes / 4][4];
#pragma GCC unroll 4
  for (int g = 0; g < Lanes / 4; ++g) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) std::memcpy(&q[g][r], x + (4 * g + r) * stride, sizeof(Q));
    transpose(q[g]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    if constexpr (Lanes == 4) out[i] = q[0][i];
    if constexpr (Lanes >= 8) {
      const Eight low = __builtin_shufflevector(q[0][i], q[1][i], 0, 1, 2, 3, 4, 5, 6, 7);
      if constexpr (Lanes == 8) out[i] = low;
      if constexpr (Lanes == 16) {
        const Eight high = __builtin_shufflevector(q[2][i], q[3][i], 0, 1, 2, 3, 4, 5, 6, 7);
        out[i] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      }
    }
  }
}

template <int Lanes, int Rows>
SPOOL_INLINE void dots_body(const TileArgs<float>& args, const float* a, const float* b, float* c, int64_t n) {
  using S = Simd<float, Lanes>;
  using V = typename S::Vector;
  const int64_t k = args.k, b_column = args.b_row;
  const auto keep = [&](int r, int64_t j, float sum) {
    float* to = c + r * args.c_row + j;
    if (args.alpha != 1) sum = apart(sum * args.alpha);
    *to = args.add ? *to + sum : sum;
  };
  for (int64_t j = 0; j < n; j += Lanes) {
    const float* from = b + j * b_column;
    const int64_t columns = n - j < Lanes ? n - j : Lanes;
    V sum[Rows] = {};
    int64_t p = 0;
    for (; columns == Lanes && p + 4 <= k; p += 4) {
      if (p % 16 == 0) {
        for (int l = 0; l < Lanes; ++l) __builtin_prefetch(from + (Lanes + l) * b_column + p);
      }
      V column[4];
      four_columns<Lanes>(from + p, b_column, column);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r) sum[r] += a[r * args.a_row + (p + i) * args.a_col] * column[i];
      }
    }
    for (; p < k; ++p) {
      float lane[Lanes] = {};
      for (int64_t l = 0; l < columns; ++l) lane[l] = from[l * b_column + p];
      V column;
      std::memcpy(&column, lane, sizeof(V));
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) sum[r] += a[r * args.a_row + p * args.a_col] * column;
    }
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      float lane[Lanes];
      std::memcpy(lane, &sum[r], sizeof(V));
      for (int64_t l = 0; l < columns; ++l) keep(r, j + l, lane[l]);
    }
  }
}

/// C[columns, rows] (+)= tileᵀ, for a tile [rows, columns] with rows `width` apart.
template <class T>
SPOOL_INLINE void turn_body(int64_t rows, int64_t columns, const T* tile, int64_t width, T* c, int64_t c_row, bool add) {
  using V = typename Quad<T>::Vector;
  for (int64_t j = 0; j < columns; j += 4) {
    for (int64_t i = 0; i < rows; i += 4) {
      const T* from = tile + i * width + j;
      T* to = c + j * c_row + i;
      if (rows - i >= 4 && columns - j >= 4) {
        V t[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) std::memcpy(&t[r], from + r * width, sizeof(V));
        transpose(t);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
          V old = {};
          if (add) std::memcpy(&old, to + r * c_row, sizeof(V));
          if (add) t[r] += old;
          std::memcpy(to + r * c_row, &t[r], sizeof(V));
        }
        continue;
      }
      for (int64_t q = 0; q < columns - j && q < 4; ++q) {
        for (int64_t r = 0; r < rows - i && r < 4; ++r) {
          T* element = to + q * c_row + r;
          *element = add ? *element + from[r * width + q] : from[r * width + q];
        }
      }
    }
  }
}

template <Activation A, class T, int Width>
SPOOL_INLINE void finish_with(int64_t rows, int64_t columns, T* c, int64_t c_row, const Finish<T>& f) {
  for (int64_t j = 0; j < columns; j += Width) {
    const int64_t w = columns - j < Width ? columns - j : Width;
    T bias[Width] = {}, z[Width] = {};
    if (f.bias) std::memcpy(bias, f.bias + j, static_cast<size_t>(w) * sizeof(T));
    for (int64_t i = 0; i < rows; ++i) {
      T* row = c + i * c_row + j;
      // Always a full width, so that an element's bits do not depend on where the matrix ends.
      if (w == Width)
        std::memcpy(z, row, sizeof(z));
      else
        std::memcpy(z, row, static_cast<size_t>(w) * sizeof(T));
      for (int q = 0; q < Width; ++q) z[q] += bias[q];
      if (f.pre) std::memcpy(f.pre + i * f.pre_row + j, z, static_cast<size_t>(w) * sizeof(T));
      T y[Width];
      for (int q = 0; q < Width; ++q) y[q] = activate<A>(z[q]);
      if (w == Width)
        std::memcpy(row, y, sizeof(y));
      else
        std::memcpy(row, y, static_cast<size_t>(w) * sizeof(T));
    }
  }
}

template <class T, int Width>
SPOOL_INLINE void finish_body(int64_t rows, int64_t columns, T* c, int64_t c_row, const Finish<T>& f) {
  switch (f.activation) {
    case Activation::none:
      return finish_with<Activation::none, T, Width>(rows, columns, c, c_row, f);
    case Activation::relu:
      return finish_with<Activation::relu, T, Width>(rows, columns, c, c_row, f);
    case Activation::gelu_erf:
      return finish_with<Activation::gelu_erf, T, Width>(rows, columns, c, c_row, f);
    case Activation::gelu_tanh:
      return finish_with<Activation::gelu_tanh, T, Width>(rows, columns, c, c_row, f);
    case Activation::silu:
      return finish_with<Activation::silu, T, Width>(rows, columns, c, c_row, f);
  }
}

// One level: every body above compiled for `target`, with `bytes` a vector and `mr` rows a tile.
#define SPOOL_GEMM_LEVEL(level, target, bytes, mr_)                                                                   \
  template <class T, int Rows, int Vectors, int Step, bool Copy>                                                      \
  target void tile_##level(const TileArgs<T>& args, const T* a, const T* b, T* c) {                                   \
    tile_body<T, bytes / sizeof(T), Rows, Vectors, Step, Copy>(args, a, b, c);                                        \
  }                                                                                                                   \
  template <int Rows>                                                                                                 \
  target void dots_##level(const TileArgs<float>& args, const float* a, const float* b, float* c, int64_t n) {        \
    dots_body<bytes / sizeof(float), Rows>(args, a, b, c, n);                                                         \
  }                                                                                                                   \
  template <class T, int Rows, int Step>                                                                              \
  target void whole_##level(const TileArgs<T>& args, const T* a, const T* b, T* c) {                                  \
    tile_body<T, bytes / sizeof(T), Rows, 2, Step, false, true>(args, a, b, c);                                       \
  }                                                                                                                   \
  template <class T>                                                                                                  \
  target void turn_##level(int64_t rows, int64_t columns, const T* tile, int64_t width, T* c, int64_t c_row, bool add) { \
    turn_body(rows, columns, tile, width, c, c_row, add);                                                             \
  }                                                                                                                   \
  template <class T>                                                                                                  \
  target void rows_##level(int64_t rows, const TileArgs<T>& args, const T* a, const T* b, T* c, int64_t n) {          \
    rows_body(rows, args, a, b, c, n);                                                                                \
  }                                                                                                                   \
  template <class T>                                                                                                  \
  target void finish_##level(int64_t rows, int64_t columns, T* c, int64_t c_row, const Finish<T>& f) {                \
    finish_body<T, 2 * bytes / sizeof(T)>(rows, columns, c, c_row, f);                                                \
  }                                                                                                                   \
  template <class In, class T, int W>                                                                                 \
  target void pack_##level(int64_t length, int64_t k, const void* source, int64_t stride, int64_t k_stride, T* out) { \
    pack<In, T, W>(length, k, source, stride, k_stride, out);                                                         \
  }                                                                                                                   \
  template <class T>                                                                                                  \
  Kernels<T> make_##level() {                                                                                         \
    constexpr int mr = mr_, nr = 2 * bytes / sizeof(T);                                                               \
    Kernels<T> set{};                                                                                                 \
    set.mr = mr;                                                                                                      \
    set.nr = nr;                                                                                                      \
    [&]<int... R>(std::integer_sequence<int, R...>) {                                                                 \
      ((set.tile[0][0][R + 1] = tile_##level<T, R + 1, 1, 0, false>, set.tile[0][1][R + 1] = tile_##level<T, R + 1, 2, 0, false>), ...); \
      ((set.tile[1][0][R + 1] = tile_##level<T, R + 1, 1, mr, false>, set.tile[1][1][R + 1] = tile_##level<T, R + 1, 2, mr, false>), ...); \
    }                                                                                                                 \
    (std::make_integer_sequence<int, mr>{});                                                                          \
    set.copying = tile_##level<T, mr, 2, mr, true>;                                                                   \
    set.whole = whole_##level<T, mr, mr>;                                                                             \
    set.turn = turn_##level<T>;                                                                                       \
    set.rows = rows_##level<T>;                                                                                       \
    set.finish = finish_##level<T>;                                                                                   \
    set.pack_a[native] = pack_##level<T, T, mr>;                                                                      \
    set.pack_b[native] = pack_##level<T, T, nr>;                                                                      \
    if constexpr (sizeof(T) == 4) {                                                                                   \
      [&]<int... R>(std::integer_sequence<int, R...>) { ((set.dots[R + 1] = dots_##level<R + 1>), ...); }             \
      (std::make_integer_sequence<int, few_rows>{});                                                                  \
      set.pack_a[from_bf16] = pack_##level<bfloat16, T, mr>;                                                          \
      set.pack_b[from_bf16] = pack_##level<bfloat16, T, nr>;                                                          \
      set.pack_a[from_f16] = pack_##level<float16, T, mr>;                                                            \
      set.pack_b[from_f16] = pack_##level<float16, T, nr>;                                                            \
    }                                                                                                                 \
    return set;                                                                                                       \
  }

SPOOL_GEMM_LEVEL(base, , 16, 6)
#if SPOOL_HAS_ISA_LEVELS
SPOOL_GEMM_LEVEL(v3, __attribute__((target("arch=x86-64-v3"))), 32, 6)
SPOOL_GEMM_LEVEL(v4, SPOOL_V4, 64, 12)
#endif
#undef SPOOL_GEMM_LEVEL

#if SPOOL_HAS_ISA_LEVELS
/// Whether the compiler makes one operation of x · y + z: not when it optimizes little. All kernels must, or none.
[[gnu::noipa]] SPOOL_V4 bool fuses(float x, float y, float z) { return x * y + z != 0; }
#endif

template <class T>
Kernels<T> choose() {
#if SPOOL_HAS_ISA_LEVELS
  __builtin_cpu_init();
  if (runs_v4()) {
    Kernels<T> set = make_v4<T>();
    constexpr float x = 1 + 0x1p-12f;
    if (!fuses(x, x, -(1 + 0x1p-11f))) set.whole = set.tile[1][1][set.mr];  // x² = 1 + 2⁻¹¹ + 2⁻²⁴, whose last bit only fusing keeps
    return set;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return make_v3<T>();
#endif
  return make_base<T>();
}

}  // namespace

template <class T>
const Kernels<T>& kernels() {
  static const Kernels<T> chosen = choose<T>();
  return chosen;
}
template const Kernels<float>& kernels();
template const Kernels<double>& kernels();

}  // namespace spool::kernels::detail
