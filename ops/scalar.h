#pragma once
// A tensor and a C++ number. The number takes the tensor's type ("weak"): f32 stays f32, bf16 stays bf16 (computed in f32). An integer
// tensor takes whole numbers only; a fraction throws DtypeError.
#include <spool/tensor/tensor.h>

namespace spool {

Tensor add_scalar(const Tensor& x, double value);   ///< x + value. Keeps nothing.
Tensor rsub_scalar(double value, const Tensor& x);  ///< value - x. Keeps nothing.
Tensor mul_scalar(const Tensor& x, double value);   ///< x · value. Keeps nothing.
Tensor div_scalar(const Tensor& x, double value);   ///< x / value, float types only. Keeps nothing.
Tensor pow(const Tensor& x, double exponent);       ///< x^exponent, float types only. Keeps x. d/dx is 0 where the exponent is 0.
/// x limited to [low, high]; NaN stays. Also integers. Derivative 1 where low ≤ x ≤ high, else 0. Keeps x. Throws Error when low > high.
Tensor clamp(const Tensor& x, double low, double high);

inline Tensor operator+(const Tensor& x, double value) { return add_scalar(x, value); }
inline Tensor operator+(double value, const Tensor& x) { return add_scalar(x, value); }
inline Tensor operator-(const Tensor& x, double value) { return add_scalar(x, -value); }
inline Tensor operator-(double value, const Tensor& x) { return rsub_scalar(value, x); }
inline Tensor operator*(const Tensor& x, double value) { return mul_scalar(x, value); }
inline Tensor operator*(double value, const Tensor& x) { return mul_scalar(x, value); }
inline Tensor operator/(const Tensor& x, double value) { return div_scalar(x, value); }
Tensor operator/(double value, const Tensor& x);  ///< value · reciprocal(x).

}  // namespace spool
