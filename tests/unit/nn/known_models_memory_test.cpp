// What recomputation and pieces of the loss do to models of known sizes, against sums by hand.
#include "tests/support.h"

namespace spool::test {
namespace {

using nn::LlamaConfig;
using nn::Recompute;
using nn::StepSizes;

constexpr int64_t t = 4096;  // tokens

LlamaConfig seven_billion(int64_t vocabulary = 32000) {
  return {.vocab_size = vocabulary, .hidden_size = 4096, .intermediate_size = 11008, .num_hidden_layers = 32, .num_attention_heads = 32};
}

Plan step_of(const LlamaConfig& config, const nn::LossOptions& options, int64_t batch = 1, int64_t length = t) {
  const auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  const nn::Llama model(nn::root({.dtype = Dtype::bf16, .device = meta()}), config);
  return record_plan(ledger, [&] {
    const nn::TokenBatch tokens = nn::token_batch(empty({batch, length + 1}, Dtype::i32, meta()));
    Tape tape;
    tape.backward(model.training_loss(tokens, options));
  });
}

/// The most bytes that are kept for backward while blocks run back: from the first block's return on, so that the head has no part in it.
int64_t most_saved_in_blocks(const Plan& plan) {
  int64_t saved = 0, most = 0;
  bool backward = false, blocks = false;
  for (const Event& e : plan.events) {
    if (e.kind == Event::Kind::phase) backward = std::string_view(e.op) == "backward";
    if (e.kind == Event::Kind::allocate && e.category == Category::saved) saved += e.bytes;
    if (e.kind == Event::Kind::release && e.category == Category::saved) saved -= e.bytes;
    if (e.kind == Event::Kind::mark) saved += e.category == Category::saved ? e.bytes : e.from == Category::saved ? -e.bytes : 0;
    blocks = blocks || (backward && path_name(e.path).find("layers.") != std::string::npos);
    if (blocks) most = std::max(most, saved);
  }
  return most;
}

// x = 2·t·h is a block's input, A = 131,720·t all that it keeps, its input included. With groups of g blocks, when the last group has run
// again: the inputs of the L/g − 1 groups before it, and g records. Nested: those inputs, the inputs of the g blocks, and one record, whose
// input is among them. Beside that are the tokens and the rotary angles, 4 bytes for each of s·d.
TEST(KnownModels, WhatGroupsOfBlocksKeep) {
  constexpr int64_t x = 2 * t * 4096, A = 131'720 * t, layers = 32, beside = 4 * (t + 1) + 4 * t * 128;
  const auto kept = [](const char* policy) { return most_saved_in_blocks(step_of(seven_billion(64), {.recompute = nn::parse_recompute(policy)})); };
  EXPECT_EQ(kept("none"), layers * A + beside);
  EXPECT_EQ(kept("block"), (layers - 1) * x + A + beside);
  EXPECT_EQ(kept("group:2"), (layers / 2 - 1) * x + 2 * A + beside);
  EXPECT_EQ(kept("group:4"), (layers / 4 - 1) * x + 4 * A + beside);
  EXPECT_EQ(kept("nested:4"), (layers / 4 - 1) * x + (4 - 1) * x + A + beside);
  EXPECT_EQ(kept("block:20"), 20 * x + 12 * A + beside);
  // In GiB that is 16.08, 1.47, 1.47, 2.23 and 0.81: groups larger than one only pay where they are nested.
  EXPECT_GT(kept("group:4"), kept("block"));
  EXPECT_LT(kept("nested:4"), kept("block"));
}

// When the head has run back: the blocks' records; the last block's output and the final norm of it, 2·t·h each, with 4 bytes a row; the
// logits' gradient, 2·t·V; those of the head's weight, 2·V·h, and of its input, 2·t·h; tokens, angles, the loss, and what the product
// declares as scratch. The logits themselves are gone.
TEST(KnownModels, ThePeakOfSevenBillionParameters) {
  constexpr int64_t h = 4096, V = 32000;
  const StepSizes sizes{.batch = 1, .length = t, .dtype = Dtype::bf16, .optimizer = nn::OptimizerState::none};
  const nn::Estimate e = nn::estimate(seven_billion(), sizes);
  EXPECT_EQ(e.peak.at, "head backward");
  const int64_t beside = 4 * (t + 1) + 4 * t * 128 + 4;
  EXPECT_EQ(e.peak.bytes - e.parameter_bytes - e.optimizer_bytes - e.peak.scratch, 131'720 * t * 32 + 2 * (2 * t * h) + 4 * t + 2 * t * V + 2 * V * h + 2 * t * h + beside);
  EXPECT_LE(e.peak.scratch, int64_t(72) << 20);  // a panel of the f32 product, and packing
  EXPECT_EQ(step_of(seven_billion(), {}).peak, e.peak.bytes - e.optimizer_bytes);
}

// Logits in pieces of 1,024 rows: neither they nor their gradient exist for more rows than that, and the loss is no longer where the peak is.
TEST(KnownModels, TheLossInPieces) {
  const LlamaConfig tiny{.vocab_size = 32000, .hidden_size = 2048, .intermediate_size = 5632, .num_hidden_layers = 22, .num_attention_heads = 32, .num_key_value_heads = 4};
  StepSizes sizes{.batch = 4, .length = 2048, .dtype = Dtype::bf16};
  const nn::Estimate whole = nn::estimate(tiny, sizes);
  sizes.loss.loss_chunk = 1024;
  const nn::Estimate pieces = nn::estimate(tiny, sizes);
  EXPECT_EQ(whole.peak.at, "cross_entropy backward");
  EXPECT_EQ(pieces.peak.at, "layer.21, swiglu backward");
  EXPECT_GE(double(whole.peak.bytes - pieces.peak.bytes), 0.69 * double(int64_t(1) << 30));
  int64_t largest = 0;
  for (const Event& e : step_of(tiny, sizes.loss, 4, 2048).events)
    if (e.kind == Event::Kind::allocate && std::string_view(e.op) == "cross_entropy_backward") largest = std::max(largest, e.bytes);
  EXPECT_EQ(largest, 1024 * 32000 * 2);
}

}  // namespace
}  // namespace spool::test
