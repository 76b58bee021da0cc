#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>
#include <spool/tensor/tensor.h>

namespace spool {
namespace {

const TensorBody& checked(const Ref<TensorBody>& body) {
  if (!body) fail<Error>("tensor: undefined; assign it before use");
  return *body;
}

Tensor make(Storage storage, const Shape& shape, const Strides& strides, int64_t offset, Dtype dtype) {
  Ref<TensorBody> body(new TensorBody);
  body->storage = std::move(storage);
  body->shape = shape;
  body->strides = strides;
  body->offset = offset;
  body->dtype = dtype;
  return Tensor(std::move(body));
}

/// Throws when positions in this shape, or its bytes, need more than 64 bits: what follows may count in int64_t.
void check_countable(const char* what, const Shape& shape, Dtype dtype) {
  auto bytes = int64_t(dtype_size(dtype));
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes))
      fail<ShapeError>(*ambient().op ? ambient().op : what, ": shape ", shape, " of ", dtype_name(dtype), " has more bytes than 64 bits count");
}

}  // namespace

const Shape& Tensor::shape() const { return checked(body_).shape; }
int64_t Tensor::size(int axis) const { return shape()[normalize_axis("size", axis, shape())]; }
int64_t Tensor::numel() const { return spool::numel(shape()); }
const Strides& Tensor::strides() const { return checked(body_).strides; }
int64_t Tensor::offset() const { return checked(body_).offset; }
Dtype Tensor::dtype() const { return checked(body_).dtype; }
Device Tensor::device() const { return checked(body_).storage->device; }
const Storage& Tensor::storage() const { return checked(body_).storage; }

bool Tensor::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (int i = dims() - 1; i >= 0; --i) {
    if (shape()[i] != 1 && strides()[i] != expected) return false;
    expected *= shape()[i];
  }
  return true;
}

void* Tensor::raw() const {
  const TensorBody& body = checked(body_);
  return body.storage->data ? body.storage->data + body.offset * int64_t(dtype_size(body.dtype)) : nullptr;
}

void* Tensor::checked_data(Dtype expected) const {
  if (dtype() != expected) fail<DtypeError>("data: the tensor is ", dtype_name(dtype()), ", read as ", dtype_name(expected));
  if (device().meta) fail<PlanError>("data: the tensor is on ", device(), " and has no bytes");
  if (device().type != DeviceType::cpu) fail<DeviceError>("data: the tensor is on ", device(), "; copy it to the cpu first");
  return raw();
}

double Tensor::item() const {
  if (numel() != 1) fail<ShapeError>("item: needs exactly one element, got shape ", shape());
  if (device().meta) fail<PlanError>("item: a planned step has no values; take the value outside of the step");
  return to_vector<double>()[0];
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  std::vector<T> out(static_cast<size_t>(numel()));
  if (device().meta) fail<PlanError>("to_vector: a planned step has no values; read them outside of the step");
  const Tensor dense = is_contiguous() ? *this : contiguous_copy(*this);
  visit(dtype(), [&]<class S>() {
    const S* source = static_cast<const S*>(dense.raw());
    for (size_t i = 0; i < out.size(); ++i) {
      if constexpr (std::is_same_v<S, bfloat16> || std::is_same_v<S, float16>) out[i] = T(float(source[i]));
      else out[i] = T(source[i]);
    }
  });
  return out;
}
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<int64_t> Tensor::to_vector() const;
template std::vector<int32_t> Tensor::to_vector() const;
template std::vector<uint8_t> Tensor::to_vector() const;
template std::vector<bool> Tensor::to_vector() const;

bool Tensor::requires_grad() const { return checked(body_).slot.requires_grad; }

const Tensor& Tensor::requires_grad(bool on) const {
  if (on && !is_float(dtype())) fail<DtypeError>("requires_grad: only float tensors have gradients, this one is ", dtype_name(dtype()));
  checked(body_);
  body_->slot.requires_grad = on;
  return *this;
}

const Tensor& Tensor::grad() const { return checked(body_).grad; }

void Tensor::set_grad(Tensor gradient) const {
  if (gradient.defined() && gradient.shape() != shape()) fail<ShapeError>("set_grad: gradient ", gradient.shape(), " for a tensor ", shape());
  checked(body_);
  body_->grad = std::move(gradient);
}

Tensor Tensor::detach() const { return make(storage(), shape(), strides(), offset(), dtype()); }

Tensor Tensor::view_as(Shape new_shape, Strides new_strides, int64_t new_offset) const {
  check_countable("view_as", new_shape, dtype());
  int64_t low = new_offset, high = new_offset;
  for (int i = 0; i < new_shape.size(); ++i) (new_strides[i] < 0 ? low : high) += std::max<int64_t>(new_shape[i] - 1, 0) * new_strides[i];
  const int64_t capacity = storage()->bytes / int64_t(dtype_size(dtype()));
  if (spool::numel(new_shape) > 0 && (low < 0 || high >= capacity)) {
    fail<ShapeError>("view_as: shape ", new_shape, " with strides ", new_strides, " and offset ", new_offset, " leaves the storage of ", capacity, " elements");
  }
  return make(storage(), new_shape, new_strides, new_offset, dtype());
}

std::string to_string(const Meta& m) { return concat(dtype_name(m.dtype), m.shape); }

Tensor empty(const Shape& shape, Dtype dtype, Device device) {
  for (int64_t size : shape)
    if (size < 0) fail<ShapeError>(ambient().op, *ambient().op ? ": " : "empty: ", "negative size in shape ", shape);
  check_countable("empty", shape, dtype);
  Storage storage(new StorageBody(numel(shape) * int64_t(dtype_size(dtype)), device));
  return make(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

Tensor full(const Shape& shape, double value, Dtype dtype, Device device) {
  Tensor out = empty(shape, dtype, device);
  fill(out, value);
  return out;
}

Tensor zeros(const Shape& shape, Dtype dtype, Device device) { return full(shape, 0, dtype, device); }
Tensor ones(const Shape& shape, Dtype dtype, Device device) { return full(shape, 1, dtype, device); }
Tensor zeros_view(const Shape& shape, Dtype dtype, Device device) { return zeros({1}, dtype, device).view_as(shape, Strides(shape.size(), 0), 0); }

Tensor arange(int64_t n, Dtype dtype, int64_t start, Device device) {
  Tensor out = empty({n}, dtype, device);
  if (!device.meta) {
    visit(dtype, [&]<class T>() {
      T* to = static_cast<T*>(out.raw());
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(start + i);
    });
  }
  return out;
}

namespace {
template <class S>
Tensor from_values(std::span<const S> values, const std::optional<Shape>& shape, Dtype dtype) {
  const Shape target = shape.value_or(Shape{int64_t(values.size())});
  if (numel(target) != int64_t(values.size())) fail<ShapeError>("from: ", values.size(), " values do not fill shape ", target);
  Tensor out = empty(target, dtype);
  visit(dtype, [&]<class T>() {
    T* to = static_cast<T*>(out.raw());
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<T>(values[i]);
  });
  return out;
}
}  // namespace

Tensor from(std::span<const double> values, std::optional<Shape> shape, Dtype dtype) { return from_values(values, shape, dtype); }
Tensor from(std::initializer_list<double> values, std::optional<Shape> shape, Dtype dtype) {
  return from_values(std::span<const double>(values.begin(), values.size()), shape, dtype);
}
Tensor from(std::span<const int64_t> values, std::optional<Shape> shape, Dtype dtype) { return from_values(values, shape, dtype); }

Tensor from(std::initializer_list<std::initializer_list<double>> rows, Dtype dtype) {
  std::vector<double> values;
  for (const auto& row : rows) {
    if (row.size() != rows.begin()->size()) fail<ShapeError>("from: rows of ", rows.begin()->size(), " and ", row.size(), " values");
    values.insert(values.end(), row.begin(), row.end());
  }
  const auto columns = rows.size() ? int64_t(rows.begin()->size()) : 0;
  return from_values(std::span<const double>(values), Shape{int64_t(rows.size()), columns}, dtype);
}

Tensor scalar(double value, Dtype dtype) { return full({}, value, dtype); }

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "undefined";
  std::string out = to_string(meta_of(t));
  if (t.device().meta) return out + " on " + to_string(t.device());
  out += " {";
  constexpr int64_t shown = 8;
  const auto values = t.to_vector<double>();
  for (int64_t i = 0; i < std::min(shown, t.numel()); ++i) out += concat(i ? ", " : "", values[size_t(i)]);
  return out + (t.numel() > shown ? ", …}" : "}");
}

}  // namespace spool
