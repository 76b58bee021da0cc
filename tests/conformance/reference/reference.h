#pragma once
// What each op's values are compared with: naive formulas in double, written without looking at the kernels. Every op has an entry; an op
// without one fails. Ops whose attributes are private are called through their public function, and the entry proves that the op ran.
#include "../../each_index.h"
#include "../support.h"

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace spool::test {

using Numbers = std::vector<double>;

/// An f64 tensor as numbers with indices.
struct Array {
  Numbers values;
  Shape shape;
  Array() = default;
  explicit Array(const Tensor& t) : values(t.to_vector<double>()), shape(t.shape()) {}
  explicit Array(Shape s, double value = 0) : values(size_t(numel(s)), value), shape(std::move(s)) {}
  double& at(std::initializer_list<int64_t> index) { return values[place(index)]; }
  double at(std::initializer_list<int64_t> index) const { return values[place(index)]; }
  size_t place(std::initializer_list<int64_t> index) const {
    int64_t place = 0;
    int axis = 0;
    for (const int64_t i : index) place = place * shape[axis++] + i;
    return size_t(place);
  }
  int64_t size(int axis) const { return shape[axis < 0 ? axis + shape.size() : axis]; }
  /// The last axis and the number of rows along it.
  int64_t columns() const { return shape.back(); }
  int64_t rows() const { return columns() ? int64_t(values.size()) / columns() : numel(Shape(std::span(shape.begin(), size_t(shape.size() - 1)))); }
};

/// The element at these indices.
inline double look_up(const Array& a, const Shape& at) {
  int64_t place = 0;
  for (int axis = 0; axis < at.size(); ++axis) place = place * a.shape[axis] + at[axis];
  return a.values[size_t(place)];
}

/// Collects what is wrong while an entry runs, and which ops ran.
class Comparison {
 public:
  explicit Comparison(std::string op) : op_(std::move(op)) {}
  /// Both agree to `tolerance`, relative to the larger of 1 and the element.
  void expect(const std::string& label, const Tensor& got, const Array& expected, double tolerance = 1e-12);
  void expect(const std::string& label, const Tensor& got, const Numbers& expected, double tolerance = 1e-12);
  Rng& rng() { return rng_; }
  const std::string& op() const { return op_; }
  const std::string& text() const { return text_; }

 private:
  std::string op_, text_;
  Rng rng_{17};
};

using Reference = std::function<void(Comparison&)>;
std::map<std::string, Reference>& references();
/// `const bool added = add_references({{"exp", …}, …});`
bool add_references(std::initializer_list<std::pair<const char*, Reference>> entries);

/// Entries that run on the op's own samples: y[i] = f(x[i]), f(a[i], b[i]), and of all inputs of a sample.
Reference of_samples(std::function<std::vector<Array>(const std::vector<Array>&)> f, double tolerance = 1e-12);
Reference elementwise(double (*f)(double), double tolerance = 1e-12);
Reference elementwise(double (*f)(double, double), double tolerance = 1e-12);
/// y[row] = f(row) along the last axis: as many numbers again, or one.
Reference by_rows(Numbers (*f)(const Numbers&), bool keeps_axis, double tolerance = 1e-12);

/// Gradients of `wrt` from given cotangents, and the names of the ops that ran.
Tensors gradients_of(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs, const Tensors& cotangents);

/// Runs an entry and returns what is wrong.
std::string compare_with_reference(const std::string& op);

}  // namespace spool::test
