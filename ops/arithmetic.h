#pragma once
// Elementwise functions of two tensors of one type. Shapes broadcast as in NumPy: aligned at the end, 1 stretches. Types do not mix: f32
// with f64 throws DtypeError (convert with cast()); shapes that do not broadcast throw ShapeError naming both. bf16 and f16 compute in f32.
#include <spool/ops/scalar.h>
#include <spool/tensor/tensor.h>

namespace spool {

Tensor add(const Tensor& a, const Tensor& b);  ///< a + b. Also integers. Keeps nothing.
Tensor sub(const Tensor& a, const Tensor& b);  ///< a - b. Also integers. Keeps nothing.
Tensor mul(const Tensor& a, const Tensor& b);  ///< a · b. Also integers. Keeps b if a wants a gradient, a if b does.
Tensor div(const Tensor& a, const Tensor& b);  ///< a / b, float types only. Keeps b, and the result if b wants a gradient.
Tensor pow(const Tensor& a, const Tensor& b);  ///< a^b, float types only. Keeps a and b, and the result if b wants a gradient.
Tensor minimum(const Tensor& a,
               const Tensor& b);  ///< The smaller; NaN if either is. At a tie each side gets half of the gradient. Keeps both.
Tensor maximum(const Tensor& a,
               const Tensor& b);  ///< The larger; NaN if either is. At a tie each side gets half of the gradient. Keeps both.

/// a + b and a · b with a number, which takes the tensor's type.
inline Tensor add(const Tensor& a, double b) { return add_scalar(a, b); }
inline Tensor mul(const Tensor& a, double b) { return mul_scalar(a, b); }

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }

// Comparisons: any type, the result is bool. NaN is unequal to everything and neither less nor greater.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
// The same against a number, which takes the tensor's type.
Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);

inline Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, double b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, double b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, double b) { return greater_equal(a, b); }

Tensor logical_and(const Tensor& a, const Tensor& b);  ///< Of two bool tensors.
Tensor logical_or(const Tensor& a, const Tensor& b);   ///< Of two bool tensors.
Tensor logical_not(const Tensor& x);                   ///< Of a bool tensor.
Tensor isnan(const Tensor& x);                         ///< bool: is NaN.
Tensor isfinite(const Tensor& x);                      ///< bool: neither infinite nor NaN.

Tensor operator-(const Tensor& x);  ///< neg(x).

}  // namespace spool
