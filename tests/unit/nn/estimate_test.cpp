// Closed form = plan, to the byte, over random configurations; = run for small ones; and the numbers of known models.
#include "tests/support.h"

#include <cstdlib>
#include <map>
#include <numeric>

namespace spool::test {
namespace {

using nn::Estimate;
using nn::GptConfig;
using nn::LlamaConfig;
using nn::Recompute;
using nn::StepSizes;

/// What a step posts: its peak, and what is live when backward starts and ends.
struct Posted {
  int64_t start = 0, end = 0, parameters = 0, optimizer = 0, saved = 0, gradients = 0;
  Plan plan;
  std::vector<double> losses;  ///< Of each micro-batch; then the sum of each parameter after the step.
};

template <class Model, class Config>
Posted step_of(const Config& config, const StepSizes& z, Device device, const std::shared_ptr<Arena>& arena = {}) {
  const auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  const Model model(nn::root({.dtype = z.dtype, .device = device}), config);
  Posted out;
  out.parameters = ledger->live_by_category()[Category::parameter];
  std::unique_ptr<Optimizer> optimizer;
  switch (z.optimizer) {
    case nn::OptimizerState::none: optimizer = std::make_unique<Sgd>(model.named_parameters(), SgdOptions{.lr = 1e-3}); break;
    case nn::OptimizerState::momentum: optimizer = std::make_unique<Sgd>(model.named_parameters(), SgdOptions{.lr = 1e-3, .momentum = 0.9}); break;
    case nn::OptimizerState::adam: optimizer = std::make_unique<AdamW>(model.named_parameters(), AdamWOptions{.lr = 1e-3}); break;
  }
  optimizer->prepare();
  out.optimizer = ledger->live_by_category()[Category::optimizer];
  const auto step = [&] {
    for (int64_t part = 0; part < z.accumulate; ++part) {
      Tensor tokens = empty({z.batch, z.length + 1}, z.byte_tokens ? Dtype::u8 : Dtype::i32, device);
      fill(tokens, 3);
      nn::TokenBatch batch = nn::token_batch(tokens);
      if (z.masked) {
        batch.mask = empty(tokens.shape(), Dtype::boolean, device);
        fill(batch.mask, 1);
      }
      tokens = Tensor();
      Tape tape;
      const Tensor loss = model.training_loss(batch, z.loss);
      if (!device.meta) out.losses.push_back(loss.item());
      out.start = ledger->live();
      out.saved = out.start - out.parameters - out.optimizer - loss.nbytes() - ledger->live_by_category()[Category::gradient];
      tape.backward(loss);
      out.end = ledger->live() - loss.nbytes();
    }
    out.gradients = ledger->live_by_category()[Category::gradient];
    optimizer->step();
    optimizer->zero_grad();
  };
  if (arena) {
    const ArenaStep inside(arena);
    out.plan = record_plan(ledger, step);
    inside.finish();
  } else {
    out.plan = record_plan(ledger, step);
  }
  for (const auto& [name, parameter] : model.named_parameters())
    if (!device.meta) out.losses.push_back(sum(cast(parameter, Dtype::f64)).item());
  return out;
}

void expect_equal(const Estimate& e, const Posted& p, const std::string& what) {
  EXPECT_EQ(e.peak.bytes, p.plan.peak) << what << ", at " << e.peak.at;
  EXPECT_EQ(e.start_of_backward.bytes, p.start) << what;
  EXPECT_EQ(e.end_of_backward.bytes, p.end) << what;
  EXPECT_EQ(e.parameter_bytes, p.parameters) << what;
  EXPECT_EQ(e.optimizer_bytes, p.optimizer) << what;
  EXPECT_EQ(e.gradient_bytes, p.gradients) << what;
  EXPECT_EQ(e.saved_bytes, p.saved) << what;
  CategoryBytes known = p.plan.at_peak;
  known[Category::saved] += std::exchange(known[Category::temporary], 0);
  EXPECT_EQ(e.at_peak().bytes, known.bytes) << what << ", at " << e.peak.at;
}

/// Choices drawn one after the other.
class Draw {
 public:
  explicit Draw(uint64_t seed) : generator_(seed) {}
  int64_t one_of(std::initializer_list<int64_t> values) { return values.begin()[generator_.integer(0, int64_t(values.size()))]; }

 private:
  Generator generator_;
};

/// Times ten where SPOOL_MANY is set, for trials by hand.
int64_t many(int64_t count) { return std::getenv("SPOOL_MANY") ? 10 * count : count; }

Recompute drawn_policy(Draw& draw, int64_t blocks) {
  const int64_t some = draw.one_of({1, 2, 3, 4, 5, 6}) % blocks + 1;
  switch (draw.one_of({0, 0, 1, 2, 3, 4, 5, 6, 6})) {
    case 0: return Recompute::none;
    case 1: return Recompute::attention;
    case 2: return Recompute::block;
    case 3: return {Recompute::Scope::attention, some, 1, false};
    case 4: return Recompute::first_blocks(some);
    case 5: return Recompute::groups(some);
    default: return Recompute::groups(some, true);
  }
}

StepSizes drawn_sizes(Draw& draw, int64_t vocabulary, int64_t blocks = 1) {
  StepSizes z{.batch = draw.one_of({1, 2, 3}), .length = draw.one_of({1, 17, 100, 257, 600})};
  const Dtype dtypes[] = {Dtype::f32, Dtype::f64, Dtype::bf16};
  z.dtype = dtypes[draw.one_of({0, 0, 1, 2})];
  z.byte_tokens = vocabulary <= 256 && draw.one_of({0, 1});
  z.loss.recompute = drawn_policy(draw, blocks);
  z.loss.attention = nn::AttentionKind(draw.one_of({0, 0, 1}));
  z.loss.loss_chunk = draw.one_of({0, 0, 33, 100, 4000});
  z.loss.feed_forward_chunk = draw.one_of({0, 0, 1, 16, 99, 256, 4000});
  z.optimizer = nn::OptimizerState(draw.one_of({0, 1, 2, 2}));
  z.masked = draw.one_of({0, 0, 1});
  z.accumulate = draw.one_of({1, 1, 2, 3});
  return z;
}

/// Some of them, each as likely as not.
std::vector<std::string> drawn_ops(Draw& draw, std::initializer_list<const char*> names) {
  std::vector<std::string> out;
  for (const char* name : names)
    if (draw.one_of({0, 1})) out.push_back(name);
  return out;
}
std::vector<std::string> drawn_llama_ops(Draw& draw, const StepSizes& z) {
  const bool pieces = z.loss.feed_forward_chunk > 0 && z.loss.feed_forward_chunk < z.length;
  return pieces ? drawn_ops(draw, {"rms_norm", "swiglu"}) : drawn_ops(draw, {"rms_norm", "add_rms_norm", "swiglu"});
}

LlamaConfig drawn_llama(Draw& draw) {
  LlamaConfig c{.vocab_size = draw.one_of({50, 256, 1000, 3001}), .hidden_size = draw.one_of({32, 64, 96}), .intermediate_size = draw.one_of({0, 40, 200, 513}), .num_hidden_layers = draw.one_of({1, 2, 3, 5}),
                .num_attention_heads = draw.one_of({2, 4, 8}), .num_key_value_heads = draw.one_of({0, 1, 2}), .head_dim = draw.one_of({0, 0, 12}), .sliding_window = draw.one_of({0, 0, 7})};
  c.tie_word_embeddings = draw.one_of({0, 1});
  return c;
}

GptConfig drawn_gpt(Draw& draw) {
  GptConfig c{.vocab_size = draw.one_of({50, 256, 1000, 3001}), .n_positions = 700, .n_embd = draw.one_of({32, 64, 96}), .n_layer = draw.one_of({1, 2, 3, 5}), .n_head = draw.one_of({2, 4, 8}),
              .n_inner = draw.one_of({0, 40, 200})};
  c.tie_word_embeddings = draw.one_of({0, 1});
  c.dropout = 0.1 * double(draw.one_of({0, 1}));
  return c;
}

std::string text_of(const StepSizes& z, int64_t index) {
  return "configuration " + std::to_string(index) + ": batch " + std::to_string(z.batch) + ", length " + std::to_string(z.length) + ", " + std::string(dtype_name(z.dtype)) + ", recompute " +
         to_string(z.loss.recompute) + ", attention " + std::to_string(int(z.loss.attention)) + ", masked " + std::to_string(z.masked) + ", accumulate " + std::to_string(z.accumulate) + ", loss chunk " + std::to_string(z.loss.loss_chunk) + ", feed-forward chunk " +
         std::to_string(z.loss.feed_forward_chunk) + std::accumulate(z.loss.recompute_ops.begin(), z.loss.recompute_ops.end(), std::string(", again"), [](std::string a, const std::string& b) { return a + " " + b; });
}

TEST(Estimate, LlamaEqualsThePlanOverRandomConfigurations) {
  Draw draw(11);
  for (int64_t i = 0; i < many(200); ++i) {
    const LlamaConfig config = drawn_llama(draw);
    StepSizes z = drawn_sizes(draw, config.vocab_size, config.num_hidden_layers);
    z.loss.recompute_ops = drawn_llama_ops(draw, z);
    expect_equal(nn::estimate(config, z), step_of<nn::Llama>(config, z, meta()), text_of(z, i));
    if (HasFailure()) break;
  }
}

TEST(Estimate, GptEqualsThePlanOverRandomConfigurations) {
  Draw draw(12);
  for (int64_t i = 0; i < many(200); ++i) {
    const GptConfig config = drawn_gpt(draw);
    StepSizes z = drawn_sizes(draw, config.vocab_size, config.n_layer);
    z.loss.recompute_ops = drawn_ops(draw, {"layer_norm", "linear"});
    expect_equal(nn::estimate(config, z), step_of<nn::Gpt>(config, z, meta()), text_of(z, i));
    if (HasFailure()) break;
  }
}

nn::PerformerConfig drawn_performer(Draw& draw) {
  nn::PerformerConfig config{.vocab = draw.one_of({50, 256, 1000}), .d_model = draw.one_of({32, 64, 96}), .layers = draw.one_of({1, 2, 3}), .heads = draw.one_of({1, 2, 4, 8}), .d_ff = draw.one_of({8, 40, 200, 513}),
                             .ngram = draw.one_of({1, 1, 2, 4, 9})};
  const char* features[] = {"sqr", "favor+", "favor+_3"};
  config.feature = features[draw.one_of({0, 0, 1, 2})];
  config.norm = nn::NormPlacement(draw.one_of({0, 1}));
  config.out_projection = draw.one_of({0, 1});
  config.dropout = 0.1 * double(draw.one_of({0, 1}));
  return config;
}
StepSizes drawn_full(Draw& draw, int64_t vocabulary) {
  StepSizes z = drawn_sizes(draw, vocabulary);
  z.loss = {.recompute_ops = drawn_ops(draw, {"layer_norm", "linear"})};
  return z;
}
StepSizes drawn_slices(Draw& draw, int64_t vocabulary) {
  StepSizes z = drawn_full(draw, vocabulary);
  z.length = draw.one_of({1, 2, 17, 100, 257});
  z.loss.chunk = draw.one_of({1, 2, 7, 16, 33, 99, 100, 600});
  z.loss.state = StatePolicy(draw.one_of({0, 1, 2}));
  return z;
}
std::string text_of(const nn::PerformerConfig& config, const StepSizes& z, int64_t index) {
  return text_of(z, index) + ", chunk " + std::to_string(z.loss.chunk.value_or(0)) + ", state " + std::to_string(int(z.loss.state)) + ", feature " + config.feature + ", ngram " +
         std::to_string(config.ngram) + ", norm " + std::to_string(int(config.norm)) + ", out_projection " + std::to_string(config.out_projection) + ", dropout " + std::to_string(config.dropout);
}

TEST(Estimate, PerformerEqualsThePlanOverRandomConfigurations) {
  Draw draw(14);
  for (int64_t i = 0; i < many(150); ++i) {
    const nn::PerformerConfig config = drawn_performer(draw);
    const StepSizes z = drawn_full(draw, config.vocab);
    expect_equal(nn::estimate(config, z), step_of<nn::Performer>(config, z, meta()), text_of(config, z, i));
    if (HasFailure()) break;
  }
}

TEST(Estimate, PerformerSlicesEqualThePlanOverRandomConfigurations) {
  Draw draw(15);
  for (int64_t i = 0; i < many(200); ++i) {
    const nn::PerformerConfig config = drawn_performer(draw);
    const StepSizes z = drawn_slices(draw, config.vocab);
    expect_equal(nn::estimate(config, z), step_of<nn::Performer>(config, z, meta()), text_of(config, z, i));
    if (HasFailure()) break;
  }
}

TEST(Estimate, SlicesInTheMiddleAreCountedThoughPassedOver) {
  const nn::PerformerConfig config{.vocab = 256, .d_model = 32, .layers = 2, .heads = 2, .d_ff = 40, .ngram = 4};
  for (const StatePolicy policy : {StatePolicy::subtract, StatePolicy::subtract64, StatePolicy::store}) {
    StepSizes z{.length = 1500, .byte_tokens = true};
    z.loss = {.chunk = 2, .state = policy};
    expect_equal(nn::estimate(config, z), step_of<nn::Performer>(config, z, meta()), text_of(config, z, int64_t(policy)));
  }
  StepSizes far{.length = int64_t(1) << 40, .byte_tokens = true};
  far.loss.chunk = 512;
  StepSizes near = far;
  near.length = 8192;
  EXPECT_EQ(nn::estimate(config, far).peak.bytes - far.length, nn::estimate(config, near).peak.bytes - near.length);  // but for the tokens
}

TEST(Estimate, RefusesWhatTheModelRefuses) {
  const auto refusal = [](const auto& config, const nn::LossOptions& loss) -> std::string {
    try {
      nn::estimate(config, StepSizes{.loss = loss});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal(nn::PerformerConfig(), {.chunk = 0}).find("chunk must be at least 1, got 0"), std::string::npos);
  EXPECT_NE(refusal(nn::PerformerConfig(), {.recompute = Recompute::block}).find("set chunk instead"), std::string::npos);
  EXPECT_NE(refusal(LlamaConfig(), {.chunk = 64}).find("no state of fixed size to cut at"), std::string::npos);
  EXPECT_NE(refusal(GptConfig(), {.chunk = 64}).find("no state of fixed size to cut at"), std::string::npos);
}

/// Closed form = plan = run, event by event, in an arena whose bytes are overwritten before and after each use: what reads them is found
/// by other losses or weights than those of a run outside.
template <class Model, class Config>
void expect_run(const Config& config, const StepSizes& z, const std::string& what) {
  const Posted planned = step_of<Model>(config, z, meta()), run = step_of<Model>(config, z, cpu, std::make_shared<Arena>(planned.plan, ArenaOptions{.poison = true}));
  expect_equal(nn::estimate(config, z), run, what);
  EXPECT_EQ(first_difference(planned.plan.events, run.plan.events), "") << what;
  EXPECT_EQ(run.losses, step_of<Model>(config, z, cpu).losses) << what;
}

TEST(Estimate, EqualsTheRunInAPoisonedArena) {
  Draw draw(13);
  const int64_t trials = slow_build ? 10 : 52;  // four configurations each
  for (int64_t i = 0; i < trials && !::testing::Test::HasFailure(); ++i) {
    const LlamaConfig config = drawn_llama(draw);
    StepSizes z = drawn_sizes(draw, config.vocab_size, config.num_hidden_layers);
    z.length = std::min<int64_t>(z.length, 20);
    z.loss.recompute_ops = drawn_llama_ops(draw, z);
    expect_run<nn::Llama>(config, z, text_of(z, i));
    const GptConfig gpt = drawn_gpt(draw);
    z.loss.recompute = drawn_policy(draw, gpt.n_layer);
    z.loss.recompute_ops = drawn_ops(draw, {"layer_norm", "linear"});
    expect_run<nn::Gpt>(gpt, z, text_of(z, i));
    const nn::PerformerConfig performer = drawn_performer(draw);
    StepSizes full = drawn_full(draw, performer.vocab), slices = drawn_slices(draw, performer.vocab);
    full.length = std::min<int64_t>(full.length, 20);
    slices.length = std::min<int64_t>(slices.length, *slices.loss.chunk < 7 ? 17 : 20);
    expect_run<nn::Performer>(performer, full, text_of(performer, full, i));
    expect_run<nn::Performer>(performer, slices, text_of(performer, slices, i));
  }
}

constexpr LlamaConfig known(int64_t h, int64_t layers, int64_t heads, int64_t key_heads, int64_t f, int64_t vocabulary = 32000) {
  return {.vocab_size = vocabulary, .hidden_size = h, .intermediate_size = f, .num_hidden_layers = layers, .num_attention_heads = heads, .num_key_value_heads = key_heads};
}

TEST(Estimate, KnownModels) {
  const LlamaConfig seven = known(4096, 32, 32, 32, 11008), thirteen = known(5120, 40, 40, 40, 13824), seventy = known(8192, 80, 64, 8, 28672), tiny = known(2048, 22, 32, 4, 5632);
  const StepSizes mixed{.batch = 1, .length = 4096, .dtype = Dtype::bf16};
  EXPECT_EQ(nn::estimate(seven, mixed).parameters, 6'738'415'616);
  EXPECT_EQ(nn::estimate(thirteen, mixed).parameters, 13'015'864'320);
  EXPECT_EQ(nn::estimate(seventy, mixed).parameters, 68'976'648'192);
  EXPECT_EQ(nn::estimate(tiny, mixed).parameters, 1'100'048'384);
  // bf16 parameters and gradients, f32 master copy and two moments: 16 bytes a parameter.
  const Estimate e = nn::estimate(seven, mixed);
  EXPECT_EQ(e.parameter_bytes + e.gradient_bytes + e.optimizer_bytes, 107'814'649'856);
  // A block keeps e·(4h + (2a + 2k)·d + 3f) + 8 + 4a bytes a token: 2·(16384 + 16384 + 33024) + 136 and 2·(8192 + 4608 + 16896) + 136.
  EXPECT_EQ(nn::block_saved_bytes(seven, mixed), 131'720 * 4096);
  EXPECT_EQ(nn::block_saved_bytes(tiny, mixed), 59'528 * 4096);
  EXPECT_EQ(nn::block_saved_bytes(seven, mixed) * 32, 17'264'803'840);
}

/// Bytes of Category::saved, and of the batch, when backward starts, by the module that allocated them; numbers in paths become "*".
std::map<std::string, int64_t> saved_by_module(const Plan& plan) {
  std::map<uint64_t, std::pair<std::string, Category>> live;
  std::map<std::string, int64_t> out;
  const auto starred = [](const std::string& path) {
    std::string text;
    for (size_t i = 0; i < path.size(); ++i) {
      const bool digit = path[i] >= '0' && path[i] <= '9', counts = !text.empty() && (text.back() == '.' || text.back() == '*');
      if (!digit || !counts) text += path[i];
      else if (text.back() == '.') text += '*';
    }
    return text;
  };
  for (const Event& e : plan.events) {
    if (e.kind == Event::Kind::phase) break;
    if (e.kind == Event::Kind::allocate) live[e.id] = {starred(path_name(e.path)), e.category};
    if (e.kind == Event::Kind::mark && live.contains(e.id)) live[e.id].second = e.category;
    if (e.kind == Event::Kind::release) live.erase(e.id);
  }
  for (const Event& e : plan.events) {
    if (e.kind == Event::Kind::phase) break;
    if (e.kind != Event::Kind::allocate || !live.contains(e.id)) continue;
    if (live[e.id].second != Category::saved && *e.op) continue;  // the batch is no op's
    out[live[e.id].first] += e.bytes;
  }
  return out;
}

/// Every saved byte belongs to the row with the longest path that begins its own.
template <class Model, class Config>
void expect_modules(const Config& config, const StepSizes& z, const std::string& what) {
  const std::vector<nn::ModuleEstimate> rows = nn::module_estimates(config, z);
  const Posted p = step_of<Model>(config, z, meta());
  std::map<std::string, int64_t> found;
  for (const auto& [path, bytes] : saved_by_module(p.plan)) {
    const nn::ModuleEstimate* best = nullptr;
    for (const nn::ModuleEstimate& row : rows)
      if ((row.path.empty() || path == row.path || path.starts_with(row.path + ".")) && (!best || row.path.size() > best->path.size())) best = &row;
    ASSERT_TRUE(best) << what << ": " << path;
    found[best->path] += bytes;
  }
  nn::Estimate whole = nn::estimate(config, z);
  int64_t parameters = 0, saved = 0;
  for (const nn::ModuleEstimate& row : rows) {
    EXPECT_EQ(row.saved_bytes, found[row.path]) << what << ": " << row.path;
    parameters += row.parameters;
    saved += row.saved_bytes;
  }
  EXPECT_EQ(parameters, whole.parameters) << what;
  EXPECT_EQ(saved, whole.saved_bytes) << what;
}

TEST(Estimate, ModulesAddUpAndEachIsThePlans) {
  Draw draw(16);
  for (int64_t i = 0; i < 60 && !::testing::Test::HasFailure(); ++i) {
    const LlamaConfig llama = drawn_llama(draw);
    StepSizes z = drawn_sizes(draw, llama.vocab_size);
    z.loss = {};
    z.accumulate = 1;
    expect_modules<nn::Llama>(llama, z, text_of(z, i));
    const GptConfig gpt = drawn_gpt(draw);
    z.byte_tokens = z.byte_tokens && gpt.vocab_size <= 256;
    expect_modules<nn::Gpt>(gpt, z, text_of(z, i));
    const nn::PerformerConfig performer = drawn_performer(draw);
    z.byte_tokens = z.byte_tokens && performer.vocab <= 256;
    expect_modules<nn::Performer>(performer, z, text_of(performer, z, i));
  }
}

TEST(Estimate, StateOfEveryOptimizerAndType) {
  const int64_t n = 6'738'415'616;
  const auto bytes = [&](nn::OptimizerState kind, Dtype dtype) { return nn::optimizer_bytes(kind, n, dtype); };
  EXPECT_EQ(bytes(nn::OptimizerState::none, Dtype::f32), 0);
  EXPECT_EQ(bytes(nn::OptimizerState::momentum, Dtype::f32), 4 * n);
  EXPECT_EQ(bytes(nn::OptimizerState::adam, Dtype::f32), 8 * n);
  EXPECT_EQ(bytes(nn::OptimizerState::adam, Dtype::f64), 16 * n);
  EXPECT_EQ(bytes(nn::OptimizerState::none, Dtype::bf16), 4 * n);
  EXPECT_EQ(bytes(nn::OptimizerState::momentum, Dtype::bf16), 8 * n);
  EXPECT_EQ(bytes(nn::OptimizerState::adam, Dtype::bf16), 12 * n);
}

}  // namespace
}  // namespace spool::test
