#pragma once
// Shapes and strides: up to eight int64 dimensions, stored inline.
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace spool {

inline constexpr int max_dims = 8;

/// A small inline vector of int64. Shape and Strides are both of this type.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const int64_t> values);
  Dims(int size, int64_t value);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](int i) const { return values_[size_t(i)]; }
  int64_t& operator[](int i) { return values_[size_t(i)]; }
  int64_t back() const { return values_[size_t(size_ - 1)]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + size_; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + size_; }
  void push_back(int64_t value);
  void insert(int at, int64_t value);
  void erase(int at);
  bool operator==(const Dims& other) const;

 private:
  std::array<int64_t, max_dims> values_{};
  int size_ = 0;
};

using Shape = Dims;
using Strides = Dims;  ///< In elements, not bytes.

int64_t numel(const Shape& shape);             ///< Product of the sizes; 1 for [].
std::string to_string(const Dims& dims);       ///< "[8, 128, 64]".
Strides contiguous_strides(const Shape& shape);  ///< Row-major strides.

/// An axis in [-dims, dims) as one in [0, dims); otherwise throws ShapeError naming `op`, the axis and the shape.
int normalize_axis(std::string_view op, int axis, const Shape& shape);

/// The shape to which both broadcast (NumPy's rule: align at the end, 1 stretches). Throws ShapeError naming `op` and both shapes.
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b);

}  // namespace spool
