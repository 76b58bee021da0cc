// An optimizer's step works in place: what it adds to the memory of a large model is bounded, and an update by whole copies would be seen.
#include "tests/support.h"

namespace spool::test {
namespace {

/// 137 million parameters on meta, each with a gradient.
struct Trained {
  explicit Trained(Dtype dtype) : model(nn::root({.dtype = dtype, .device = meta()}), {.vocab_size = 32000, .hidden_size = 1024, .intermediate_size = 2816, .num_hidden_layers = 8, .num_attention_heads = 16}) {
    const With gradients(&Ambient::category, Category::gradient);
    for (const auto& [name, parameter] : model.named_parameters()) parameter.set_grad(empty(parameter.shape(), dtype, meta()));
  }
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  With<std::shared_ptr<Ledger>> on{&Ambient::ledger, ledger};
  nn::Llama model;
};

TEST(OptimizerMemory, AStepAddsAtMostFourMebibytes) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Trained t(dtype);
    std::vector<std::unique_ptr<Optimizer>> optimizers;
    optimizers.push_back(std::make_unique<Sgd>(t.model.named_parameters(), SgdOptions{.lr = 1e-3, .momentum = 0.9}));
    optimizers.push_back(std::make_unique<Adam>(t.model.named_parameters(), AdamOptions{.lr = 1e-3, .weight_decay = 0.1}));
    optimizers.push_back(std::make_unique<AdamW>(t.model.named_parameters(), AdamWOptions{.lr = 1e-3, .weight_decay = 0.1}));
    for (const auto& optimizer : optimizers) {
      optimizer->prepare();
      const Plan plan = record_plan(t.ledger, [&] {
        clip_grad_norm(t.model.named_parameters(), 1.0);
        optimizer->step();
      });
      EXPECT_LE(plan.peak - plan.base, int64_t(4) << 20) << dtype_name(dtype);
    }
  }
}

TEST(OptimizerMemory, AnUpdateByWholeCopiesShowsInTheReport) {
  Trained t(Dtype::f32);
  const auto by_copies = [&] {  // all updates first, then all parameters
    const Phase phase("optimizer step");
    Tensors updates;
    for (const auto& [name, parameter] : t.model.named_parameters()) updates.push_back(mul(parameter.grad(), -1e-3));
  };
  const MemoryReport report = make_report(record_plan(t.ledger, by_copies));
  EXPECT_EQ(report.peak - report.base, 4 * t.model.parameter_count());
  EXPECT_EQ(report.at_peak[Category::temporary], 4 * t.model.parameter_count());
  EXPECT_EQ(report.peak_phase, "optimizer step");
}

}  // namespace
}  // namespace spool::test
