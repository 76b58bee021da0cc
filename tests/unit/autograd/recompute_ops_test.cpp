// Results that are made again in backward instead of being kept: the same bits, and the bytes that go.
#include <spool/autograd/checkpoint.h>
#include <spool/autograd/recompute_ops.h>
#include <spool/tensor/error.h>

#include "tests/support.h"

namespace spool::test {
namespace {

struct Step {
  std::vector<uint8_t> gradients;
  int64_t saved = 0;
};

/// y = w₂·swiglu(x·wg, x·wu) of a norm of x, squared and summed, with a scope around it where asked.
Step step(const std::vector<std::string>& names, bool scoped, Dtype dtype) {
  Rng random(5);
  const auto leaf = [&](const Shape& shape) {
    Tensor t = cast(random.normal(shape), dtype);
    t.requires_grad(true);
    return t;
  };
  const Tensor x = leaf({2, 9, 16}), scale = leaf({16}), wg = leaf({24, 16}), wu = leaf({24, 16}), down = leaf({16, 24});
  const auto f = [&](const Tensor& in) {
    const Tensor y = rms_norm(in, scale);
    return in + linear(swiglu(linear(y, wg), linear(y, wu)), down);
  };
  const RecomputeOps again(names);
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 3; ++i) y = scoped ? checkpoint("block", f, y) : f(y);
  const Tensor loss = sum(y * y);
  again.require_matches();
  Step out;
  out.saved = tape.saved_bytes();
  tape.backward(loss);
  for (const Tensor& t : {x, scale, wg, wu, down}) {
    const auto* bytes = static_cast<const uint8_t*>(t.grad().raw());
    out.gradients.insert(out.gradients.end(), bytes, bytes + t.grad().nbytes());
  }
  return out;
}

TEST(RecomputeOps, KeepTheBitsAndDropTheResults) {
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::bf16}) {
    const int64_t e = int64_t(dtype_size(dtype)), norm = 18 * 16 * e, product = 18 * 24 * e;
    const Step plain = step({}, false, dtype), norms = step({"rms_norm"}, false, dtype), both = step({"rms_norm", "swiglu"}, false, dtype);
    EXPECT_EQ(plain.gradients, norms.gradients);
    EXPECT_EQ(plain.gradients, both.gradients);
    EXPECT_EQ(plain.saved - norms.saved, 3 * norm);
    EXPECT_EQ(norms.saved - both.saved, 3 * product);
    const Step scoped = step({"rms_norm", "swiglu"}, true, dtype);  // the second run follows the names, too
    EXPECT_EQ(plain.gradients, scoped.gradients);
  }
}

TEST(RecomputeOps, ModulesByTheirPath) {
  struct Two : nn::Layer<Two> {
    explicit Two(Slot at) : Layer(at), first(at("first"), {.dim = 8}), second(at("second"), {.dim = 8}), out(at("out"), {.in = 8, .out = 8}) {}
    nn::RmsNorm first, second;
    nn::Linear out;
    Tensor forward(const Tensor& x) const { return out(first(x)) + out(second(x)); }
  };
  const Two model(nn::root({.seed = 3}));
  const auto saved = [&](const std::vector<std::string>& names) {
    Tensor x = ones({5, 8});
    x.requires_grad(true);
    const RecomputeOps again(names);
    const Tape tape;
    const Tensor y = model(x);
    again.require_matches();
    return tape.saved_bytes();
  };
  const int64_t all = saved({});
  EXPECT_EQ(all - saved({"first"}), 5 * 8 * 4);
  EXPECT_EQ(all - saved({"first", "second"}), 2 * 5 * 8 * 4);
  EXPECT_EQ(all - saved({"rms_norm"}), 2 * 5 * 8 * 4);
}

TEST(RecomputeOps, ANameThatNothingAnswersToIsAnError) {
  for (const bool scoped : {false, true}) {
    try {
      step({"rms_norm", "sigmoid"}, scoped, Dtype::f32);
      FAIL() << "a name without a match passed";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("\"sigmoid\"; use ops that can make their results again (add_rms_norm,"), std::string::npos) << error.what();
    }
  }
}

TEST(RecomputeOps, BackwardRunsTwiceWhenItRetains) {
  Tensor x = ones({3, 8}), scale = ones({8});
  scale.requires_grad(true);
  const RecomputeOps again({"rms_norm"});
  Tape tape;
  const Tensor y = rms_norm(x, scale), loss = sum(y * y);
  tape.backward(loss, {.retain = true});
  const Tensor once = contiguous_copy(scale.grad());
  tape.backward(loss);
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(scale.grad().data<float>()[i], 2 * once.data<float>()[i]);
}

}  // namespace
}  // namespace spool::test
