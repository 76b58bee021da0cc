#include "reference.h"

#include <spool/tensor/error.h>

namespace spool::test {

std::map<std::string, Reference>& references() {
  static std::map<std::string, Reference> table;
  return table;
}

bool add_references(std::initializer_list<std::pair<const char*, Reference>> entries) {
  for (const auto& [name, reference] : entries) references().emplace(name, reference);
  return true;
}

void Comparison::expect(const std::string& label, const Tensor& got, const Numbers& expected, double tolerance) {
  const std::string text = difference(got.to_vector<double>(), expected, tolerance);
  if (!text.empty() && text_.empty()) text_ = concat(label, ": ", text);
}
void Comparison::expect(const std::string& label, const Tensor& got, const Array& expected, double tolerance) {
  if (got.shape() != expected.shape && text_.empty()) text_ = concat(label, ": shape ", got.shape(), ", expected ", expected.shape);
  expect(label, got, expected.values, tolerance);
}

Reference of_samples(std::function<std::vector<Array>(const std::vector<Array>&)> f, double tolerance) {
  return [f, tolerance](Comparison& c) {
    for (const OpInfo* op : registered_ops()) {
      if (op->name != c.op()) continue;
      for (const Sample& sample : samples_of(*op)) {
        std::vector<Array> in;
        for (const Tensor& t : sample.inputs) in.push_back(t.defined() ? Array(t) : Array());
        const std::vector<Array> expected = f(in);
        const Tensors got = run(*op, sample);
        for (size_t i = 0; i < expected.size(); ++i) c.expect(describe(sample), got[i], expected[i], tolerance);
      }
    }
  };
}

Reference elementwise(double (*f)(double), double tolerance) {
  return of_samples(
      [f](const std::vector<Array>& in) {
        Array out = in[0];
        for (double& value : out.values) value = f(value);
        return std::vector<Array>{out};
      },
      tolerance);
}

Reference elementwise(double (*f)(double, double), double tolerance) {
  return of_samples(
      [f](const std::vector<Array>& in) {
        Array out = in[0];
        for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = f(in[0].values[i], in[1].values[i]);
        return std::vector<Array>{out};
      },
      tolerance);
}

Reference by_rows(Numbers (*f)(const Numbers&), bool keeps_axis, double tolerance) {
  return of_samples(
      [f, keeps_axis](const std::vector<Array>& in) {
        const int64_t n = in[0].columns(), rows = in[0].rows();
        Array out;
        out.shape = in[0].shape;
        if (!keeps_axis) out.shape.erase(out.shape.size() - 1);
        for (int64_t r = 0; r < rows; ++r) {
          const Numbers row = f(Numbers(in[0].values.begin() + r * n, in[0].values.begin() + (r + 1) * n));
          out.values.insert(out.values.end(), row.begin(), row.end());
        }
        return std::vector<Array>{out};
      },
      tolerance);
}

Tensors gradients_of(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs, const Tensors& cotangents) {
  const Tensors from = leaves(inputs, float_inputs(inputs));
  Tape tape;
  Tensors outputs = f(from), seeds = cotangents;
  only_floats(outputs, seeds);
  return tape.gradient(outputs, from, seeds);
}

std::string compare_with_reference(const std::string& op) {
  const auto found = references().find(op);
  if (found == references().end()) return "has no reference; write one in tests/conformance/reference";
  Comparison comparison(op);
  // Which ops allocate something while the entry runs, forward or backward; views are ops too, but allocate nothing.
  const auto ledger = std::make_shared<Ledger>();
  ledger->recording(true);
  {
    const With on(&Ambient::ledger, ledger);
    found->second(comparison);
  }
  if (!comparison.text().empty()) return comparison.text();
  const OpInfo* info = nullptr;
  for (const OpInfo* each : registered_ops())
    if (each->name == op) info = each;
  if (!info || info->view) return "";
  for (const Event& event : ledger->events())
    if (op == event.op) return "";
  return "its reference ran, but the op did not";
}

}  // namespace spool::test
