// What the headers say of the ops, and that they say something of each.
#include <spool/autograd/op.h>
#include <spool/tensor/error.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "train/op_headers.h"
#include "train/op_page.h"

namespace spool::train {
namespace {

TEST(OpHeaders, CommentsGoWithWhatTheyStandAt) {
  const HeaderPage page = parse_header({"x.h", R"(#pragma once
// About the
// family.
#include <vector>

namespace spool {

/// What it chooses.
struct Options {
  int axis = 0;  ///< Which.
};

Tensor own(const Tensor& x);  ///< Its own comment.
/// Of the two
/// that follow.
Tensor first(const Tensor& x, int axis = -1);
Tensor second(const Tensor& x, const Tensor& bias = {},
              int axis = -1);

/// Inline.
inline Tensor third(const Tensor& x, Options options = {}) { return own(x); }
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }

Tensor bare(const Tensor& x);

}  // namespace spool
)"});
  EXPECT_EQ(page.intro, "About the family.");
  ASSERT_EQ(page.entries.size(), 5u);
  EXPECT_EQ(page.entries[0].code, "struct Options {\n  int axis = 0;  ///< Which.\n};");
  EXPECT_EQ(page.entries[0].doc, "What it chooses.");
  EXPECT_EQ(page.entries[1].names, std::vector<std::string>{"own"});
  EXPECT_EQ(page.entries[1].doc, "Its own comment.");
  EXPECT_EQ(page.entries[2].names, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(page.entries[2].doc, "Of the two that follow.");
  EXPECT_EQ(page.entries[2].code, "Tensor first(const Tensor& x, int axis = -1);\nTensor second(const Tensor& x, const Tensor& bias = {},\n              int axis = -1);");
  EXPECT_EQ(page.entries[3].code, "inline Tensor third(const Tensor& x, Options options = {});");
  EXPECT_EQ(page.entries[4].doc, "");
}

TEST(OpHeaders, EveryFunctionIsDocumented) {
  ASSERT_GT(op_headers().size(), 20u);
  for (const HeaderText& header : op_headers()) {
    const HeaderPage page = parse_header(header);
    EXPECT_FALSE(page.intro.empty()) << page.name;
    for (const HeaderEntry& entry : page.entries) EXPECT_TRUE(entry.names.empty() || !entry.doc.empty()) << page.name << ": " << entry.code;
  }
}

TEST(OpHeaders, EveryOpIsBehindAFunctionOrCalledByOthers) {
  const std::set<std::string_view> inner = {"column_sum", "larger_share", "sum_gradients"};
  const std::string page = ops_markdown();
  const std::string rest = page.substr(page.find("## Ops that other ops call"));
  for (const OpInfo* op : registered_ops()) {
    const bool called_by_others = rest.find(concat("* `", op->name, "`:")) != std::string::npos;
    EXPECT_EQ(called_by_others, op->name.ends_with("_backward") || inner.contains(op->name)) << op->name;
  }
}

TEST(OpPage, SaysAllAboutOneAndNamesTheNearest) {
  const std::string text = op_text("softmax");
  for (const char* part : {"#include <spool/ops/softmax.h>", "Tensor softmax(const Tensor& x, int axis = -1);", "Keeps the result", "keeps output 0", "f32 f64 bf16 f16", "[3, 5] → [3, 5]", "needs an axis, got shape []"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_NE(op_text("gelu").find("gelu_tanh"), std::string::npos);
  EXPECT_NE(op_text("stack").find("Made of other ops"), std::string::npos);
  EXPECT_NE(op_text("embedding").find("f32 f64 bf16 f16\n"), std::string::npos);
  try {
    op_text("sofmax");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("there is no 'sofmax'; did you mean 'softmax'?"), std::string::npos) << error.what();
  }
  try {
    op_text("xyzzy");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "ops: there is no 'xyzzy'; `spool ops` lists them all");
  }
}

}  // namespace
}  // namespace spool::train
