#pragma once
// Private to gemm: the innermost code of the matrix product, one set for each instruction-set level.
//
// The micro-kernel holds a tile of C, up to `mr` rows by `nr` columns, in vector registers and runs over k. For each p it loads one row
// of the B strip, broadcasts one element of each A row and does mr × 2 fused multiply-adds. Every element of the tile is a plain chain
// over p, so its bits depend neither on the tile it fell in nor on its place there. A is addressed by row and column strides (a packed
// strip has row stride 1 and column stride mr), so it may also be read where it lies; B rows must be contiguous.
//
//            lanes × 2 = nr
//   p ->   [ b b b b b b b b ]     B strip [k, nr]
//  a a a   [ c c c c c c c c ]
//  a a a   [ c c c c c c c c ]     tile of C, in registers
//  A strip [k, mr]
#include <cstddef>
#include <cstdint>

#include <spool/ops/cpu/activations.h>
#include <spool/tensor/dtype.h>

namespace spool::kernels::detail {

inline constexpr int max_mr = 12;  ///< Largest mr of any level; packed A is sized in multiples of it.
inline constexpr int max_nr = 32;  ///< Largest nr of any level; packed B is sized in multiples of it.

/// What the tiles of one block have in common.
template <class T>
struct TileArgs {
  int64_t k;
  int64_t a_row, a_col;  ///< Strides of A, in elements.
  int64_t b_row;         ///< Stride between rows of the B strip.
  int64_t c_row;
  T alpha;
  bool add;           ///< C += alpha·AB instead of C = alpha·AB.
  T* copy = nullptr;  ///< Where `copying` leaves the strip of B, packed.
};

/// What happens to an element of C once its sum is complete.
template <class T>
struct Finish {
  const T* bias = nullptr;  ///< [n] or null, at the first column of the block.
  Activation activation = Activation::none;
  T* pre = nullptr;  ///< Where AB + bias goes before the activation, or null; at the first element of the block.
  int64_t pre_row = 0;
  bool idle() const { return !bias && activation == Activation::none && !pre; }
};

inline constexpr int64_t few_rows = 8;
inline constexpr int64_t few_rows_bytes = 16 * 1024;

/// One level's functions.
template <class T>
struct Kernels {
  using Tile = void (*)(const TileArgs<T>&, const T* a, const T* b, T* c);
  using Pack = void (*)(int64_t length, int64_t k, const void* source, int64_t stride, int64_t k_stride, T* target);

  int mr, nr;
  Tile tile[2][2][max_mr + 1];  ///< [A is packed][columns > nr / 2][rows]: half a strip's width has tiles of its own.
  Tile whole;  ///< A whole tile, [mr, nr], of a packed A and a packed B.
  Tile copying;                 ///< A whole tile, [mr, nr], of a packed A that also packs the strip of B on its way.
  /// C[columns, rows] (+)= tileᵀ for a tile [rows, columns] whose rows lie `width` apart.
  void (*turn)(int64_t rows, int64_t columns, const T* tile, int64_t width, T* c, int64_t c_row, bool add);
  /// C[rows,n] (+)= alpha · A[rows,k] B[k,n] for few rows, rows × n × sizeof(T) ≤ few_rows_bytes: streams over whole rows of B, which may
  /// lie in memory, with the sums in the first-level cache. Same bits as the tiles.
  void (*rows)(int64_t rows, const TileArgs<T>&, const T* a, const T* b, T* c, int64_t n);
  /// C[rows, n] (+)= alpha · A[rows, k] B[k, n] where each column of B is contiguous, `b_row` elements from the next; indexed by rows; for
  /// float only. Reads B once, where it lies. Same bits as the tiles.
  void (*dots[few_rows + 1])(const TileArgs<T>&, const T* a, const T* b, T* c, int64_t n);
  void (*finish)(int64_t rows, int64_t columns, T* c, int64_t c_row, const Finish<T>&);
  /// Cut [length, k] into strips of mr (for A) or nr (for B), each stored as [k][width] and zero-padded. Indexed by `source_kind`.
  Pack pack_a[3], pack_b[3];
};

/// The best set that this machine runs; chosen once.
template <class T>
const Kernels<T>& kernels();

enum SourceKind { native, from_bf16, from_f16 };
template <class T>
inline constexpr SourceKind source_kind = native;
template <>
inline constexpr SourceKind source_kind<bfloat16> = from_bf16;
template <>
inline constexpr SourceKind source_kind<float16> = from_f16;

}  // namespace spool::kernels::detail
