// Scopes change no bit, however they nest; a second run that differs from the first is noticed in the first backward, with its place.
#include <spool/autograd/checkpoint.h>
#include <spool/tensor/error.h>

#include "tests/support.h"

namespace spool::test {
namespace {

/// A random program: what each level does is drawn from its seed, scopes are around some levels.
struct Program {
  Tensor w1, w2, gain;
  bool scopes = true;

  Tensor level(const Tensor& x, uint64_t seed, int depth) const {
    Generator draw(seed);
    Tensor y = x;
    const int64_t parts = draw.integer(1, 4);
    for (int64_t i = 0; i < parts; ++i) {
      const uint64_t inner = seed * 31 + uint64_t(i) + 1;
      const bool scoped = draw.integer(0, 2), deeper = depth < 3 && draw.integer(0, 2);
      const int64_t kind = draw.integer(0, 5);
      const auto part = [this, inner, depth, deeper, kind](const Tensor& in) { return deeper ? level(in, inner, depth + 1) : leaf(in, kind, inner); };
      y = scoped && scopes ? checkpoint("level", part, y) : part(y);
    }
    return y;
  }
  Tensor leaf(const Tensor& x, int64_t kind, uint64_t seed) const {
    switch (kind) {
      case 0: return linear(gelu(linear(x, w1)), w2);
      case 1: return dropout(x, 0.1, ambient().random.fold(seed));
      case 2: return layer_norm(x, gain);
      case 3: return x + sigmoid(x) * x;
      default: return x * 0.7 + linear(relu(linear(x, w1)), w2);
    }
  }
};

std::vector<uint8_t> bits(const Tensors& tensors) {
  std::vector<uint8_t> out;
  for (const Tensor& t : tensors) {
    const Tensor dense = as_contiguous(t);
    const auto* bytes = static_cast<const uint8_t*>(dense.raw());
    out.insert(out.end(), bytes, bytes + dense.nbytes());
  }
  return out;
}

TEST(Checkpoint, RandomNestingsWithDropoutChangeNoBit) {
  struct Verify {
    Verify() { verify_recompute(true); }
    ~Verify() { verify_recompute(false); }
  } const verify;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Rng random(seed);
    const auto leaf = [&](const Shape& shape) {
      Tensor t = cast(random.normal(shape), Dtype::f32);
      t.requires_grad(true);
      return t;
    };
    Program program{leaf({11, 6}), leaf({6, 11}), leaf({6})};
    const Tensor x = leaf({2, 5, 6});
    const auto run = [&](bool scopes) {
      program.scopes = scopes;
      const With stream(&Ambient::random, RandomKey(seed));
      Tape tape;
      const Tensor y = program.level(x, seed, 1), loss = sum(y * y);
      Tensors all = tape.gradient({loss}, {x, program.w1, program.w2, program.gain});
      std::erase_if(all, [](const Tensor& t) { return !t.defined(); });
      all.push_back(loss.detach());
      return bits(all);
    };
    ASSERT_EQ(run(true), run(false)) << "program " << seed;
  }
}

TEST(Checkpoint, TenTrainingStepsWithDropoutEndInTheSameBits) {
  const auto trained = [](const nn::Recompute& recompute) {
    nn::GptConfig config{.vocab_size = 40, .n_positions = 16, .n_embd = 16, .n_layer = 4, .n_head = 2};
    config.dropout = 0.1;
    const nn::Gpt model(nn::root({.seed = 5}), config);
    AdamW adam(model.named_parameters(), {.lr = 1e-2});
    Tensor tokens = empty({3, 14}, Dtype::i32);
    Generator random(8);
    for (int64_t step = 0; step < 10; ++step) {
      for (int64_t i = 0; i < tokens.numel(); ++i) tokens.data<int32_t>()[i] = int32_t(random.integer(0, 40));
      const With stream(&Ambient::random, RandomKey(1).fold(uint64_t(step)));
      Tape tape;
      tape.backward(model.training_loss(nn::token_batch(tokens), {.recompute = recompute}));
      adam.step();
      adam.zero_grad();
    }
    Tensors all;
    for (const auto& [name, tensor] : model.named_parameters()) all.push_back(tensor);
    return bits(all);
  };
  const auto plain = trained(nn::Recompute::none);
  for (const char* policy : {"attention", "attention:2", "block", "block:3", "group:3", "nested:2"}) EXPECT_EQ(trained(nn::parse_recompute(policy)), plain) << policy;
}

/// What backward says of a body that does something else when it runs again.
template <class Body>
std::string complaint(const Body& body, bool verify = false) {
  int run = 0;
  Tensor x = ones({3, 4});
  x.requires_grad(true);
  verify_recompute(verify);
  std::string text;
  try {
    Tape tape;
    const Tensor y = checkpoint("part", [&](const Tensor& in) { return body(in, ++run == 2); }, x * 2.0);
    tape.backward(sum(y));
  } catch (const Error& error) {
    text = error.what();
  }
  verify_recompute(false);
  return text;
}

TEST(Checkpoint, SeededFaultsAreCaughtWithTheirPlace) {
  const auto expect = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" does not say \"" << part << "\"";
  };
  expect(complaint([](const Tensor& x, bool again) { return again ? tanh(exp(x)) * 1.0 : tanh(exp(x)); }), {"part: ", "after the 2 ops of forward", "f32[3, 4]"});
  expect(complaint([](const Tensor& x, bool again) { return again ? exp(x) : tanh(exp(x)); }), {"part: ", "ended after 1 of forward's 2 ops; the next was tanh f32[3, 4]"});
  expect(complaint([](const Tensor& x, bool again) { return again ? sigmoid(exp(x)) : tanh(exp(x)); }), {"part: op 1 of recomputation is sigmoid f32[3, 4], where forward ran tanh"});
  expect(complaint([](const Tensor& x, bool again) { return sum(exp(again ? slice(x, 0, 0, 2) : slice(x, 0, 0, 3)), {0}); }), {"part: op 0, slice: result 0 was f32[3, 4] in forward and is f32[2, 4]"});
  expect(complaint([](const Tensor& x, bool again) { return cast(cast(exp(x), again ? Dtype::f64 : Dtype::bf16), Dtype::f32); }), {"part: op 1, cast: result 0 was bf16[3, 4] in forward and is f64[3, 4]"});
  const auto drifts = [](const Tensor& x, bool again) { return tanh(exp(again ? x : x * 1.0) * (again ? 1.5 : 1.0)); };
  expect(complaint([](const Tensor& x, bool again) { return tanh(exp(x) * (again ? 1.5 : 1.0)); }, true), {"part: op 1, mul_scalar: result f32[3, 4] has other values"});
  EXPECT_EQ(complaint([](const Tensor& x, bool again) { return tanh(exp(x) * (again ? 1.5 : 1.0)); }), "");  // only with verification
  EXPECT_NE(complaint(drifts), "");

  // A write to what the scope kept.
  Tensor x = ones({3, 4});
  x.requires_grad(true);
  Tape tape;
  Tensor kept = x * 2.0;
  const Tensor y = checkpoint("part", [](const Tensor& in) { return tanh(in); }, kept);
  fill(kept, 7);
  try {
    tape.backward(sum(y));
    FAIL() << "a write to a kept tensor passed";
  } catch (const AutogradError& error) {
    expect(error.what(), {"part", "input 0 f32[3, 4]", "overwritten"});
  }
}

}  // namespace
}  // namespace spool::test
