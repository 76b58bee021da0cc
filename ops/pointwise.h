#pragma once
// Elementwise functions of one tensor. The result has the shape and type of the argument. Unless said otherwise the argument must be a
// float type (DtypeError), bf16 and f16 are computed in f32, and NaN gives NaN.
#include <spool/ops/activation.h>
#include <spool/tensor/tensor.h>

namespace spool {

// "Keeps": what stays in memory for backward.

Tensor neg(const Tensor& x);         ///< -x. Also integers. Keeps nothing.
Tensor abs(const Tensor& x);         ///< |x|, derivative 0 at 0. Also integers. Keeps x.
Tensor sign(const Tensor& x);        ///< -1, 0 or 1. Also integers. Derivative 0. Keeps nothing.
Tensor square(const Tensor& x);      ///< x². Also integers. Keeps x.
Tensor exp(const Tensor& x);         ///< eˣ. Keeps the result.
Tensor expm1(const Tensor& x);       ///< eˣ - 1, accurate near 0. Keeps the result.
Tensor log(const Tensor& x);         ///< Natural logarithm; -inf at 0, NaN below. Keeps x.
Tensor log1p(const Tensor& x);       ///< log(1 + x), accurate near 0. Keeps x.
Tensor sqrt(const Tensor& x);        ///< √x; NaN below 0, derivative inf at 0. Keeps the result.
Tensor rsqrt(const Tensor& x);       ///< 1/√x. Keeps the result.
Tensor reciprocal(const Tensor& x);  ///< 1/x. Keeps the result.
Tensor sin(const Tensor& x);         ///< Keeps x.
Tensor cos(const Tensor& x);         ///< Keeps x.
Tensor tanh(const Tensor& x);        ///< Keeps the result.
Tensor erf(const Tensor& x);         ///< 2/√π ∫₀ˣ e^{-t²} dt. Keeps x.
Tensor floor(const Tensor& x);       ///< Largest integer ≤ x. Derivative 0. Keeps nothing.
Tensor ceil(const Tensor& x);        ///< Smallest integer ≥ x. Derivative 0. Keeps nothing.
Tensor round(const Tensor& x);       ///< Nearest integer, halves to even. Derivative 0. Keeps nothing.

}  // namespace spool
