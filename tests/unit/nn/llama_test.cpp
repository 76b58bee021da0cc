// LLaMA on real weights, and what must not change a result: cache, recomputation, chunks, threads.
#include <cmath>

#include "llama_support.h"

namespace spool::test {
namespace {

using nn::Llama;
using nn::LlamaConfig;
using nn::LossOptions;
using nn::Recompute;

constexpr double stories_nll = 0.1803555009;

TEST(Llama, TrainedWeightsGiveTheGoldenLogits) {
  SPOOL_REQUIRE_DATA("stories260k/model.safetensors");
  const Golden golden = read_golden();
  ASSERT_EQ(golden.tokens.size(), 32u);
  for (const auto& [dtype, limit, file] : {std::tuple{Dtype::f64, 1e-9, 0}, {Dtype::f32, 2e-4, 0}, {Dtype::f64, 1e-9, 1}, {Dtype::f32, 2e-4, 1}}) {
    const auto model = nn::load_llama(data_path(stories_files[file]), {.dtype = dtype});
    const auto logits = cast(model->forward(token_row(golden.tokens)), Dtype::f64).to_vector<double>();
    EXPECT_NEAR(mean_nll(*model, golden.tokens), stories_nll, dtype == Dtype::f64 ? 1e-9 : 1e-5);
    ASSERT_GE(golden.positions.size(), 31u);
    for (size_t i = 0; i < golden.positions.size(); ++i) {
      const GoldenPosition& p = golden.positions[i];
      const double* row = logits.data() + i * 512;
      for (int j = 0; j < 4; ++j) EXPECT_NEAR(row[j], p.first[j], limit) << "position " << i;
      EXPECT_NEAR(row[p.argmax], p.largest, limit) << "position " << i;
      EXPECT_EQ(std::max_element(row, row + 512) - row, p.argmax) << "position " << i;
      double sum = 0;
      for (int j = 0; j < 512; ++j) sum += std::exp(row[j] - p.largest);
      EXPECT_NEAR(p.largest + std::log(sum), p.lse, limit) << "position " << i;
      EXPECT_NEAR(p.largest + std::log(sum) - row[p.next], p.nll, limit) << "position " << i;
    }
  }
}

// Each of these gives fluent numbers: only a trained model tells.
TEST(Llama, WrongVariantsAreSeen) {
  SPOOL_REQUIRE_DATA("stories260k/model.safetensors");
  const Golden golden = read_golden();
  LlamaConfig interleaved = stories_config();
  interleaved.rope_interleaved = true;  // the weights are permuted for rotate-half
  EXPECT_NEAR(mean_nll(*stories_model(Dtype::f64, interleaved), golden.tokens), 2.0475, 1e-3);

  // Key heads dealt out as h mod KV: the rows of k and v of the heads that h mod KV would pick, for a model with as many key heads as heads.
  const auto with_heads = [&](const auto& source) {
    LlamaConfig wide = stories_config();
    wide.num_key_value_heads = 8;
    auto model = std::make_unique<Llama>(nn::root({.dtype = Dtype::f64}), wide);
    NamedTensors state = load_safetensors(data_path("stories260k/model.safetensors").string());
    for (auto& [name, value] : state) {
      value = cast(value, Dtype::f64);
      if (name.find("k_proj") == std::string::npos && name.find("v_proj") == std::string::npos) continue;
      Tensors rows;
      for (int64_t h = 0; h < 8; ++h) rows.push_back(narrow(value, 0, 8 * source(h), 8));
      value = concat(rows, 0);
    }
    model->load(state);
    return mean_nll(*model, golden.tokens);
  };
  EXPECT_NEAR(with_heads([](int64_t h) { return h / 2; }), stories_nll, 1e-9);
  EXPECT_NEAR(with_heads([](int64_t h) { return h % 4; }), 4.4219137918, 1e-6);

  // The place of eps moves the loss by a millionth only; a large one shows it.
  const Tensor x = from({3, 4}, {}, Dtype::f64), one = ones({2}, Dtype::f64);
  const auto y = rms_norm(x, one, 0.5).to_vector<double>(), z = add_rms_norm(x * 0.25, x * 0.75, one, 0.5).y.to_vector<double>();
  for (const auto& v : {y, z}) {
    EXPECT_NEAR(v[0], 0.8320502943, 1e-9);  // outside of the root: 0.7433960586
    EXPECT_NEAR(v[1], 1.1094003925, 1e-9);
  }
}

TEST(Llama, ACacheChangesNothing) {
  SPOOL_REQUIRE_DATA("stories260k/model.safetensors");
  const Golden golden = read_golden();
  for (const int64_t window : {0, 7}) {
    LlamaConfig config = stories_config();
    config.sliding_window = window;
    const auto model = stories_model(Dtype::f64, config);
    const auto whole = model->forward(token_row(golden.tokens)).to_vector<double>();
    for (const std::vector<int64_t>& pieces : {std::vector<int64_t>(32, 1), {5, 1, 20, 6}, {32}}) {
      const auto state = model->begin(1, 40);
      std::vector<double> logits;
      int64_t at = 0;
      for (const int64_t n : pieces) {
        const auto now = model->decode(*state, token_row({golden.tokens.begin() + at, golden.tokens.begin() + at + n})).to_vector<double>();
        logits.insert(logits.end(), now.begin(), now.end());
        at += n;
      }
      ASSERT_EQ(logits.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(logits[i], whole[i], 1e-12) << "window " << window << ", number " << i;
    }
  }
}

TEST(Llama, GreedyTextIsTheGoldenOne) {
  SPOOL_REQUIRE_DATA("stories260k/model.safetensors");
  const Golden golden = read_golden();
  std::vector<int64_t> expected = golden.tokens;
  for (const int64_t token : {385, 328, 432, 358, 394, 261, 370, 432, 352}) expected.push_back(token);
  for (const auto& [dtype, file] : {std::pair{Dtype::f32, 0}, {Dtype::f64, 1}}) {
    const auto model = nn::load_llama(data_path(stories_files[file]), {.dtype = dtype});
    const auto best = [](const std::vector<double>& logits) {
      const auto row = logits.end() - 512;
      return int64_t(std::max_element(row, logits.end()) - row);
    };
    const auto state = model->begin(1, 64);
    std::vector<int64_t> cached{1}, whole{1};
    while (cached.size() < expected.size()) cached.push_back(best(cast(model->decode(*state, token_row({cached.back()})), Dtype::f64).to_vector<double>()));
    while (whole.size() < expected.size()) whole.push_back(best(cast(model->forward(token_row(whole)), Dtype::f64).to_vector<double>()));
    EXPECT_EQ(cached, expected);
    EXPECT_EQ(whole, expected);
  }
}

TEST(Llama, TheCacheRefusesMoreThanItHolds) {
  const Llama model(nn::root(), {.vocab_size = 11, .hidden_size = 16, .num_hidden_layers = 1, .num_attention_heads = 2});
  const auto state = model.begin(1, 4);
  model.decode(*state, token_row({1, 2, 3}));
  try {
    model.decode(*state, token_row({1, 2}));
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_STREQ(e.what(), "llama: 2 more tokens do not fit the cache of 4, which holds 3");
  }
}

/// Loss and gradients of one step.
struct Step {
  double loss;
  NamedTensors gradients;
};
Step step_of(const LlamaConfig& config, const nn::TokenBatch& batch, const LossOptions& options, Dtype dtype = Dtype::f32) {
  const Llama model(nn::root({.seed = 5, .dtype = dtype}), config);
  Tape tape;
  const Tensor loss = model.training_loss(batch, options);
  const double value = loss.item();
  tape.backward(loss);
  Step out{value, {}};
  for (const auto& [name, parameter] : model.named_parameters()) {
    EXPECT_TRUE(parameter.grad().defined()) << name;
    out.gradients.emplace_back(name, parameter.grad());
  }
  return out;
}

nn::TokenBatch random_batch(int64_t rows, int64_t length, int64_t vocab, bool masked) {
  Rng rng(3);
  nn::TokenBatch batch = nn::token_batch(rng.integers({rows, length}, 0, vocab, Dtype::i32));
  if (masked) {
    batch.mask = rng.booleans({rows, length});
    batch.scored = int64_t(sum(slice(batch.mask, 1, 1)).item());
  }
  return batch;
}

void expect_close(const Step& got, const Step& expected, double limit, const std::string& what) {
  EXPECT_NEAR(got.loss, expected.loss, limit * std::fabs(expected.loss)) << what;
  ASSERT_EQ(got.gradients.size(), expected.gradients.size());
  for (size_t i = 0; i < got.gradients.size(); ++i) {
    const auto a = got.gradients[i].second.to_vector<double>(), b = expected.gradients[i].second.to_vector<double>();
    double error = 0, size = 0;
    for (size_t j = 0; j < a.size(); ++j) error += (a[j] - b[j]) * (a[j] - b[j]), size += b[j] * b[j];
    if (limit == 0) {
      EXPECT_EQ(a, b) << got.gradients[i].first << ", " << what;
    } else {
      EXPECT_LE(std::sqrt(error), limit * std::sqrt(size)) << got.gradients[i].first << ", " << what;
    }
  }
}

const LlamaConfig small{.vocab_size = 50, .hidden_size = 36, .intermediate_size = 56, .num_hidden_layers = 3, .num_attention_heads = 6, .num_key_value_heads = 3, .max_position_embeddings = 64};

TEST(Llama, RecomputationKeepsTheBits) {
  for (const bool masked : {false, true}) {
    const nn::TokenBatch batch = random_batch(2, 41, 50, masked);
    LlamaConfig tied = small, window = small;
    tied.tie_word_embeddings = true;
    window.sliding_window = 9;
    for (const LlamaConfig& config : {small, tied, window}) {
      const Step whole = step_of(config, batch, {});
      expect_close(step_of(config, batch, {.recompute = Recompute::attention}), whole, 0, "attention");
      expect_close(step_of(config, batch, {.recompute = Recompute::block}), whole, 0, "block");
      expect_close(step_of(config, batch, {.attention = nn::AttentionKind::materialised}), whole, 3e-6, "materialised");
      const Step pieces = step_of(config, batch, {.loss_chunk = 7, .feed_forward_chunk = 6});
      expect_close(pieces, whole, 3e-6, "loss and feed-forward in pieces");
      expect_close(step_of(config, batch, {.recompute = Recompute::block, .loss_chunk = 7, .feed_forward_chunk = 6}), pieces, 0, "block, in pieces");
      expect_close(step_of(config, batch, {.loss_chunk = 7, .feed_forward_chunk = 6}, Dtype::f64), step_of(config, batch, {}, Dtype::f64), 1e-13, "in pieces, f64");
    }
  }
}

TEST(Llama, GradientsAreThoseOfTheLoss) {
  const nn::TokenBatch batch = random_batch(2, 13, 50, true);
  for (const LossOptions& options : {LossOptions{}, LossOptions{.recompute = Recompute::block, .loss_chunk = 5, .feed_forward_chunk = 4}}) {
    const Llama model(nn::root({.seed = 5, .dtype = Dtype::f64}), small);
    const Step step = step_of(small, batch, options, Dtype::f64);
    Rng rng(9);
    double expected = 0;
    constexpr double h = 2e-6;
    Tensors directions;
    const NamedTensors parameters = model.named_parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      directions.push_back(rng.normal(parameters[i].second.shape()));
      expected += sum(directions.back() * step.gradients[i].second).item();
    }
    const auto moved = [&](double by) {
      const NoGrad quiet;
      for (size_t i = 0; i < parameters.size(); ++i) accumulate(parameters[i].second, directions[i] * by);
      return model.training_loss(batch, options).item();
    };
    const double up = moved(h), down = moved(-2 * h);
    EXPECT_NEAR((up - down) / (2 * h), expected, 1e-6 * std::fabs(expected));
  }
}

TEST(Llama, AccumulatedPartsGiveTheWholeBatch) {
  const nn::TokenBatch batch = random_batch(4, 21, 50, true);
  const Step whole = step_of(small, batch, {}, Dtype::f64);
  const Llama model(nn::root({.seed = 5, .dtype = Dtype::f64}), small);
  Step parts{0, {}};
  for (int64_t row = 0; row < 4; ++row) {
    Tape tape;
    const Tensor loss = model.training_loss({narrow(batch.tokens, 0, row, 1), narrow(batch.mask, 0, row, 1), batch.scored});
    parts.loss += loss.item();
    tape.backward(loss);
  }
  for (const auto& [name, parameter] : model.named_parameters()) parts.gradients.emplace_back(name, parameter.grad());
  expect_close(parts, whole, 1e-12, "row by row");
}

TEST(Llama, ThePlanPostsTheEventsOfTheRun) {
  for (const LossOptions& options : {LossOptions{}, LossOptions{.recompute = Recompute::attention}, LossOptions{.recompute = Recompute::block, .loss_chunk = 7, .feed_forward_chunk = 6}}) {
    const auto plan = [&](Device device) {
      const auto ledger = std::make_shared<Ledger>();
      const With on(&Ambient::ledger, ledger);
      const Llama model(nn::root({.device = device}), small);
      AdamW optimizer(model.named_parameters(), {.lr = 1e-3});
      optimizer.prepare();
      const nn::TokenBatch batch = device.meta ? nn::token_batch(empty({2, 41}, Dtype::i32, device)) : random_batch(2, 41, 50, false);
      return record_plan(ledger, [&] {
        {
          Tape tape;
          tape.backward(model.training_loss(batch, options));
        }
        optimizer.step();
        optimizer.zero_grad();
      });
    };
    const Plan planned = plan(meta()), run = plan(cpu);
    EXPECT_EQ(first_difference(planned.events, run.events), "");
    EXPECT_EQ(planned.peak, run.peak);
  }
}

/// One step of one block of width 512 over a sequence: bytes at the peak.
int64_t peak_of_a_step(int64_t length, Device device) {
  const auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  const Llama model(nn::root({.device = device}), {.vocab_size = 256, .hidden_size = 512, .num_hidden_layers = 1, .num_attention_heads = 8});
  AdamW optimizer(model.named_parameters(), {.lr = 1e-3});
  optimizer.prepare();
  const Tensor tokens = device.meta ? empty({1, length + 1}, Dtype::u8, device) : Rng(8).integers({1, length + 1}, 0, 256, Dtype::u8);
  {
    Tape tape;
    const Tensor loss = model.training_loss(nn::token_batch(tokens), {.loss_chunk = 2048, .feed_forward_chunk = 2048});
    if (!device.meta) {
      EXPECT_TRUE(std::isfinite(loss.item()));
    }
    tape.backward(loss);
  }
  for (const auto& [name, parameter] : model.named_parameters()) EXPECT_TRUE(parameter.grad().defined()) << name;
  optimizer.step();
  return ledger->peak();
}

TEST(Llama, ABlockAt131072TokensNeedsLessThanFourGiB) {
  const int64_t half = peak_of_a_step(65536, meta()), whole = peak_of_a_step(131072, meta());
  EXPECT_LT(whole, int64_t(4) << 30);
  EXPECT_NEAR(double(whole) / double(half), 2, 0.04);
  EXPECT_EQ(peak_of_a_step(2500, meta()), peak_of_a_step(2500, cpu));  // two pieces of each kind
}

TEST(Llama, ABlockTrainsAt131072TokensNightly) {
  const int64_t peak = peak_of_a_step(131072, cpu);
  EXPECT_EQ(peak, peak_of_a_step(131072, meta()));
  EXPECT_LT(peak, int64_t(4) << 30);
}

TEST(Llama, WrongConfigurationsNameTheKey) {
  const auto message = [](const LlamaConfig& config) -> std::string {
    try {
      config.validate();
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message({.hidden_size = 30, .num_attention_heads = 4}), "num_attention_heads: 4 heads do not divide hidden_size = 30; set head_dim otherwise");
  EXPECT_EQ(message({.num_attention_heads = 4, .num_key_value_heads = 3}), "num_key_value_heads: 3 does not divide num_attention_heads = 4");
  EXPECT_EQ(message({.rope_scaling = {.rope_type = "yarn"}}), "rope_scaling.rope_type: unknown scaling \"yarn\"; use default, linear, ntk, dynamic or llama3");
  EXPECT_EQ(message({.head_dim = 5}), "head_dim: must be even, got 5");
  EXPECT_EQ(message({}), "");
}

TEST(Llama, SevenBillionParametersOnMeta) {
  const auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  const Llama model(nn::root({.device = meta()}), {.vocab_size = 32000, .hidden_size = 4096, .intermediate_size = 11008, .num_hidden_layers = 32, .num_attention_heads = 32});
  EXPECT_EQ(model.parameter_count(), 6'738'415'616);
}

}  // namespace
}  // namespace spool::test
