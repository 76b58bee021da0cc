// The state that backward gets back at the start of a slice: exact zeros, large keys, drift. Slim acceptance checks 4 and 19.
#include "state_support.h"

namespace spool::test {
namespace {

using nn::Performer;
using nn::PerformerConfig;
using nn::token_batch;

/// Keys whose features wake up one after the other, some never, and queries that use few features: many denominators are exactly 0.
AttentionInputs sparse_inputs(uint64_t seed, int64_t length) {
  Rng rng(seed);
  AttentionInputs in{rng.normal({2, length, 3, 5}), rng.normal({2, length, 3, 5}), rng.normal({2, length, 3, 4})};
  Generator random(seed);
  for (int64_t row = 0; row < 2 * 3 * 5; ++row) {
    const int64_t b = row / 15, h = row / 5 % 3, m = row % 5, wakes = random.integer(0, 2 * length);
    for (int64_t l = 0; l < length; ++l) {
      double& key = in.k.data<double>()[((b * length + l) * 3 + h) * 5 + m];
      key = l < wakes ? -std::fabs(key) : key * (l % 7 == 3 ? 20 : 1);
      double& query = in.q.data<double>()[((b * length + l) * 3 + h) * 5 + m];
      if (random.integer(0, 3)) query = -std::fabs(query);
    }
  }
  for (const Tensor& t : {in.q, in.k, in.v}) t.requires_grad(true);
  return in;
}

TEST(PerformerState, DenominatorsThatAreExactlyZeroStayZero) {
  const int64_t length = 60;
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const AttentionInputs in = sparse_inputs(seed, length);
    const Tensor u = Rng(seed + 100).normal({2, length, 3, 4});
    const auto gradients = [&](int64_t chunk, StatePolicy policy) {
      Tape tape;
      const Tensor out = chunk ? scan_attention(in, in.zero_state(Dtype::f64), {.chunk = chunk, .state = policy}, Feature::relu).pieces[0]
                               : linear_attention(in.q, in.k, in.v, {}, {.feature = Feature::relu}).out;
      Tensors all = tape.gradient({out}, {in.q, in.k, in.v}, {u});
      all.push_back(out.detach());
      return all;
    };
    const Tensors full = gradients(0, StatePolicy::store);
    const auto out = full[3].to_vector<double>();
    const auto empty = std::ranges::count(out, 0.0);
    ASSERT_GT(empty, 60) << "the case must have outputs without any key";
    ASSERT_LT(empty, int64_t(out.size()) - 60);
    for (const StatePolicy policy : {StatePolicy::subtract, StatePolicy::subtract64}) {
      for (const int64_t chunk : {1, 4, 7, 16, 59, 60}) {
        const Tensors sliced = gradients(chunk, policy);
        for (size_t i = 0; i < full.size(); ++i) EXPECT_LE(relative(sliced[i], full[i]), 1e-12) << "seed " << seed << ", C = " << chunk << ", policy " << int(policy) << ", result " << i;
      }
    }
  }
}

TEST(PerformerState, SparseReluModelsAgreeWithTheirSlices) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    Performer model(nn::root({.seed = seed, .dtype = Dtype::f64}), {.d_model = 24, .layers = 2, .heads = 3, .d_ff = 20, .feature = "relu"});
    for (const auto& [name, parameter] : model.named_parameters()) {
      if (name.find("key.bias") == std::string::npos && name.find("query.bias") == std::string::npos) continue;
      for (int64_t i = 0; i < parameter.numel(); ++i) parameter.data<double>()[i] -= 0.9;  // few features of few tokens are above 0
    }
    const auto batch = token_batch(random_tokens(3, 61, seed));
    const Gradient full = gradient_of(model, batch);
    for (const StatePolicy policy : {StatePolicy::subtract, StatePolicy::subtract64, StatePolicy::store})
      for (const int64_t chunk : {1, 5, 16, 50}) EXPECT_LE(relative(gradient_of(model, batch, chunk, policy), full).whole, 1e-12) << "seed " << seed << ", C = " << chunk << ", policy " << int(policy);
  }
}

TEST(PerformerState, RowsThatNothingChangedAreTheInitialOnes) {
  // A state that is handed in, not zero: what no slice touched comes back bit for bit, whatever its size beside the rest.
  const AttentionInputs in = sparse_inputs(7, 40);
  Tensor initial = in.zero_state(Dtype::f64);
  for (int64_t i = 0; i < initial.numel(); ++i) initial.data<double>()[i] = 0.1 + 1e-9 * double(i);
  EnteredStates entered;
  Tape tape;
  const Tensor out = scan_attention(in, initial, {.chunk = 8, .state = StatePolicy::subtract}, Feature::relu, &entered).pieces[0];
  const EnteredStates forward = entered;
  tape.gradient({out}, {in.k}, {ones(out.shape(), Dtype::f64)});
  int64_t untouched = 0;
  for (const auto& [begin, state] : forward) {
    const auto now = state.to_vector<double>(), again = entered.at(begin).to_vector<double>(), first = initial.to_vector<double>();
    for (size_t row = 0; row < now.size() / 5; ++row) {
      if (!std::equal(first.begin() + long(row * 5), first.begin() + long(row * 5 + 5), now.begin() + long(row * 5))) continue;
      ++untouched;
      EXPECT_TRUE(std::equal(first.begin() + long(row * 5), first.begin() + long(row * 5 + 5), again.begin() + long(row * 5))) << "position " << begin << ", row " << row;
    }
  }
  EXPECT_GT(untouched, 60);
}

/// Relative error of the state at position 64 of 4,096 that backward gets back, with one key (at 3,000) scaled by `spike`.
double early_error(double spike, Dtype dtype, StatePolicy policy) {
  Rng rng(5);
  const int64_t length = 4096;
  AttentionInputs in{rng.normal({1, length, 1, 64}), rng.normal({1, length, 1, 64}), rng.normal({1, length, 1, 64})};
  for (int64_t m = 0; m < 64; ++m) in.k.data<double>()[3000 * 64 + m] *= spike;
  const Tensor exact = linear_attention_sum(slice(in.k, 1, 0, 64), slice(in.v, 1, 0, 64), {.feature = Feature::sqr});
  if (dtype == Dtype::f32) in = {cast(in.q, dtype), cast(in.k, dtype), cast(in.v, dtype)};
  in.v.requires_grad(true);
  EnteredStates entered;
  Tape tape;
  const Tensor out = scan_attention(in, in.zero_state(policy == StatePolicy::subtract64 ? Dtype::f64 : dtype), {.chunk = 64, .state = policy}, Feature::sqr, &entered).pieces[0];
  tape.gradient({out}, {in.v}, {ones(out.shape(), dtype)});
  return relative(entered.at(64), exact);
}

TEST(PerformerState, OneLargeKeyDoesNotSpoilEarlyStates) {
  SKIP_IN_SLOW_BUILD();
  for (const double spike : {1, 10, 100, 1000}) EXPECT_LE(early_error(spike, Dtype::f64, StatePolicy::subtract64), 1e-10) << "key times " << spike;
  // What plain f32 loses is why subtract64 is the default.
  EXPECT_LE(early_error(1, Dtype::f32, StatePolicy::subtract), 4e-6);
  EXPECT_LE(early_error(1000, Dtype::f32, StatePolicy::subtract), 4e-3);
  EXPECT_LE(early_error(1000, Dtype::f32, StatePolicy::subtract64), 1e-6);  // of the inputs' own rounding
}

double residue_of(int64_t length, int64_t chunk, StatePolicy policy) {
  Performer model(nn::root({.seed = 7}), {.d_model = 32, .layers = 2, .heads = 2, .d_ff = 32});
  double value = -1;
  Tape tape;
  tape.backward(model.chunked_loss(token_batch(random_tokens(1, length + 1, 10)), chunk, policy, &value));
  return value;
}

TEST(PerformerState, ResidueOfSubtractionIsMeasured) {
  for (const int64_t chunk : {16, 64}) {
    EXPECT_LE(residue_of(2048, chunk, StatePolicy::subtract), 1e-6) << "C = " << chunk;
    EXPECT_LE(residue_of(2048, chunk, StatePolicy::subtract64), 1e-14) << "C = " << chunk;
  }
}

TEST(PerformerState, ResidueStaysSmallOverLongSequencesNightly) {
  for (const int64_t chunk : {16, 64, 512}) {
    EXPECT_LE(residue_of(65'536, chunk, StatePolicy::subtract), 1e-6) << "C = " << chunk;
    EXPECT_LE(residue_of(65'536, chunk, StatePolicy::subtract64), 1e-14) << "C = " << chunk;
  }
}

}  // namespace
}  // namespace spool::test
