// The Performer as a model: causality, streams, positions, determinism, degenerate denominators. Slim acceptance checks 7, 8, 17, 20, 21.
#include "performer_support.h"

#include <spool/ops/positions.h>

#include <chrono>
#include <cstring>

namespace spool::test {
namespace {

using nn::Performer;
using nn::PerformerConfig;
using nn::token_batch;

bool same_bits(const Tensor& a, const Tensor& b) {
  return meta_of(a) == meta_of(b) && std::memcmp(contiguous(a).raw(), contiguous(b).raw(), size_t(a.nbytes())) == 0;
}

/// Logits of all positions, fed to a stream in pieces of `chunk`.
std::vector<float> streamed(const Performer& model, const Tensor& tokens, int64_t chunk, Dtype state = Dtype::f32) {
  auto stream = model.stream(tokens.size(0), state);
  std::vector<float> out;
  for (int64_t at = 0; at < tokens.size(1); at += chunk) {
    const auto piece = model.advance(stream, slice(tokens, 1, at, std::min(at + chunk, tokens.size(1)))).to_vector<float>();
    out.insert(out.end(), piece.begin(), piece.end());
  }
  return out;
}

TEST(PerformerModel, ParametersOfThePaperConfigurations) {
  const auto count = [](int64_t layers, int64_t d, int64_t heads) {
    return Performer(nn::root({.device = meta()}), {.d_model = d, .layers = layers, .heads = heads, .d_ff = 4 * d}).parameter_count();
  };
  EXPECT_EQ(count(1, 256, 4), 822'528);
  EXPECT_EQ(count(3, 512, 8), 8'866'048);
  EXPECT_EQ(count(3, 1024, 16), 35'033'344);
}

TEST(PerformerModel, NoTokenSeesTheFuture) {
  Performer model(nn::root({.seed = 1}), {.d_model = 32, .layers = 2, .heads = 2, .d_ff = 64});
  const NoGrad quiet;
  const int64_t length = 200, width = 256;
  const Tensor tokens = random_tokens(1, length, 3);
  Generator random(4);
  for (const int64_t chunk : {int64_t(1), int64_t(7), int64_t(64), length}) {
    const auto before = streamed(model, tokens, chunk);
    for (int trial = 0; trial < (slow_build ? 4 : 64); ++trial) {
      const int64_t at = random.integer(0, length);
      const Tensor changed = contiguous_copy(tokens);
      changed.data<uint8_t>()[at] ^= 0x55;
      const auto after = streamed(model, changed, chunk);
      ASSERT_EQ(std::memcmp(before.data(), after.data(), size_t(at * width) * sizeof(float)), 0) << "token " << at << ", C = " << chunk;
      ASSERT_NE(std::memcmp(before.data() + at * width, after.data() + at * width, size_t(width) * sizeof(float)), 0) << "token " << at << " changes its own logits";
    }
  }
}

TEST(PerformerModel, AStreamGivesTheParallelLogits) {
  Performer model(nn::root({.seed = 1}), {.d_model = 64, .layers = 2, .heads = 2, .d_ff = 64});
  const NoGrad quiet;
  const int64_t length = slow_build ? 300 : 4096;
  const Tensor tokens = random_tokens(2, length, 3);
  const auto parallel = model.forward(tokens).to_vector<float>();
  auto stream = model.stream(2);
  double worst = 0;
  for (int64_t at = 0; at < length; ++at) {
    const auto now = model.advance(stream, slice(tokens, 1, at, at + 1)).to_vector<float>();
    for (int64_t row = 0; row < 2; ++row)
      for (int64_t v = 0; v < 256; ++v) worst = std::max(worst, double(std::fabs(now[size_t(row * 256 + v)] - parallel[size_t((row * length + at) * 256 + v)])));
  }
  EXPECT_LE(worst, 1e-4);
}

TEST(PerformerModel, ATokenCostsTheSameAnywhereInAStream) {
  // Memory: the same events. Time is compared at night.
  Performer model(nn::root({.seed = 1}), {.d_model = 64, .layers = 2, .heads = 2, .d_ff = 128});
  const Tensor tokens = random_tokens(1, 600, 3);
  auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  auto stream = model.stream(1);
  Plan early;
  for (int64_t at = 0; at < 600; ++at) {
    const Plan step = record_plan(ledger, [&] { model.advance(stream, slice(tokens, 1, at, at + 1)); });
    if (at == 1) early = step;
    if (at > 1) {
      ASSERT_EQ(first_difference(early.events, step.events), "") << "token " << at;
    }
  }
}

TEST(PerformerModel, ATokenTakesTheSameTimeAnywhereInAStreamNightly) {
  Performer model(nn::root({.seed = 1}), {.d_model = 256, .layers = 3, .heads = 4, .d_ff = 1024});
  const Tensor token = random_tokens(1, 1, 3);
  // Medians of 100 tokens near the start and near token 4,096, in turns, so that both see the same machine.
  auto early = model.stream(1), late = model.stream(1);
  for (int64_t at = 0; at < 4096; ++at) model.advance(late, token);
  std::vector<double> times[2];
  for (int i = 0; i < 100; ++i) {
    for (int which : {0, 1}) {
      auto& stream = which ? late : early;
      const auto begin = std::chrono::steady_clock::now();
      model.advance(stream, token);
      times[which].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  for (auto& list : times) std::ranges::nth_element(list, list.begin() + 50);
  EXPECT_LE(times[1][50], 1.05 * times[0][50]);
}

TEST(PerformerModel, StatesChainAcrossAnySplit) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    Performer model(nn::root({.seed = 1, .dtype = dtype}), {.d_model = 32, .layers = 2, .heads = 2, .d_ff = 64});
    const Tensor tokens = random_tokens(2, 97, 3);
    const auto run = [&](std::vector<int64_t> cuts) {
      auto stream = model.stream(2, dtype);
      int64_t at = 0;
      cuts.push_back(97);
      for (int64_t cut : cuts) {
        if (cut > at) model.advance(stream, slice(tokens, 1, at, cut));
        at = cut;
      }
      return stream.states;
    };
    const Tensors whole = run({});
    for (const auto& cuts : {std::vector<int64_t>{1}, {50}, {96}, {10, 11, 40}}) {
      const Tensors pieces = run(cuts);
      for (size_t i = 0; i < whole.size(); ++i) {
        const auto a = pieces[i].to_vector<double>(), b = whole[i].to_vector<double>();
        double d = 0, n = 0;
        for (size_t k = 0; k < a.size(); ++k) d += (a[k] - b[k]) * (a[k] - b[k]), n += b[k] * b[k];
        EXPECT_LE(std::sqrt(d / n), dtype == Dtype::f32 ? 1e-6 : 1e-14);
      }
    }
  }
}

TEST(PerformerModel, PositionsDoNotDependOnTheSliceAndStayExactFarOut) {
  const Tensor all = sinusoidal_positions(100, 32, 5, Dtype::f32);
  for (int64_t at = 0; at < 100; at += 7) {
    const int64_t n = std::min<int64_t>(7, 100 - at);
    EXPECT_TRUE(same_bits(sinusoidal_positions(n, 32, 5 + at, Dtype::f32), slice(all, 0, at, at + n)));
  }
  const auto far = sinusoidal_positions(1, 32, 1'000'000, Dtype::f32).to_vector<double>();
  for (int j = 0; j < 16; ++j) {
    const double angle = 1e6 * std::exp(-2.0 * j * std::log(10000.0) / 32);
    EXPECT_NEAR(far[size_t(j)], std::sin(angle), 1e-7);
    EXPECT_NEAR(far[size_t(16 + j)], std::cos(angle), 1e-7);
  }
}

TEST(PerformerModel, SameBitsInEveryRunAndForAnyThreadCount) {
  const auto train = [](int threads, int64_t chunk) {
    const int before = num_threads();
    set_num_threads(threads);
    Performer model(nn::root({.seed = 6}), {.d_model = 64, .layers = 2, .heads = 2, .d_ff = 128});
    Adam optimizer(model.named_parameters(), {.lr = 1e-3});
    std::vector<double> losses;
    for (int step = 0; step < (slow_build ? 5 : 200); ++step) {
      losses.push_back(gradient_of(model, token_batch(random_tokens(2, 257, uint64_t(step))), chunk).loss);
      optimizer.step();
    }
    set_num_threads(before);
    return losses;
  };
  EXPECT_EQ(train(2, 0), train(2, 0));
  EXPECT_EQ(train(1, 0), train(2, 0));
  EXPECT_EQ(train(1, 100), train(2, 100));
}

TEST(PerformerModel, BadConfigurationsNameTheKey) {
  const auto text = [](PerformerConfig config) -> std::string {
    try {
      Performer model(nn::root({.device = meta()}), config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(text({.d_model = 30, .heads = 3}).find("d_model"), std::string::npos);
  EXPECT_NE(text({.d_model = 32, .heads = 3}).find("heads"), std::string::npos);
  EXPECT_NE(text({.feature = "favor+_x"}).find("favor+_x"), std::string::npos);
  EXPECT_NE(text({.layers = 0}).find("layers"), std::string::npos);
}

}  // namespace
}  // namespace spool::test
