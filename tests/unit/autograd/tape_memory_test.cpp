// What the tape holds on to, and for how long; deep graphs need no deep stack.
#include <spool/autograd/tape.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/reduce.h>
#include <spool/ops/reshape.h>
#include <spool/ops/scalar.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>

#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

namespace spool::test {
namespace {

struct OnLedger {
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  With<std::shared_ptr<Ledger>> on{&Ambient::ledger, ledger};
};

/// Runs f on a thread with a stack of this size.
void on_small_stack(size_t bytes, const std::function<void()>& f) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread;
  const auto entry = [](void* context) -> void* {
    (*static_cast<const std::function<void()>*>(context))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, entry, const_cast<std::function<void()>*>(&f)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

constexpr size_t small_stack = 512 << 10;
constexpr int depth = 1 << 20;
constexpr double grown = 2.718280532282413;  // (1 + 2^-20)^(2^20)

TEST(DeepGraphs, AMillionNodesBackward) {
  on_small_stack(small_stack, [] {
    const Tensor start = ones({}, Dtype::f64).requires_grad(true);
    Tape tape;
    Tensor y = start;
    for (int i = 0; i < depth; ++i) y = y + y * 0x1p-20;
    EXPECT_NEAR(y.item(), grown, 1e-12);
    tape.backward(y);
    EXPECT_NEAR(start.grad().item(), grown, 1e-12);
  });
}

TEST(DeepGraphs, AMillionNodesDroppedWithoutBackward) {
  on_small_stack(small_stack, [] {
    const Tensor start = ones({}, Dtype::f64).requires_grad(true);
    Tape tape;
    Tensor y = start;
    for (int i = 0; i < depth; ++i) y = exp(y * 1e-9);  // saves its result
  });
}

TEST(DeepGraphs, AMillionViewsOfViews) {
  on_small_stack(small_stack, [] {
    const Tensor start = ones({2, 3}, Dtype::f64).requires_grad(true);
    Tape tape;
    Tensor y = start;
    for (int i = 0; i < depth; ++i) y = reshape(y, i % 2 ? Shape{2, 3} : Shape{3, 2});
    tape.backward(sum(y));
    EXPECT_EQ(start.grad().to_vector<double>(), std::vector<double>(6, 1.0));
  });
}

TEST(DeepGraphs, AMillionTensorsEachHoldingTheOneBefore) {
  on_small_stack(small_stack, [] {
    Tensors chain{ones({})};
    for (int i = 1; i < 1'000'000; ++i) chain.push_back(chain.back().view_as({}, {}, 0));
  });
}

TEST(TapeMemory, SavedBytesCountEachStorageOnce) {
  OnLedger on;
  const Tensor x = ones({1000}, Dtype::f64).requires_grad(true);
  Tape tape;
  const Tensor y = square(x), z = mul(y, y), w = square(reshape(y, {10, 100}));
  EXPECT_EQ(tape.saved_bytes(), 16000) << "x and y, whose views and uses share bytes";
  EXPECT_EQ(on.ledger->live_by_category()[Category::saved], 16000);
}

TEST(TapeMemory, BackwardFreesAsItGoes) {
  OnLedger on;
  const Tensor x = ones({1000}, Dtype::f64).requires_grad(true);
  const int64_t before = on.ledger->live();
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 50; ++i) y = square(y);
  const Tensor loss = sum(y);
  y = Tensor();
  on.ledger->reset_peak();
  const int64_t held = on.ledger->live();
  tape.backward(loss);
  EXPECT_LE(on.ledger->peak(), held + 3 * 8000) << "a few gradients at a time";
  EXPECT_EQ(on.ledger->live(), before + 8000 + 8) << "the gradient of x, and the loss";
}

TEST(TapeMemory, RunningSumOfLossesKeepsScalarsOnly) {
  OnLedger on;
  const Tensor x = ones({10000}, Dtype::f64).requires_grad(true);
  Tensor total = zeros({}, Dtype::f64);
  int64_t first = 0;
  for (int step = 0; step < 1000; ++step) {
    Tape tape;
    const Tensor loss = sum(square(x));
    tape.backward(loss);
    total = total.detach() + loss.detach();
    if (step == 0) first = on.ledger->live();
  }
  EXPECT_EQ(total.item(), 1e7);
  EXPECT_LE(on.ledger->live(), first + 1000 * 16);
}

TEST(TapeMemory, ARunningSumOnOneTapeGrowsByScalars) {
  OnLedger on;
  const Tensor x = ones({1000}, Dtype::f64).requires_grad(true);
  Tape tape;
  Tensor total = zeros({}, Dtype::f64);
  int64_t first = 0;
  for (int step = 0; step < 1000; ++step) {
    total = total + sum(x);
    if (step == 0) first = on.ledger->live();
  }
  EXPECT_LE(on.ledger->live(), first + 1000 * 16);
  tape.backward(total);
  EXPECT_EQ(x.grad().to_vector<double>()[999], 1000);
}

TEST(TapeMemory, BranchesThatBackwardNeverReachesAreFreed) {
  OnLedger on;
  const Tensor x = ones({1000}, Dtype::f64).requires_grad(true);
  const int64_t before = on.ledger->live();
  {
    Tape tape;
    Tensor stray = exp(exp(x));
    const Tensor loss = sum(x);
    tape.backward(loss);
  }
  EXPECT_EQ(on.ledger->live(), before + 8000) << "the gradient alone";
}

TEST(TapeMemory, AnErrorInBackwardLeaksNothing) {
  OnLedger on;
  const Tensor x = ones({100}, Dtype::f64).requires_grad(true);
  const int64_t before = on.ledger->live();
  {
    Tape tape;
    const Tensor y = exp(x), loss = sum(y);
    fill(y, 0);
    EXPECT_ANY_THROW(tape.backward(loss));
    EXPECT_ANY_THROW(tape.backward(loss));
  }
  EXPECT_EQ(on.ledger->live(), before);
  Tape tape;
  EXPECT_TRUE(is_recorded(x)) << "recording goes on after the error";
}

}  // namespace
}  // namespace spool::test
