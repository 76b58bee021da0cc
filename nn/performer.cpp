#include <spool/autograd/recompute_ops.h>
#include <spool/nn/performer.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cast.h>
#include <spool/ops/concat.h>
#include <spool/ops/cross_entropy.h>
#include <spool/ops/favor.h>
#include <spool/ops/positions.h>
#include <spool/ops/shape.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <charconv>
#include <optional>

namespace spool::nn {
namespace {

/// Blocks n of favor+_n, 1 for favor+, nothing for an elementwise map.
std::optional<int64_t> favor_blocks(const std::string& feature) {
  if (feature == "favor+") return 1;
  if (!feature.starts_with("favor+_")) return {};
  int64_t blocks = 0;
  const char* end = feature.data() + feature.size();
  const auto [rest, error] = std::from_chars(feature.data() + 7, end, blocks);
  return error == std::errc() && rest == end ? blocks : 0;
}

std::optional<Feature> elementwise_feature(const std::string& name) {
  if (name == "sqr") return Feature::sqr;
  if (name == "relu") return Feature::relu;
  if (name == "elu+1") return Feature::elu1;
  if (name == "abs") return Feature::abs;
  return {};
}

/// Zero state at the start, nothing kept at the end: all positions at once.
class WholeSequence : public Carry {
 public:
  Tensor enter(int, const std::function<Tensor(const Tensor&)>&) override { return {}; }
  void leave(int, Tensor) override {}
};

/// The state of a stream, replaced as it goes.
class StreamCarry : public Carry {
 public:
  explicit StreamCarry(Tensors& states) : states_(states) {}
  Tensor enter(int i, const std::function<Tensor(const Tensor&)>&) override { return states_[size_t(i)]; }
  void leave(int i, Tensor next) override { states_[size_t(i)] = next.detach(); }

 private:
  Tensors& states_;
};

}  // namespace

int64_t PerformerConfig::features() const { return d_model / heads * favor_blocks(feature).value_or(1); }

void PerformerConfig::validate() const {
  const auto positive = [](const char* key, int64_t value) { if (value < 1) fail<ConfigError>(key, ": must be at least 1, got ", value); };
  positive("vocab", vocab);
  positive("d_model", d_model);
  positive("layers", layers);
  positive("heads", heads);
  positive("d_ff", d_ff);
  positive("ngram", ngram);
  if (d_model % heads) fail<ConfigError>("heads: ", heads, " heads do not divide d_model = ", d_model);
  if (d_model % 4) fail<ConfigError>("d_model: must be a multiple of 4 (half is learned, a quarter each sines and cosines), got ", d_model);
  if (!(dropout >= 0 && dropout < 1)) fail<ConfigError>("dropout: must be in [0, 1), got ", dropout);
  if (!(eps >= 0 && eps < 1)) fail<ConfigError>("eps: must be in [0, 1), got ", eps);
  if (!elementwise_feature(feature) && favor_blocks(feature).value_or(0) < 1)
    fail<ConfigError>("feature: unknown map \"", feature, "\"; use sqr, relu, elu+1, abs, favor+ or favor+_n");
}

// Attention

Performer::Attention::Attention(Slot at, const PerformerConfig& c)
    : Layer(at),
      config(c),
      query{at("query"), {.in = c.d_model, .out = c.d_model}},
      key{at("key"), {.in = c.d_model, .out = c.d_model}},
      value{at("value"), {.in = c.d_model, .out = c.d_model}} {
  if (c.out_projection) output.emplace(at("output"), Linear::Config{.in = c.d_model, .out = c.d_model});
  if (const auto blocks = favor_blocks(c.feature)) {
    const Slot place = at("omega");
    const With path(&Ambient::path, intern_path(place.path()));
    const RandomKey draw = RandomKey(at.options().seed).fold(place.path());
    omega.emplace(place, favor_omega(c.heads, c.d_model / c.heads, *blocks, draw, at.options().dtype, at.options().device));
  }
}

LinearAttentionOptions Performer::Attention::options() const {
  return {.feature = elementwise_feature(config.feature).value_or(Feature::identity), .eps = config.eps};
}

Tensor Performer::Attention::features(const Tensor& projected) const { return omega ? favor_features(projected, *omega) : projected; }

Tensor Performer::Attention::forward(const Tensor& x, Carry& carry, int layer) const {
  const Shape heads{x.size(0), x.size(1), config.heads, config.d_model / config.heads};
  const Tensor q = features(reshape(query(x), heads)), k = features(reshape(key(x), heads)), v = reshape(value(x), heads);
  const Tensor start = carry.enter(layer, [&](const Tensor& end) { return linear_attention_start(end, k, v, options()); });
  LinearAttentionResult result = linear_attention(q, k, v, start, options());
  carry.leave(layer, std::move(result.state));
  const Tensor merged = reshape(result.out, x.shape());
  return output ? (*output)(merged) : merged;
}

// Block

Performer::Block::Block(Slot at, const PerformerConfig& c)
    : Layer(at),
      config(c),
      attention(at("attention"), c),
      attention_norm(at("attention_norm"), {.dim = c.d_model}),
      up(at("up"), {.in = c.d_model, .out = c.d_ff}),
      down(at("down"), {.in = c.d_ff, .out = c.d_model}),
      feed_forward_norm(at("feed_forward_norm"), {.dim = c.d_model}),
      attention_dropout(at("attention_dropout"), c.dropout),
      feed_forward_dropout(at("feed_forward_dropout"), c.dropout) {}

Tensor Performer::Block::feed_forward(const Tensor& x) const { return down(up(x, Activation::gelu_erf)); }

Tensor Performer::Block::forward(const Tensor& x, Carry& carry, int layer, int64_t position) const {
  if (config.norm == NormPlacement::pre) {
    const Tensor h = x + attention_dropout(attention(attention_norm(x), carry, layer), position);
    return h + feed_forward_dropout(feed_forward(feed_forward_norm(h)), position);
  }
  const Tensor h = x + attention_dropout(attention_norm(attention(x, carry, layer)), position);
  return h + feed_forward_dropout(feed_forward_norm(feed_forward(h)), position);
}

// Performer

namespace {
const PerformerConfig& validated(const PerformerConfig& config) {
  config.validate();
  return config;
}
}  // namespace

Performer::Performer(Slot at, const PerformerConfig& config)
    : Layer(at),
      config_(validated(config)),
      embed_(at("embed"), {.count = config.vocab, .dim = config.d_model / 2}),
      preceding_(at("preceding"), config_.ngram - 1, Embedding::Config{.count = config.vocab, .dim = config.d_model / 2}),
      layers_(at("layers"), config.layers, config_),
      head_(at("head"), {.in = config.d_model, .out = config.vocab}) {}

Tensor Performer::window(const Tensor& tokens, int64_t begin, int64_t end) const {
  const int64_t from = begin - (config_.ngram - 1);
  const Tensor known = slice(tokens, 1, std::max<int64_t>(from, 0), end);
  return from >= 0 ? known : concat({zeros({tokens.size(0), -from}, tokens.dtype(), tokens.device()), known}, 1);
}

Tensor Performer::embedded(const Tensor& window) const {
  const int64_t before = config_.ngram - 1, length = window.size(1) - before;
  Tensor sum = embed_(slice(window, 1, before, before + length));
  for (int64_t back = 1; back <= before; ++back) sum = sum + preceding_[back - 1](slice(window, 1, before - back, before - back + length));
  return sum;
}

Tensor Performer::hidden(const Tensor& window, int64_t position, Carry& carry) const {
  const auto placed = [&] {
    const Tensor tokens = embedded(window);
    const Tensor sinusoids = sinusoidal_positions(tokens.size(1), tokens.size(2), position, tokens.dtype(), tokens.device());
    return concat({tokens, expand(sinusoids, tokens.shape())}, -1);
  };
  Tensor x = placed();
  for (int64_t i = 0; i < layers_.size(); ++i) x = layers_[i](x, carry, int(i), position);
  return x;
}

Tensor Performer::forward(const Tensor& tokens, int64_t position) const {
  WholeSequence carry;
  return head_(hidden(window(tokens, 0, tokens.size(1)), position, carry));
}

Tensor Performer::slice_loss(const TokenBatch& batch, int64_t begin, int64_t end, Carry& carry) const {
  const Tensor logits = head_(hidden(window(batch.tokens, begin, end), begin, carry));
  return cross_entropy(logits, targets_of(batch, begin, end), {.reduction = Reduction::sum, .ignore_index = ignored_target});
}

namespace {
int64_t positions_of(const TokenBatch& batch) {
  const int64_t length = batch.tokens.size(1);
  if (length < 2) fail<ShapeError>("performer: a sequence needs at least 2 tokens, got tokens ", batch.tokens.shape());
  return length - 1;
}
Tensor normalised(const Tensor& sum, int64_t scored) { return sum * (1.0 / double(std::max<int64_t>(scored, 1))); }
}  // namespace

Tensor Performer::loss(const TokenBatch& batch) const {
  const With path(&Ambient::path, interned_path());
  WholeSequence carry;
  return normalised(slice_loss(batch, 0, positions_of(batch), carry), batch.scored);
}

Tensor Performer::chunked_loss(const TokenBatch& batch, int64_t chunk, StatePolicy policy, double* residue) const {
  const With path(&Ambient::path, interned_path());
  const Tensor& table = embed_.weight;
  const bool wide = policy == StatePolicy::subtract64 || table.dtype() == Dtype::f64;
  const int64_t dim = config_.d_model / config_.heads;
  const Shape shape{batch.tokens.size(0), config_.heads, config_.features(), dim + 1};
  Tensors initial;
  for (int64_t i = 0; i < layers_.size(); ++i) initial.push_back(zeros_view(shape, wide ? Dtype::f64 : Dtype::f32, table.device()));
  const auto body = [this, batch](Carry& carry, int64_t begin, int64_t end) { return ScanStep{.sums = {slice_loss(batch, begin, end, carry)}, .pieces = {}}; };
  const ScanResult result = scan("slices", body, initial, positions_of(batch), {.chunk = chunk, .state = policy, .residue = residue});
  return normalised(result.sums[0], batch.scored);
}

Tensor Performer::training_loss(const TokenBatch& batch, const LossOptions& options) const {
  if (options.recompute != Recompute::none) fail<ConfigError>("recompute: a Performer recomputes slices; set chunk instead");
  if (options.loss_chunk || options.feed_forward_chunk) fail<ConfigError>("loss_chunk, feed_forward_chunk: a Performer runs everything in slices; set chunk instead");
  if (options.attention != AttentionKind::blockwise) fail<ConfigError>("attention: a Performer has no softmax attention whose matrix could be kept");
  const RecomputeOps again(options.recompute_ops);
  Tensor result = options.chunk ? chunked_loss(batch, *options.chunk, options.state) : loss(batch);
  again.require_matches();
  return result;
}

std::unique_ptr<DecodeState> Performer::begin(int64_t batch, int64_t) const { return std::make_unique<Stream>(stream(batch)); }

Performer::Stream Performer::stream(int64_t batch, Dtype state_dtype) const {
  Stream out;
  const Shape shape{batch, config_.heads, config_.features(), config_.d_model / config_.heads + 1};
  for (int64_t i = 0; i < layers_.size(); ++i) out.states.push_back(zeros(shape, state_dtype, embed_.weight.value.device()));
  out.recent = zeros({batch, config_.ngram - 1}, Dtype::u8, embed_.weight.value.device());
  return out;
}

Tensor Performer::advance(Stream& stream, const Tensor& tokens) const {
  const With path(&Ambient::path, interned_path());
  const NoGrad quiet;
  StreamCarry carry(stream.states);
  const Tensor known = concat({cast(stream.recent, tokens.dtype()), tokens}, 1);
  Tensor logits = head_(hidden(known, stream.position, carry));
  stream.position += tokens.size(1);
  stream.recent = contiguous_copy(slice(known, 1, tokens.size(1), known.size(1)));
  return logits;
}

void Performer::redraw_features(RandomKey key) {
  for (const Block& block : layers_) {
    const auto& omega = block.attention.omega;
    if (!omega) continue;
    const Tensor& old = omega->value;
    copy(old, favor_omega(config_.heads, old.size(-1), *favor_blocks(config_.feature), key.fold(block.path()), old.dtype(), old.device()));
  }
}

}  // namespace spool::nn
