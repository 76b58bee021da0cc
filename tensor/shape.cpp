#include <spool/tensor/ambient.h>
#include <spool/tensor/error.h>
#include <spool/tensor/shape.h>

#include <algorithm>

namespace spool {

Dims::Dims(std::span<const int64_t> values) : size_(int(values.size())) {
  if (values.size() > max_dims) fail<ShapeError>("shape: at most ", max_dims, " dimensions, got ", values.size());
  std::copy(values.begin(), values.end(), values_.begin());
}

Dims::Dims(int size, int64_t value) : size_(size) {
  if (size > max_dims) fail<ShapeError>("shape: at most ", max_dims, " dimensions, got ", size);
  std::fill_n(values_.begin(), size, value);
}

void Dims::push_back(int64_t value) { insert(size_, value); }

void Dims::insert(int at, int64_t value) {
  if (size_ == max_dims) fail<ShapeError>(*ambient().op ? ambient().op : "shape", ": at most ", max_dims, " dimensions, cannot add one to ", *this);
  std::copy_backward(begin() + at, end(), end() + 1);
  values_[size_t(at)] = value;
  ++size_;
}

void Dims::erase(int at) {
  std::copy(begin() + at + 1, end(), begin() + at);
  --size_;
}

bool Dims::operator==(const Dims& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

int64_t numel(const Shape& shape) {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

std::string to_string(const Dims& dims) {
  std::string out = "[";
  for (int i = 0; i < dims.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(dims[i]);
  }
  return out + "]";
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.size(), 1);
  for (int i = shape.size() - 2; i >= 0; --i) strides[i] = strides[i + 1] * std::max<int64_t>(shape[i + 1], 1);
  return strides;
}

int normalize_axis(std::string_view op, int axis, const Shape& shape) {
  const int dims = shape.size();
  if (axis < -dims || axis >= dims) fail<ShapeError>(op, ": axis ", axis, " is out of range for shape ", shape);
  return axis < 0 ? axis + dims : axis;
}

Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b) {
  const int dims = std::max(a.size(), b.size());
  Shape out(dims, 1);
  for (int i = 1; i <= dims; ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1, y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) fail<ShapeError>(op, ": shapes ", a, " and ", b, " do not broadcast");
    out[dims - i] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace spool
