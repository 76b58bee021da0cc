// The profile of a step: every kernel once, the work that ops declare, no bit changed.
#include <spool/spool.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

#include "train/profile_report.h"

namespace spool::train {
namespace {

/// A step of a small LLaMA; the gradient of its embedding afterwards.
std::vector<double> step(Profiler* profiler) {
  const nn::Llama model(nn::root({.seed = 3}), {.vocab_size = 17, .hidden_size = 16, .intermediate_size = 24, .num_hidden_layers = 2, .num_attention_heads = 2, .num_key_value_heads = 1, .max_position_embeddings = 16, .tie_word_embeddings = false});
  AdamW optimizer(model.named_parameters());
  const nn::TokenBatch batch = nn::token_batch(Rng(1).integers({2, 9}, 0, 17));
  const With on(&Ambient::profiler, profiler);
  {
    Tape tape;
    tape.backward(model.training_loss(batch, {}));
  }
  optimizer.step();
  return model.named_parameters()[0].second.grad().to_vector<double>();
}

TEST(Profile, TimesEveryKernelOnceAndChangesNothing) {
  Profiler profiler;
  const int64_t began = profiler.now();
  const auto with = step(&profiler);
  const int64_t ended = profiler.now();
  EXPECT_EQ(with, step(nullptr));
  ASSERT_FALSE(profiler.spans().empty());
  int64_t before = began;
  std::set<std::string> ops, phases, modules;
  for (const ProfileSpan& span : profiler.spans()) {
    EXPECT_LE(before, span.begin) << span.op << " begins before the one before it has ended";
    EXPECT_LE(span.begin, span.end);
    before = span.end;
    ops.insert(span.op);
    phases.insert(span.phase);
    modules.insert(path_name(span.path));
  }
  EXPECT_LE(before, ended);
  for (const char* op : {"linear", "embedding", "rotary", "attention", "attention_backward", "swiglu", "cross_entropy", "adamw"}) EXPECT_TRUE(ops.contains(op)) << op;
  EXPECT_EQ(phases, (std::set<std::string>{"", "backward", "optimizer step"}));
  EXPECT_TRUE(modules.contains("model.layers.1.mlp.down_proj"));
  EXPECT_LE(profiler.seconds(), double(ended - began) * 1e-9);
}

TEST(Profile, CountsTheProductsOfBothPasses) {
  Profiler profiler;
  const Tensor x = ones({6, 4}).requires_grad(true), w = ones({5, 4}).requires_grad(true);
  {
    const With on(&Ambient::profiler, &profiler);
    Tape tape;
    tape.backward(sum(linear(x, w)));  // moves the weight's gradient in
    tape.backward(sum(linear(x, w)));  // adds to it, inside the product
  }
  double forward = 0, backward = 0;
  for (const OpTime& t : profiler.by_op())
    if (t.op == "linear" || t.op == "matmul") (t.phase.empty() ? forward : backward) += t.flops;
  EXPECT_EQ(forward, 2 * 2.0 * 6 * 4 * 5);
  EXPECT_EQ(backward, 2 * 2 * 2.0 * 6 * 4 * 5);
}

TEST(Profile, TraceAndTable) {
  Profiler profiler;
  profiler.post({"linear", "", 0, 1000, 3000, 2e6, 1e3});
  profiler.post({"linear", "backward", 0, 3000, 9000, 4e6, 1e3});
  profiler.post({"add", "", 0, 9000, 10000, 0, 1e4});
  const auto trace = nlohmann::json::parse(profiler.trace_json());
  ASSERT_EQ(trace["traceEvents"].size(), 3u);
  EXPECT_EQ(trace["traceEvents"][1]["name"], "linear");
  EXPECT_EQ(trace["traceEvents"][1]["cat"], "backward");
  EXPECT_DOUBLE_EQ(trace["traceEvents"][1]["dur"], 6.0);
  EXPECT_DOUBLE_EQ(trace["traceEvents"][0]["args"]["GFLOP/s"], 1000.0);
  const Roof roof{.flops = 2e12, .bytes = 2e10};
  EXPECT_DOUBLE_EQ(roof.seconds(4e6, 1e3), 2e-6);
  EXPECT_DOUBLE_EQ(roof.seconds(0, 1e4), 5e-7);
  const std::string text = profile_text(profiler, roof, 1, 12e-6);
  EXPECT_LT(text.find("backward"), text.find("add")) << text;  // the costliest first
  EXPECT_NE(text.find("50.0%"), std::string::npos) << text;    // 6 of 12 µs
  EXPECT_NE(text.find("33%"), std::string::npos) << text;      // 2 µs of work in 6
  EXPECT_NE(text.find("between the ops"), std::string::npos) << text;
}

}  // namespace
}  // namespace spool::train
