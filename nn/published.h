#pragma once
// Memory formulas as others published them, for comparison: what they say, and not what is so. What is so is estimate.h. All results are
// bytes unless they say elements. Symbols: b batch, s positions, t = b·s tokens, h width, f feed-forward width, a and k query and key heads of d,
// L layers, V vocabulary, N parameters, p bytes an element.
#include <spool/nn/llama.h>

#include <cstdint>

namespace spool::nn::published {

/// What the formulas are made of.
struct Sizes {
  int64_t batch = 1, length = 0;
  int64_t width = 0, feed_forward = 0, heads = 0, key_heads = 0, head_dim = 0, layers = 0, vocabulary = 0;
  bool tied = false;  ///< The head is the embedding's table.
  int64_t tokens() const { return batch * length; }
};
Sizes sizes_of(const LlamaConfig& config, int64_t batch, int64_t length);

/// Parameters of a LLaMA of these sizes: Vh (2Vh untied) + L·(2had + 2hkd + 3hf + 2h) + h. Elements.
int64_t parameters(const Sizes& sizes);

/// K. Hennara, "LLM Training memory": one layer, every number in one precision of p bytes. `total` is the formula that the article prints,
/// `sum` its own terms added up, and the two differ.
struct ArticleLayer {
  int64_t weights = 0;      ///< Equation (1), 3hf; (5), 3ha + h².
  int64_t gradient = 0;     ///< (2), (6): as many.
  int64_t optimizer = 0;    ///< (3), (7): twice as many, for Adam.
  int64_t activations = 0;  ///< (4), t(h + 2f); unnumbered, b(3asd + as² + sh).
  int64_t total = 0;        ///< p·(6hf + activations); p·(6(ha + h²) + activations).
  int64_t sum = 0;
};
struct Article {
  ArticleLayer mlp, attention;
  int64_t total = 0;  ///< L·(mlp.total + attention.total).
};
Article article(const Sizes& sizes, int64_t p);

/// What the eager code that the article cites (Llama 2 in Hugging Face transformers, bf16, scores as a matrix) keeps for backward in one
/// layer, by its own list: t·(24h + 8f + 6as + 8) in all where ad = h. Keys and values are repeated for all query heads and kept so.
struct EagerLayer {
  int64_t norms = 0;      ///< Two of: x in f32, rstd in f32, x normalised, the result: t(8h + 4).
  int64_t attention = 0;  ///< q, k, v, and the heads' results: 8·t·ad.
  int64_t scores = 0;     ///< softmax in f32 and its copy in bf16: 6·b·a·s².
  int64_t mlp = 0;        ///< gate, silu(gate), up, product: 8·t·f.
  int64_t total() const { return norms + attention + scores + mlp; }
};
EagerLayer eager_layer(const Sizes& sizes);
/// Logits in bf16, in f32, shifted, and their log-softmax: 14·t·V.
int64_t eager_loss(const Sizes& sizes);

/// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2205.05198): activations of one GPT layer with f = 4h,
/// 16 bits and dropout, on each of `parallel` tensor-parallel ranks, which are t here. The rows of Table 2; the first is equation (1).
enum class Megatron : uint8_t {
  none,       ///< sbh·(34 + 5as/h).
  tensor,     ///< Tensor parallel: sbh·(10 + 24/t + 5as/(ht)).
  sequence,   ///< Tensor and sequence parallel: sbh/t·(34 + 5as/h).
  selective,  ///< That with attention's core recomputed: 34·sbh/t.
  full,       ///< The layer recomputed: 2·sbh.
};
/// Throws ConfigError unless `parallel` is at least 1.
int64_t megatron_layer(const Sizes& sizes, Megatron kind, int64_t parallel = 1);

/// theoretical_memory_usage.py of Megatron-LM, one pipeline stage, no tensor parallelism.
struct MegatronLm {
  int64_t parameters = 0;          ///< Elements; counts LayerNorm's weight and bias where LLaMA has a weight.
  int64_t state = 0;               ///< 18 bytes a parameter, or 6 + 12/DP with the distributed optimizer.
  int64_t activations = 0;         ///< L·t(18h + 4f) + t(8 + h) for the embedding + 4t(h + V) for the head.
  int64_t activations_swiglu = 0;  ///< The same with 18h + 6f: SwiGLU keeps three tensors of width f, and the script counts two.
};
/// `data_parallel` 0: without the distributed optimizer.
MegatronLm megatron_lm(const Sizes& sizes, int64_t data_parallel = 0);

}  // namespace spool::nn::published
