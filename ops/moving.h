#pragma once
// Elements moved, repeated, left out or joined by constants. All types; they keep nothing, but pad in modes other than constant keeps
// positions, 8 bytes an element of each axis that it pads. Axes may be negative; one that is out of range throws ShapeError.
#include <spool/tensor/tensor.h>

#include <vector>

namespace spool {

/// Element i along the axis moves to (i + shift) mod n, so roll of [1, 2, 3] by 1 is [3, 1, 2]. Negative shifts move to the front.
Tensor roll(const Tensor& x, int64_t shift, int axis = -1);
/// The same along several axes, one shift for each (ShapeError when the numbers differ).
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& axes);

enum class PadMode {
  constant,  ///< `value` all around.
  edge,      ///< The nearest element (PyTorch's replicate).
  reflect,   ///< The elements mirrored at the first and last one, which are not repeated. Widths must be less than the size.
  wrap,      ///< The elements from the other end (PyTorch's circular). Widths must not exceed the size.
};
struct PadWidth {
  int64_t before = 0, after = 0;
};
struct PadOptions {
  PadMode mode = PadMode::constant;
  double value = 0;  ///< Of constant mode; takes the tensor's type.
};
/// x with `before` elements more at the start and `after` at the end of each axis: one width an axis, as NumPy has them. Negative widths of
/// constant mode leave elements out. The gradient of an element is the sum over its copies. Throws ShapeError when the number of widths is
/// not that of the axes, when widths of the other modes are negative or the axis is too short for them.
Tensor pad(const Tensor& x, const std::vector<PadWidth>& widths, PadOptions options = {});
/// The same along one axis.
Tensor pad(const Tensor& x, int axis, PadWidth width, PadOptions options = {});

/// Windows along an axis, as a view: element [… w … , k] is x[… w·step + k …]. The axis becomes (n - size) / step + 1 long, and a new last
/// axis of `size` holds a window. The gradient adds up overlaps in one pass. Throws ShapeError when step < 1, size < 0 or size > n.
Tensor unfold(const Tensor& x, int axis, int64_t size, int64_t step = 1);

/// The last two axes with zeros above (below) a diagonal: tril keeps [i, j] where j - i ≤ diagonal, triu where j - i ≥ diagonal. Needs two
/// axes (ShapeError).
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);

/// The elements [i, i + offset] of two axes as a new last axis, in place of both: a view. Negative offsets lie below the diagonal. Throws
/// ShapeError when both axes are the same.
Tensor diagonal(const Tensor& x, int64_t offset = 0, int axis1 = -2, int axis2 = -1);
/// Square matrices in two new last axes: the last axis of x on a diagonal, zeros elsewhere. [n] gives [n + |offset|, n + |offset|].
Tensor diag_embed(const Tensor& x, int64_t offset = 0);
/// diag_embed of a vector, diagonal (a view) of a matrix; ShapeError otherwise.
Tensor diag(const Tensor& x, int64_t offset = 0);

/// x repeated `repeats` times along the axis: [1, 2] gives [1, 2, 1, 2]. Throws ShapeError when repeats < 0.
Tensor tile(const Tensor& x, int64_t repeats, int axis = -1);
/// Each element repeated along the axis: [1, 2] gives [1, 1, 2, 2]. Throws ShapeError when repeats < 0.
Tensor repeat_interleave(const Tensor& x, int64_t repeats, int axis = -1);

}  // namespace spool
