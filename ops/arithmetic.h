#pragma once
// Arithmetic and comparison of two tensors, element by element. Shapes broadcast by NumPy's rule (through `expand`); element types must be
// equal: mixing them is a DtypeError that says how to convert. C++ numbers are weak: they take the tensor's type.
#include <spool/tensor/tensor.h>

namespace spool {

Tensor add(const Tensor& a, const Tensor& b);  ///< a + b, any numeric type. Keeps nothing.
Tensor sub(const Tensor& a, const Tensor& b);  ///< a − b, any numeric type. Keeps nothing.
Tensor mul(const Tensor& a, const Tensor& b);  ///< a·b, any numeric type. Keeps the factor of each input that wants a gradient.
Tensor div(const Tensor& a, const Tensor& b);  ///< a/b, float types. Keeps b, and the output when b wants a gradient.
Tensor pow(const Tensor& a, const Tensor& b);  ///< aᵇ, float types. Keeps the inputs, and the output when b wants a gradient.
/// The larger / smaller element. Where both are equal each gets half of the gradient. Float types; keeps both inputs.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

Tensor add(const Tensor& a, double b);  ///< a + b. Keeps nothing.
Tensor mul(const Tensor& a, double b);  ///< a·b. Keeps nothing.
Tensor pow(const Tensor& a, double b);  ///< aᵇ. Keeps a.

/// Comparisons give bool and no gradient.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b);  ///< Of bool tensors.
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& a);
Tensor isnan(const Tensor& x);     ///< bool.
Tensor isfinite(const Tensor& x);  ///< bool: neither infinite nor NaN.

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(const Tensor& a, double b) { return add(a, -b); }
inline Tensor operator-(double a, const Tensor& b) { return add(mul(b, -1), a); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(const Tensor& a, double b) { return mul(a, 1 / b); }
Tensor operator/(double a, const Tensor& b);
inline Tensor operator-(const Tensor& a) { return mul(a, -1); }

}  // namespace spool
