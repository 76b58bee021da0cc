// Every op's values against a naive formula in double.
#include "reference/reference.h"

#include <gtest/gtest.h>

namespace spool::test {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const OpInfo* op : registered_ops())
    if (!op->name.starts_with("planted_")) out.emplace_back(op->name);
  return out;
}

class Values : public testing::TestWithParam<std::string> {};
TEST_P(Values, AgreeWithTheReference) { EXPECT_EQ(compare_with_reference(GetParam()), "") << GetParam(); }
INSTANTIATE_TEST_SUITE_P(Registry, Values, testing::ValuesIn(names()), [](const auto& chosen) { return chosen.param; });

TEST(References, AreAllOfRegisteredOps) {
  std::map<std::string, bool> registered;
  for (const std::string& name : names()) registered[name] = true;
  for (const auto& [name, reference] : references()) EXPECT_TRUE(registered.count(name)) << name << " has a reference, but is not registered";
}

}  // namespace
}  // namespace spool::test
