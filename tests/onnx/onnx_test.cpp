// Every case of ONNX's node vectors: computed and equal, or left out for a reason that stands in one table.
#include "translate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace spool::onnx_test {

std::map<std::string, Translation>& translations() {
  static std::map<std::string, Translation> all;
  return all;
}
bool add_translations(std::initializer_list<std::pair<const char*, Translation>> entries) {
  for (const auto& [type, translation] : entries)
    if (!translations().emplace(type, translation).second) throw std::logic_error(std::string("two translations of ") + type);
  return true;
}

double tolerance_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return 6e-7;
    case Dtype::f64: return 1e-13;
    case Dtype::f16: return 0x1p-10;
    case Dtype::bf16: return 0x1p-7;
    default: return 0;
  }
}

namespace {

std::vector<std::filesystem::path> directories() {
  std::vector<std::filesystem::path> all;
  if (std::filesystem::is_directory(data_directory()))
    for (const auto& entry : std::filesystem::directory_iterator(data_directory())) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

/// Empty, or the first output that differs and how.
std::string difference(const Vector& v, const Tensors& got) {
  for (size_t i = 0; i < v.outputs.size(); ++i) {
    const Tensor& expected = v.outputs[i];
    if (!expected.defined()) continue;
    if (i >= got.size() || !got[i].defined()) return concat("output ", i, " was not computed");
    const Tensor& y = got[i];
    if (y.shape() != expected.shape()) return concat("output ", i, " has shape ", y.shape(), ", expected ", expected.shape());
    if (y.dtype() != expected.dtype()) return concat("output ", i, " is ", dtype_name(y.dtype()), ", expected ", dtype_name(expected.dtype()));
    const auto a = y.to_vector<double>(), b = expected.to_vector<double>();
    double largest = 0;
    for (const double value : b)
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    const double tolerance = tolerance_of(y.dtype());
    for (size_t j = 0; j < a.size(); ++j) {
      if (a[j] == b[j] || (std::isnan(a[j]) && std::isnan(b[j]))) continue;
      if (!(std::fabs(a[j] - b[j]) <= tolerance * std::max(std::fabs(b[j]), std::min(largest, 1.0)))) return concat("output ", i, ", element ", j, ": ", a[j], ", expected ", b[j]);
    }
  }
  return "";
}

TEST(Onnx, EveryCaseIsEqualOrLeftOutForAReason) {
  const auto all = directories();
  if (all.empty()) GTEST_SKIP() << "no vectors at " << data_directory() << ": install libonnx-testdata or set SPOOL_ONNX_DATA";
  std::map<std::string, int> reasons;
  std::set<std::string> types, seen_types, seen_cases;
  int passed = 0, excluded = 0;
  for (const auto& directory : all) {
    const Vector header = read_header(directory);
    const auto leave_out = [&](const std::string& reason) {
      ++excluded;
      ++reasons[reason];
    };
    if (header.nodes != 1) {
      leave_out("several nodes: the body of a function that has a case of its own");
      continue;
    }
    const Exclusion* out = nullptr;
    for (const Exclusion& e : excluded_types())
      if (header.type == e.pattern) {
        out = &e;
        seen_types.insert(e.pattern);
      }
    for (const Exclusion& e : excluded_cases())
      if (matches(e.pattern, header.name)) {
        out = &e;
        seen_cases.insert(e.pattern);
      }
    if (out) {
      leave_out(out->reason);
      continue;
    }
    Vector v;
    try {
      v = read_vector(directory);
    } catch (const Unsupported& what) {
      leave_out(what.what());
      continue;
    }
    try {
      const auto translation = translations().find(v.type);
      if (translation == translations().end()) {
        ADD_FAILURE() << v.name << ": no translation of " << v.type << " and no reason for leaving it out";
        continue;
      }
      const std::string text = difference(v, translation->second(v));
      EXPECT_TRUE(text.empty()) << v.name << " (" << v.type << "): " << text;
      if (text.empty()) {
        ++passed;
        types.insert(v.type);
      }
    } catch (const std::exception& what) {
      ADD_FAILURE() << header.name << " (" << header.type << "): " << what.what();
    }
  }
  for (const Exclusion& e : excluded_types()) EXPECT_TRUE(seen_types.contains(e.pattern)) << "no case of type " << e.pattern << " is there to leave out";
  for (const Exclusion& e : excluded_cases()) EXPECT_TRUE(seen_cases.contains(e.pattern)) << "no case is called " << e.pattern;
  std::printf("ONNX node vectors: %d passed, of %zu types of node; %d excluded, of %zu in all\n", passed, types.size(), excluded, all.size());
  for (const auto& [reason, count] : reasons) std::printf("  %3d  %s\n", count, reason.c_str());
  RecordProperty("passed", passed);
  RecordProperty("excluded", excluded);
  EXPECT_GE(passed, 573) << "fewer than Debian's 1.12 has for our ops";
  EXPECT_GE(types.size(), 114u);
}

}  // namespace
}  // namespace spool::onnx_test
