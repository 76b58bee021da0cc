#pragma once
// Tensor: a handle to strided elements in a storage. Copying a handle never copies data.
#include <spool/tensor/device.h>
#include <spool/tensor/dtype.h>
#include <spool/tensor/shape.h>
#include <spool/tensor/storage.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace spool {

struct TensorBody;

/// An n-dimensional array: storage, offset, shape, strides, dtype and an autograd slot. A default-constructed Tensor is undefined: it
/// stands for "none" where an argument is optional. Handles that are copies of each other are the same tensor to the tape.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorBody> body) : body_(std::move(body)) {}

  bool defined() const { return bool(body_); }
  const Shape& shape() const;
  int64_t size(int axis) const;  ///< Size along an axis; negative axes count from the end.
  int dims() const { return shape().size(); }
  int64_t numel() const;
  const Strides& strides() const;  ///< In elements.
  int64_t offset() const;          ///< In elements from the start of the storage.
  Dtype dtype() const;
  Device device() const;
  const Storage& storage() const;
  bool is_contiguous() const;
  int64_t nbytes() const { return numel() * int64_t(dtype_size(dtype())); }

  /// Pointer to the first element. Throws DtypeError when T is not the element type, DeviceError when the bytes are not on this host.
  template <class T>
  T* data() const { return static_cast<T*>(checked_data(dtype_of<T>)); }
  void* raw() const;  ///< As `data`, whatever the type; null for meta and zero-size tensors.

  /// The only element as a double. Throws ShapeError unless numel() == 1, PlanError on meta (a plan has no values to branch on).
  double item() const;
  /// All elements in row-major order, converted to T (T: float, double, int64_t, int32_t, uint8_t, bool).
  template <class T>
  std::vector<T> to_vector() const;

  /// Whether backward should give this tensor a gradient. Set on leaves; computed tensors inherit it through the tape.
  bool requires_grad() const;
  const Tensor& requires_grad(bool on) const;
  /// The accumulated gradient of a leaf, undefined before backward.
  const Tensor& grad() const;
  void set_grad(Tensor gradient) const;

  Tensor detach() const;  ///< The same elements, unknown to the tape.
  /// Another view of the same storage, unknown to the tape. Shape and strides must stay inside the storage.
  Tensor view_as(Shape shape, Strides strides, int64_t offset) const;

  TensorBody* body() const { return body_.get(); }
  bool operator==(const Tensor&) const = delete;

 private:
  void* checked_data(Dtype expected) const;
  Ref<TensorBody> body_;
};

using Tensors = std::vector<Tensor>;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;  ///< Parameters, states, the contents of a file: an ordered list.

/// What the tape knows of a tensor: the node and output that made it, on the tape with that number.
struct AutogradSlot {
  uint64_t tape = 0;  ///< 0: made outside of any tape.
  int32_t node = -1;
  int32_t output = 0;
  bool requires_grad = false;
};

struct TensorBody {
  std::atomic<int> references = 0;
  Storage storage;
  Shape shape;
  Strides strides;
  int64_t offset = 0;
  Dtype dtype = Dtype::f32;
  AutogradSlot slot;
  Tensor grad;
};

/// Shape, element type and device: what is known of a tensor before it has bytes.
struct Meta {
  Shape shape;
  Dtype dtype = Dtype::f32;
  Device device = cpu;
  bool defined = true;  ///< False for an optional input that was not given.
  bool operator==(const Meta&) const = default;
  int64_t nbytes() const { return spool::numel(shape) * int64_t(dtype_size(dtype)); }
};
using Metas = std::vector<Meta>;
inline Meta meta_of(const Tensor& t) { return t.defined() ? Meta{t.shape(), t.dtype(), t.device()} : Meta{.defined = false}; }
std::string to_string(const Meta& m);  ///< "f32[8, 64]".

/// Uninitialised elements. Throws ShapeError on negative sizes.
Tensor empty(const Shape& shape, Dtype dtype = Dtype::f32, Device device = cpu);
inline Tensor empty(const Meta& m) { return empty(m.shape, m.dtype, m.device); }
Tensor zeros(const Shape& shape, Dtype dtype = Dtype::f32, Device device = cpu);
Tensor ones(const Shape& shape, Dtype dtype = Dtype::f32, Device device = cpu);
Tensor full(const Shape& shape, double value, Dtype dtype = Dtype::f32, Device device = cpu);
/// Zeros of this shape that occupy one element (all strides 0). For constants; not for writing.
Tensor zeros_view(const Shape& shape, Dtype dtype = Dtype::f32, Device device = cpu);
/// [0, 1, …, n-1] + start.
Tensor arange(int64_t n, Dtype dtype = Dtype::i64, int64_t start = 0, Device device = cpu);
/// A tensor with these values: `from({1, 2, 3})` is f32[3], `from(values, {2, 3}, Dtype::f64)`.
Tensor from(std::span<const double> values, std::optional<Shape> shape = {}, Dtype dtype = Dtype::f32);
Tensor from(std::initializer_list<double> values, std::optional<Shape> shape = {}, Dtype dtype = Dtype::f32);
Tensor from(std::span<const int64_t> values, std::optional<Shape> shape = {}, Dtype dtype = Dtype::i64);
/// Rows of a matrix: `from({{1, 2}, {3, 4}})`.
Tensor from(std::initializer_list<std::initializer_list<double>> rows, Dtype dtype = Dtype::f32);
Tensor scalar(double value, Dtype dtype = Dtype::f32);

/// Type, shape and the first elements: "f32[2, 3] {1, 2, 3, …}".
std::string to_string(const Tensor& t);

}  // namespace spool
