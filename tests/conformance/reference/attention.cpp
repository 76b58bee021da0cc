// Softmax attention pair by pair, and the parts of a LLaMA block.
#include "reference.h"

namespace spool::test {
namespace {

struct Case {
  Tensor q, k, v;
  AttentionOptions options;
  bool visible(int64_t i, int64_t j) const {
    const int64_t ahead = options.k_offset + j - options.q_offset - i;
    return !(options.causal && ahead > 0) && !(options.window && std::abs(ahead) >= options.window);
  }
  double scale() const { return options.scale != 0 ? options.scale : 1 / std::sqrt(double(q.size(3))); }
};

std::vector<Case> cases(Comparison& c) {
  std::vector<Case> out;
  for (const AttentionOptions& o : {AttentionOptions{}, {.causal = false, .scale = 0.4}, {.window = 3, .query_tile = 4, .key_tile = 3}, {.causal = false, .window = 2, .q_offset = 3}, {.k_offset = 3}})
    out.push_back({c.rng().normal({2, 7, 6, 4}), c.rng().normal({2, 9, 3, 4}), c.rng().normal({2, 9, 3, 5}), o});
  return out;
}

/// Probabilities [batch, heads, queries, keys], out and lse.
struct Forward {
  Array p, out, lse;
};
Forward forward(const Case& in) {
  const Array q(in.q), k(in.k), v(in.v);
  const int64_t B = q.size(0), L = q.size(1), H = q.size(2), S = k.size(1), D = q.size(3), E = v.size(3), group = H / k.size(2);
  Forward r{Array(Shape{B, H, L, S}), Array(Shape{B, L, H, E}), Array(Shape{B, H, L})};
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t i = 0; i < L; ++i) {
        double total = 0;
        for (int64_t j = 0; j < S; ++j) {
          if (!in.visible(i, j)) continue;
          double score = 0;
          for (int64_t d = 0; d < D; ++d) score += q.at({b, i, h, d}) * k.at({b, j, h / group, d});
          total += r.p.at({b, h, i, j}) = std::exp(in.scale() * score);
        }
        r.lse.at({b, h, i}) = std::log(total);  // −∞ of nothing
        for (int64_t j = 0; j < S; ++j) {
          double& p = r.p.at({b, h, i, j});
          if (total > 0) p /= total;
          for (int64_t e = 0; e < E; ++e) r.out.at({b, i, h, e}) += p * v.at({b, j, h / group, e});
        }
      }
  return r;
}

void attention_of(Comparison& c) {
  for (const Case& in : cases(c)) {
    const Forward r = forward(in);
    const AttentionResult got = attention_with_lse(in.q, in.k, in.v, in.options);
    c.expect("out", got.out, r.out);
    c.expect("lse", got.lse, r.lse);
  }
}

void materialised_of(Comparison& c) {
  for (const Case& in : cases(c)) c.expect("out", attention_materialised(in.q, in.k, in.v, in.options), forward(in).out);
}

/// Gradients of out and, where the op gives it, of lse.
void gradients_against_pairs(Comparison& c, bool materialised) {
  for (const Case& in : cases(c)) {
    const Forward r = forward(in);
    const Tensor u = c.rng().normal(r.out.shape), w = materialised ? zeros(r.lse.shape, Dtype::f64) : c.rng().normal(r.lse.shape);
    const Array q(in.q), k(in.k), v(in.v), du(u), dlse(w);
    Array dq(q.shape), dk(k.shape), dv(v.shape);
    const int64_t L = q.size(1), H = q.size(2), S = k.size(1), group = H / k.size(2);
    for (int64_t b = 0; b < q.size(0); ++b)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t i = 0; i < L; ++i) {
          Numbers dp(static_cast<size_t>(S));
          double mean = 0;
          for (int64_t j = 0; j < S; ++j) {
            for (int64_t e = 0; e < v.size(3); ++e) {
              dp[size_t(j)] += du.at({b, i, h, e}) * v.at({b, j, h / group, e});
              dv.at({b, j, h / group, e}) += r.p.at({b, h, i, j}) * du.at({b, i, h, e});
            }
            mean += r.p.at({b, h, i, j}) * dp[size_t(j)];
          }
          for (int64_t j = 0; j < S; ++j) {
            const double ds = r.p.at({b, h, i, j}) * (dp[size_t(j)] - mean + dlse.at({b, h, i})) * in.scale();
            for (int64_t d = 0; d < q.size(3); ++d) {
              dq.at({b, i, h, d}) += ds * k.at({b, j, h / group, d});
              dk.at({b, j, h / group, d}) += ds * q.at({b, i, h, d});
            }
          }
        }
    const Tensors g = gradients_of(
        [&](const Tensors& t) {
          if (materialised) return Tensors{attention_materialised(t[0], t[1], t[2], in.options)};
          const AttentionResult a = attention_with_lse(t[0], t[1], t[2], in.options);
          return Tensors{a.out, a.lse};
        },
        {in.q, in.k, in.v}, materialised ? Tensors{u} : Tensors{u, w});
    c.expect("dq", g[0], dq);
    c.expect("dk", g[1], dk);
    c.expect("dv", g[2], dv);
  }
}

void attention_backward_of(Comparison& c) { gradients_against_pairs(c, false); }
void materialised_backward_of(Comparison& c) { gradients_against_pairs(c, true); }

void rotary_of(Comparison& c) {
  const Tensor x = c.rng().normal({2, 3, 2, 6}), angles = rotary_angles(3, 5, {.dim = 6, .theta = 50}, Dtype::f64);
  for (const RotaryPairs pairs : {RotaryPairs::interleaved, RotaryPairs::rotate_half}) {
    Array y(x);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t l = 0; l < 3; ++l)
        for (int64_t h = 0; h < 2; ++h)
          for (int64_t j = 0; j < 3; ++j) {
            const int64_t one = pairs == RotaryPairs::interleaved ? 2 * j : j, other = pairs == RotaryPairs::interleaved ? 2 * j + 1 : j + 3;
            const double angle = double(5 + l) * std::pow(50.0, -double(j) / 3);
            double &a = y.at({b, l, h, one}), &z = y.at({b, l, h, other});
            const double re = a * std::cos(angle) - z * std::sin(angle), im = a * std::sin(angle) + z * std::cos(angle);
            a = re;
            z = im;
          }
    c.expect("value", rotary(x, angles, pairs), y);
  }
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

void swiglu_backward_of(Comparison& c) {
  const Tensor gate = c.rng().normal({3, 11}), up = c.rng().normal({3, 11}), u = c.rng().normal({3, 11});
  Array dgate(gate), dup(up);
  const Array du(u);
  for (size_t i = 0; i < du.values.size(); ++i) {
    const double g = dgate.values[i], s = sigmoid_of(g), v = dup.values[i];
    dgate.values[i] = du.values[i] * v * (s + g * s * (1 - s));
    dup.values[i] = du.values[i] * g * s;
  }
  const Tensors g = gradients_of([](const Tensors& t) { return Tensors{swiglu(t[0], t[1])}; }, {gate, up}, {u});
  c.expect("dgate", g[0], dgate);
  c.expect("dup", g[1], dup);
}

void add_rms_norm_of(Comparison& c) {
  const Tensor x = c.rng().normal({2, 3, 7}), delta = c.rng().normal({2, 3, 7}), weight = c.rng().normal({7});
  Array sum(x), y(x.shape());
  const Array d(delta), w(weight);
  for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += d.values[i];
  for (int64_t r = 0; r < 6; ++r) {
    double square = 0;
    for (int64_t i = 0; i < 7; ++i) square += std::pow(sum.values[size_t(7 * r + i)], 2);
    for (int64_t i = 0; i < 7; ++i) y.values[size_t(7 * r + i)] = sum.values[size_t(7 * r + i)] / std::sqrt(square / 7 + 0.3) * w.values[size_t(i)];
  }
  const AddedNorm got = add_rms_norm(x, delta, weight, 0.3);
  c.expect("sum", got.sum, sum);
  c.expect("y", got.y, y);
}

[[maybe_unused]] const bool added = add_references({
    {"attention", attention_of},
    {"attention_materialised", materialised_of},
    {"attention_materialised_backward", materialised_backward_of},
    {"attention_backward", attention_backward_of},
    {"rotary", rotary_of},
    {"swiglu", elementwise([](double gate, double up) { return gate * sigmoid_of(gate) * up; })},
    {"swiglu_backward", swiglu_backward_of},
    {"add_rms_norm", add_rms_norm_of},
});

}  // namespace
}  // namespace spool::test
