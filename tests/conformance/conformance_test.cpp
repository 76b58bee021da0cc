// Every check on every op of the registry: an op that is added is tested, a failure names the op and the check.
#include "checks.h"
#include "support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace spool::test {
namespace {

std::vector<const OpInfo*> ops_under_test() {
  std::vector<const OpInfo*> ops;
  for (const OpInfo* op : registered_ops())
    if (!op->name.starts_with("planted_")) ops.push_back(op);
  return ops;
}

class Conformance : public testing::TestWithParam<const OpInfo*> {};

TEST_P(Conformance, AllChecks) {
  for (const auto& [name, check] : all_checks()) {
    const std::string text = outcome(check, *GetParam());
    EXPECT_TRUE(text.empty()) << GetParam()->name << ", " << name << ": " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Conformance, testing::ValuesIn(ops_under_test()), [](const auto& chosen) { return std::string(chosen.param->name); });

/// Ops that a source defines: REGISTER_OP(A); the names in register_each<Template, A, B> and register_unary<A, B>; and, for an elementwise
/// function with a `derivative`, its fused backward pass.
int64_t definitions_in(const std::string& text) {
  int64_t count = 0;
  const auto each = [&](const std::string& word, auto&& f) {  // f(what follows it)
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) f(at + word.size());
  };
  const auto one = [&](size_t) { ++count; };
  const auto commas = [&](size_t from) {
    const auto first = text.begin() + int64_t(from);
    count += std::count(first, std::find(first, text.end(), '>'), ',');
  };
  each("\nREGISTER_OP(", one);
  each("static T derivative(", one);
  each("register_each<", commas);  // the first name is the template
  each("register_unary<", commas);
  each("register_unary<", one);
  return count;
}

TEST(ConformanceRegistry, HoldsEveryOpOfTheSources) {
  int64_t defined = 0;
  for (const char* folder : {"ops", "autograd"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(SPOOL_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      std::ifstream file(entry.path());
      std::stringstream text;
      text << "\n" << file.rdbuf();
      defined += definitions_in(text.str());
    }
  }
  EXPECT_EQ(int64_t(ops_under_test().size()), defined) << "an op was lost in linking, or is defined in a way that this test does not know";
}

}  // namespace
}  // namespace spool::test
