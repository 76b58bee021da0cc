// One slice of Algorithm 1 against finite differences, and linear attention in its three forms: the fused op, a scan over single tokens,
// and the explicit masked product. Slim acceptance check 5.
#include "state_support.h"

#include <spool/ops/favor.h>

namespace spool::test {
namespace {

using nn::Performer;
using nn::PerformerConfig;
using nn::token_batch;

/// Takes states from a list and keeps what is left.
class ListCarry : public Carry {
 public:
  explicit ListCarry(Tensors start) : start_(std::move(start)), end(start_.size()) {}
  Tensor enter(int i, const std::function<Tensor(const Tensor&)>&) override { return start_[size_t(i)]; }
  void leave(int i, Tensor next) override { end[size_t(i)] = std::move(next); }

 private:
  Tensors start_;

 public:
  Tensors end;
};

/// Φ = L + ⟨B, G⟩ of positions [begin, end): the slice's loss and its final states against given cotangents.
struct SlicePhi {
  const Performer& model;
  nn::TokenBatch batch;
  int64_t begin, end;
  Tensors cotangents;
  Tensor operator()(const Tensors& states) const {
    ListCarry carry(states);
    Tensor phi = model.slice_loss(batch, begin, end, carry);
    for (size_t i = 0; i < states.size(); ++i) phi = phi + sum(carry.end[i] * cotangents[i]);
    return phi;
  }
};

/// Elements of a gradient, as given and by a central difference of four points.
struct Compared {
  std::vector<double> given, numeric;
};
Compared differences(const SlicePhi& phi, const Tensors& states, const Tensor& varied, const Tensor& analytic, double step, int64_t count, uint64_t seed) {
  Generator random(seed);
  Compared out;
  const NoGrad quiet;
  for (int64_t n = 0; n < std::min(count, varied.numel()); ++n) {
    const int64_t at = varied.numel() <= count ? n : random.integer(0, varied.numel());
    double& x = varied.data<double>()[at];
    const double before = x;
    const auto value = [&](double shift) {
      x = before + shift;
      return phi(states).item();
    };
    out.numeric.push_back((8 * (value(step) - value(-step)) - (value(2 * step) - value(-2 * step))) / (12 * step));
    x = before;
    out.given.push_back(analytic.data<double>()[at]);
  }
  return out;
}

TEST(SliceGradient, MatchesFiniteDifferencesWithRespectToParametersAndStates) {
  for (const char* feature : {"sqr", "relu", "elu+1", "abs", "favor+", "favor+_2"}) {
    if (slow_build && std::string(feature) != "relu") continue;
    for (const nn::NormPlacement norm : {nn::NormPlacement::branch, nn::NormPlacement::pre}) {
      const bool smooth = std::string(feature) == "sqr" || std::string(feature).starts_with("favor");
      const double step = smooth ? 1e-3 : 1e-5;  // a stencil must not reach across a kink
      const PerformerConfig config{.vocab = 16, .d_model = 16, .layers = 2, .heads = 2, .d_ff = 12, .feature = feature, .norm = norm};
      const Performer model(nn::root({.seed = 8, .dtype = Dtype::f64}), config);
      const auto batch = token_batch(random_tokens(2, 30, 3, 16));
      Rng rng(4);
      Tensors states, cotangents;
      {  // the states that the tokens before the slice leave, so that key sums are positive as in a run
        auto stream = model.stream(2, Dtype::f64);
        model.advance(stream, slice(batch.tokens, 1, 0, 11));
        for (const Tensor& state : stream.states) {
          states.push_back(contiguous_copy(state));
          cotangents.push_back(rng.normal(state.shape(), 0.3));
        }
      }
      const SlicePhi phi{model, batch, 11, 24, cotangents};
      Tensors wrt = states;
      for (const Tensor& state : states) state.requires_grad(true);
      const auto parameters = model.named_parameters();
      for (const auto& [name, parameter] : parameters) wrt.push_back(parameter);
      Tape tape;
      const Tensors gradients = tape.gradient({phi(states)}, wrt);
      Compared all;
      for (size_t i = 0; i < wrt.size(); ++i) {
        const std::string name = i < states.size() ? "state of layer " + std::to_string(i) : parameters[i - states.size()].first;
        ASSERT_TRUE(gradients[i].defined()) << name;
        const Compared one = differences(phi, states, wrt[i], gradients[i], step, 24, i);
        EXPECT_LE(relative(one.given, one.numeric), 1e-6) << feature << ", " << name;  // single tensors: ten times the limit
        all.given.insert(all.given.end(), one.given.begin(), one.given.end());
        all.numeric.insert(all.numeric.end(), one.numeric.begin(), one.numeric.end());
      }
      EXPECT_LE(relative(all.given, all.numeric), 1e-7) << feature;
    }
  }
}

/// g as ops on their own.
Tensor mapped(const Tensor& x, Feature feature) {
  switch (feature) {
    case Feature::sqr: return x * x;
    case Feature::relu: return relu(x);
    case Feature::elu1: return elu(x) + 1.0;
    case Feature::abs: return abs(x);
    case Feature::identity: break;
  }
  return x;
}

Tensor heads_first(const Tensor& x) { return permute(x, {0, 2, 1, 3}); }

/// (tril(g(Q)·g(K)ᵀ)·[V, 1] + g(Q)·R₀), numerator over denominator, and R₀ + g(K)ᵀ·[V, 1], with every product written out.
Tensors masked_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& start, Feature feature) {
  const int64_t length = k.size(1), dim = v.size(3);
  const Tensor gq = heads_first(mapped(q, feature)), gk = heads_first(mapped(k, feature));
  const Tensor one = ones({v.size(0), v.size(2), length, 1}, v.dtype()), values = concat({heads_first(v), one}, -1);
  std::vector<double> later(size_t(length * length), 0.0);
  for (int64_t l = 0; l < length; ++l) std::fill_n(later.begin() + l * length + l + 1, length - l - 1, 1.0);
  const Tensor scores = matmul(gq, gk, {.transpose_b = true});
  const Tensor hidden = expand(from(std::span<const double>(later), Shape{length, length}, Dtype::boolean), scores.shape());
  const Tensor total = matmul(masked_fill(scores, hidden, 0), values) + matmul(gq, start);
  const Tensor num = slice(total, 3, 0, dim), den = expand(slice(total, 3, dim, dim + 1), num.shape());
  const Tensor none = den <= 1e-16;  // no key to attend to: 0, and no gradient
  return {heads_first(masked_fill(num / masked_fill(den, none, 1), none, 0)), start + matmul(gk, values, {.transpose_a = true})};
}

struct Case {
  const char* label;
  int64_t batch, length, heads, features, dim;
};

TEST(SliceGradient, FusedScannedAndExplicitAttentionAgree) {
  struct Map {
    const char* name;
    Feature feature;
    int64_t blocks;  // of random features; 0 for elementwise maps
  };
  const Map maps[] = {{"sqr", Feature::sqr, 0},  {"relu", Feature::relu, 0},        {"elu+1", Feature::elu1, 0},
                      {"abs", Feature::abs, 0}, {"favor+", Feature::identity, 1}, {"favor+_2", Feature::identity, 2}};
  const Case cases[] = {{"one token", 1, 1, 1, 7, 2}, {"block and a bit", 2, 37, 3, 6, 5}, {"three blocks less one", 1, 107, 2, 9, 17}, {"square", 3, 50, 2, 8, 8}};
  for (const Map& map : maps) {
    for (const Case& c : cases) {
      Rng rng(uint64_t(c.length));
      const Tensor q = rng.normal({c.batch, c.length, c.heads, c.features}), k = rng.normal({c.batch, c.length, c.heads, c.features}), v = rng.normal({c.batch, c.length, c.heads, c.dim});
      const int64_t features = map.blocks ? map.blocks * c.features : c.features;
      const Tensor start = rng.uniform({c.batch, c.heads, features, c.dim + 1}, 0.1, 1), u = rng.normal(v.shape()), w = rng.normal(start.shape());
      const Tensor omega = map.blocks ? favor_omega(c.heads, c.features, map.blocks, RandomKey(3), Dtype::f64) : Tensor();
      for (const Tensor& t : {q, k, v, start}) t.requires_grad(true);
      const auto run = [&](const auto& form) {
        Tape tape;
        const Tensors out = form(omega.defined() ? favor_features(q, omega) : q, omega.defined() ? favor_features(k, omega) : k);
        Tensors all = tape.gradient(out, {q, k, v, start}, {u, w});
        for (const Tensor& t : out) all.push_back(t.detach());
        return all;
      };
      const Tensors exact = run([&](const Tensor& fq, const Tensor& fk) { return masked_attention(fq, fk, v, start, map.feature); });
      const Tensors fused = run([&](const Tensor& fq, const Tensor& fk) {
        const auto [out, state] = linear_attention(fq, fk, v, start, {.feature = map.feature});
        return Tensors{out, state};
      });
      const auto scanned = [&](int64_t chunk, StatePolicy policy) {
        return run([&](const Tensor& fq, const Tensor& fk) {
          const ScanResult result = scan_attention({fq, fk, v}, start, {.chunk = chunk, .state = policy}, map.feature);
          return Tensors{result.pieces[0], result.carry[0]};
        });
      };
      const Tensors tokens = scanned(1, StatePolicy::subtract64), ragged = scanned(11, StatePolicy::subtract64), stored = scanned(1, StatePolicy::store);
      const char* results[] = {"dq", "dk", "dv", "dstate", "out", "state"};
      for (size_t i = 0; i < exact.size(); ++i) {
        EXPECT_LE(relative(fused[i], exact[i]), 1e-12) << map.name << ", " << c.label << ", fused, " << results[i];
        EXPECT_LE(relative(tokens[i], exact[i]), 1e-12) << map.name << ", " << c.label << ", single tokens, " << results[i];
        EXPECT_LE(relative(ragged[i], exact[i]), 1e-12) << map.name << ", " << c.label << ", slices of 11, " << results[i];
        EXPECT_LE(relative(stored[i], exact[i]), 1e-12) << map.name << ", " << c.label << ", stored states, " << results[i];
      }
    }
  }
}

}  // namespace
}  // namespace spool::test
