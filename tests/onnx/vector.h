#pragma once
// ONNX's node vectors as Debian's libonnx-testdata installs them: for each case a model of one node, its inputs and the outputs expected.
#include <spool/spool.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace spool::onnx_test {

/// The case holds what Spool has no type for: an element type, or a value that is no tensor.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A node's attributes, with the values to take where they are not given.
class Attributes {
 public:
  struct Value {
    int64_t integer = 0;
    double number = 0;
    std::string text;
    std::vector<int64_t> integers;
    std::vector<double> numbers;
    Tensor tensor;
  };
  bool has(const std::string& name) const { return values_.contains(name); }
  int64_t integer(const std::string& name, int64_t otherwise = 0) const { return has(name) ? values_.at(name).integer : otherwise; }
  double number(const std::string& name, double otherwise = 0) const { return has(name) ? values_.at(name).number : otherwise; }
  std::string text(const std::string& name, const std::string& otherwise = "") const { return has(name) ? values_.at(name).text : otherwise; }
  std::vector<int64_t> integers(const std::string& name) const { return has(name) ? values_.at(name).integers : std::vector<int64_t>(); }
  Tensor tensor(const std::string& name) const { return has(name) ? values_.at(name).tensor : Tensor(); }
  void set(const std::string& name, Value value) { values_[name] = std::move(value); }

 private:
  std::map<std::string, Value> values_;
};

/// One case. Inputs and outputs stand as the node lists them; those it leaves out are undefined.
struct Vector {
  std::string name, type;  ///< "reduce_sum_keepdims_random", "ReduceSum".
  int nodes = 1;           ///< More than one: the body of a function, written out.
  Attributes attributes;
  Tensors inputs, outputs;
  bool has(size_t i) const { return i < inputs.size() && inputs[i].defined(); }
  const Tensor& in(size_t i = 0) const { return inputs.at(i); }
  std::vector<int64_t> numbers(size_t i) const { return in(i).to_vector<int64_t>(); }  ///< An input that stands for numbers, such as axes.
};

/// Name, type and number of nodes of the case in a directory. Throws std::runtime_error on a file that is no model.
Vector read_header(const std::filesystem::path& directory);
/// The whole case. Throws Unsupported.
Vector read_vector(const std::filesystem::path& directory);

/// Where the cases are: the environment variable SPOOL_ONNX_DATA, or Debian's place.
std::filesystem::path data_directory();

}  // namespace spool::onnx_test
