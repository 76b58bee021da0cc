#include "train/article.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spool/autograd/report.h>
#include <spool/nn/published.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <vector>

#include "train/format.h"
#include "train/step.h"

namespace spool::train {
namespace {

namespace published = nn::published;
using Json = nlohmann::ordered_json;

struct Term {
  std::string name;
  int64_t article = 0, exact = 0;
};
struct Difference {
  std::string id, what;
  int64_t article = 0, exact = 0;
  std::string why;
};
struct Formula {
  std::string name;
  int64_t activations = 0, state = 0;  ///< State 0: the formula has none.
  std::string note;
};

struct Comparison {
  published::Sizes sizes;
  int64_t p = 0;
  std::vector<Term> terms;
  std::vector<Difference> differences;
  std::vector<Formula> formulas;
};

nn::Estimate ours(const RunConfig& config, const nn::Recompute& recompute = nn::Recompute::none) {
  RunConfig c = config;
  c.train.recompute = recompute;
  c.train.accumulate = 1;  // the formulas know no micro-batches
  c.data.task = Task::text;
  return closed_form(c, false).value();
}

int64_t sum_of(const nn::Estimate& e) { return e.parameter_bytes + e.gradient_bytes + e.optimizer_bytes; }

Comparison compare(const RunConfig& config) {
  if (config.model.type != ModelType::llama) fail<ConfigError>("--article: is about LLaMA, and the model is of another type; name one, as in spool plan llama-2-7b --article");
  Comparison c;
  c.sizes = published::sizes_of(config.model.llama, config.data.batch, config.data.seq - 1);
  c.p = int64_t(dtype_size(config.train.dtype));
  const published::Sizes& z = c.sizes;
  const int64_t p = c.p, t = z.tokens(), h = z.width, f = z.feed_forward, a = z.heads, d = z.head_dim, k = z.key_heads, layers = z.layers;
  const published::Article said = published::article(z, p);
  const published::EagerLayer kept = published::eager_layer(z);
  const int64_t parameters = published::parameters(z), attention = 2 * h * d * (a + k), ends = parameters - layers * (attention + 3 * h * f);
  const int64_t kept_mlp = p * t * h + kept.mlp, kept_attention = kept.attention + kept.scores + p * t * h;  // each with its input, as the article counts
  const nn::Estimate estimate = ours(config);
  const int64_t eager = layers * kept.total() + kept.norms / 2 + published::eager_loss(z);

  c.terms = {
      {"feed-forward weights (1)", said.mlp.weights, p * 3 * h * f},
      {"their gradient (2)", said.mlp.gradient, p * 3 * h * f},
      {"their Adam state (3)", said.mlp.optimizer, 2 * p * 3 * h * f},
      {"feed-forward activations (4)", said.mlp.activations, kept_mlp},
      {"feed-forward layer, as printed", said.mlp.total, p * 12 * h * f + kept_mlp},
      {"the same, its own terms added up", said.mlp.sum, p * 12 * h * f + kept_mlp},
      {"attention weights (5)", said.attention.weights, p * attention},
      {"their gradient (6)", said.attention.gradient, p * attention},
      {"their Adam state (7)", said.attention.optimizer, 2 * p * attention},
      {"attention activations", said.attention.activations, kept_attention},
      {"attention layer, as printed", said.attention.total, 4 * p * attention + kept_attention},
      {"the same, its own terms added up", said.attention.sum, 4 * p * attention + kept_attention},
      {fmt::format("total of {} layers", layers), said.total, 4 * p * parameters + eager},
  };
  c.differences = {
      {"E1", "feed-forward sum", said.mlp.total, said.mlp.sum, "adds 6hf where its terms (1) to (3) are 3hf + 3hf + 6hf = 12hf"},
      {"E2", "that sum, rounded", said.mlp.total, said.mlp.sum, fmt::format("its \"1.3 GB\" for Llama 2 7B is the sum with 6hf, in GiB; here {} and {}", binary_size(said.mlp.total), binary_size(said.mlp.sum))},
      {"E3", "attention weights", said.attention.weights, p * attention, "3ha + h² lost the head's width: the projections are 2had + 2hkd"},
      {"E4", "attention sum", said.attention.total - said.attention.activations, 4 * p * attention, "6(ha + h²) is not the sum of (5) to (7) either, which is 12ha + 4h²"},
      {"E5", "feed-forward activations", said.mlp.activations, kept_mlp, "h + 2f a token; SwiGLU run op by op keeps h + 4f: gate, silu(gate), up, their product"},
      {"E6", "attention activations", said.attention.activations, kept_attention, "counts the scores once; the cited code keeps the softmax in f32 and again in 16 bits"},
      {"E7", "key heads", 4 * p * h * a * d, p * attention, "num_key_value_heads is left out: shared key heads shrink two of four projections (parameters and state of one)"},
      {"E8", "parameters outside the layers", 0, 4 * p * ends, "embedding, head and norms, with gradients and moments"},
      {"E9", "parameters and training state", 4 * p * parameters, 16 * parameters, "one precision for all; mixed precision is 2 + 2 + 4 + 4 + 4 bytes a parameter"},
      {"E10", "norms", 0, layers * kept.norms + kept.norms / 2, "each keeps its input in f32, its scale, the normalised value and the result"},
      {"E11", "logits and loss", 0, published::eager_loss(z), "t·V elements in 16 bits, in f32, shifted, and as log-softmax"},
      {"E12", "the sum as a peak", said.total, estimate.peak.bytes, fmt::format("terms that never live together are added; the peak of a step here is at {}", estimate.peak.at)},
      {"E13", "activations, \"the largest part\"", layers * (said.mlp.activations + said.attention.activations), estimate.saved_bytes,
       fmt::format("without a score matrix they are {:.0f} % of the peak here", 100.0 * double(estimate.saved_bytes) / double(estimate.peak.bytes))},
      {"E14", "SGD \"as parameters\"", p * parameters, 0, "true with momentum; plain SGD keeps nothing"},
      {"E15", "quadratic in s", p * layers * a * t * z.length, 4 * layers * a * t, "only where scores are a matrix; blockwise attention keeps one f32 a query and head"},
      {"E16", "never mentioned", 0, estimate.peak.scratch, "working space of ops (this is ours at the peak), dropout masks, recomputation, rounding, fragmentation, contexts"},
  };
  const auto all = [&](published::Megatron kind, int64_t parallel) { return layers * published::megatron_layer(z, kind, parallel); };
  const published::MegatronLm lm = published::megatron_lm(z), shared = published::megatron_lm(z, 8);
  c.formulas = {
      {"the article", layers * (said.mlp.activations + said.attention.activations), said.total - layers * (said.mlp.activations + said.attention.activations), "as printed"},
      {"eager code, bf16 and Adam in bf16", eager, 8 * parameters, "t(24h + 8f + 6as + 8) a layer, final norm, loss"},
      {"eager code, mixed precision", eager, 16 * parameters, "the same"},
      {"Megatron 2205.05198", all(published::Megatron::none, 1), 0, "a GPT layer with f = 4h and dropout"},
      {"  tensor parallel 8", all(published::Megatron::tensor, 8), 0, "a rank"},
      {"  and sequence parallel", all(published::Megatron::sequence, 8), 0, "a rank"},
      {"  and selective recomputation", all(published::Megatron::selective, 8), 0, "a rank; attention's core runs again"},
      {"  full recomputation", all(published::Megatron::full, 1), 0, "layer inputs"},
      {"Megatron-LM's script", lm.activations, lm.state, "18h + 4f a token and layer; 18 bytes a parameter"},
      {"  with SwiGLU counted", lm.activations_swiglu, lm.state, "18h + 6f"},
      {"  distributed optimizer over 8", lm.activations, shared.state, "6 + 12/8 bytes a parameter"},
      {"this engine", estimate.saved_bytes, sum_of(estimate), fmt::format("closed form = plan; peak {}", with_separators(estimate.peak.bytes))},
  };
  for (const nn::Recompute& again : {nn::Recompute::attention, nn::Recompute::block}) {
    const nn::Estimate e = ours(config, again);
    c.formulas.push_back({fmt::format("  recompute {}", to_string(again)), e.saved_bytes, sum_of(e), fmt::format("peak {}", with_separators(e.peak.bytes))});
  }
  return c;
}

}  // namespace

std::string article_text(const RunConfig& config) {
  const Comparison c = compare(config);
  std::string out = fmt::format("\"LLM Training memory\" beside what is so: {}, batch {}, {} positions, {} bytes an element\n\n", config.name, c.sizes.batch, format_count(c.sizes.length), c.p);
  out += fmt::format("  {:<34}{:>22}{:>22}\n", "Bytes, one layer unless said", "the article", "exact");
  for (const Term& term : c.terms) out += fmt::format("  {:<34}{:>22}{:>22}\n", term.name, format_count(term.article), format_count(term.exact));
  out += "  Exact: of the eager code that the article cites, in 16 bits. Its total counts the terms that the article leaves out.\n\n";
  out += fmt::format("  {:<4}{:<32}{:>20}{:>22}\n", "Why they differ", "", "the article", "exact");
  for (const Difference& e : c.differences) out += fmt::format("  {:<4}{:<32}{:>20}{:>22}\n      {}\n", e.id, e.what, format_count(e.article), format_count(e.exact), e.why);
  out += fmt::format("\n  {:<34}{:>20}{:>20}\n", "Other formulas", "activations", "state");
  for (const Formula& f : c.formulas) out += fmt::format("  {:<34}{:>20}{:>20}  {}\n", f.name, format_count(f.activations), f.state ? format_count(f.state) : "", f.note);
  return out + "  State: parameters, gradients and optimizer.\n";
}

Json article_json(const RunConfig& config) {
  const Comparison c = compare(config);
  Json terms = Json::array(), differences = Json::array(), formulas = Json::array();
  for (const Term& term : c.terms) terms.push_back({{"term", term.name}, {"article", term.article}, {"exact", term.exact}});
  for (const Difference& e : c.differences) differences.push_back({{"id", e.id}, {"term", e.what}, {"article", e.article}, {"exact", e.exact}, {"why", e.why}});
  for (const Formula& f : c.formulas) {
    std::string name = f.name;
    name.erase(0, name.find_first_not_of(' '));
    formulas.push_back({{"formula", name}, {"activations", f.activations}, {"state", f.state ? Json(f.state) : Json()}, {"note", f.note}});
  }
  return {{"schema", "spool.article/1"}, {"model", config.name}, {"batch", c.sizes.batch}, {"positions", c.sizes.length}, {"bytes_per_element", c.p},
          {"terms", terms}, {"differences", differences}, {"formulas", formulas}};
}

}  // namespace spool::train
