// Causal linear attention in its O(L²) form: every pair of tokens, nothing carried.
#include "reference.h"

namespace spool::test {
namespace {

double feature_of(double x, Feature f) {
  switch (f) {
    case Feature::identity: return x;
    case Feature::sqr: return x * x;
    case Feature::relu: return x > 0 ? x : 0;
    case Feature::elu1: return x > 0 ? x + 1 : std::exp(x);
    case Feature::abs: return std::fabs(x);
  }
  return 0;
}
double feature_slope(double x, Feature f) {
  switch (f) {
    case Feature::identity: return 1;
    case Feature::sqr: return 2 * x;
    case Feature::relu: return x > 0;
    case Feature::elu1: return x > 0 ? 1 : std::exp(x);
    case Feature::abs: return x > 0 ? 1 : -1;
  }
  return 0;
}
constexpr Feature features[] = {Feature::identity, Feature::sqr, Feature::relu, Feature::elu1, Feature::abs};

constexpr int64_t B = 2, L = 6, H = 2, M = 4, D = 3;

struct Case {
  Tensor q, k, v, state;
  explicit Case(Comparison& c)
      : q(c.rng().uniform({B, L, H, M}, 0.1, 1)), k(c.rng().uniform({B, L, H, M}, 0.1, 1)), v(c.rng().normal({B, L, H, D})), state(c.rng().uniform({B, H, M, D + 1}, 0.1, 1)) {}
};

/// Column d of [v, 1].
double value_of(const Array& v, int64_t b, int64_t l, int64_t h, int64_t d) { return d == D ? 1 : v.at({b, l, h, d}); }

struct Forward {
  Array out{Shape{B, L, H, D}}, state{Shape{B, H, M, D + 1}}, den{Shape{B, H, L}};
};
Forward forward(const Case& in, Feature f, bool from_state) {
  const Array q(in.q), k(in.k), v(in.v), start(in.state);
  Forward r;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t m = 0; m < M; ++m)
        for (int64_t d = 0; d <= D; ++d) {
          double sum = from_state ? start.at({b, h, m, d}) : 0;
          for (int64_t l = 0; l < L; ++l) sum += feature_of(k.at({b, l, h, m}), f) * value_of(v, b, l, h, d);
          r.state.at({b, h, m, d}) = sum;
        }
      for (int64_t l = 0; l < L; ++l) {
        Numbers sums(D + 1);
        for (int64_t d = 0; d <= D; ++d)
          for (int64_t m = 0; m < M; ++m) {
            double state = from_state ? start.at({b, h, m, d}) : 0;
            for (int64_t j = 0; j <= l; ++j) state += feature_of(k.at({b, j, h, m}), f) * value_of(v, b, j, h, d);
            sums[size_t(d)] += feature_of(q.at({b, l, h, m}), f) * state;
          }
        for (int64_t d = 0; d < D; ++d) r.out.at({b, l, h, d}) = sums[size_t(d)] / sums[D];
        r.den.at({b, h, l}) = sums[D];
      }
    }
  return r;
}

void linear_attention_of(Comparison& c) {
  for (const Feature f : features) {
    const Case in(c);
    for (const bool from_state : {false, true}) {
      const Forward r = forward(in, f, from_state);
      const auto [out, state] = linear_attention(in.q, in.k, in.v, from_state ? in.state : Tensor(), {.feature = f});
      c.expect(concat("out, feature ", int(f)), out, r.out);
      c.expect(concat("state, feature ", int(f)), state, r.state);
    }
  }
}

void linear_attention_backward_of(Comparison& c) {
  for (const Feature f : features) {
    const Case in(c);
    const Forward r = forward(in, f, true);
    const Tensor u = c.rng().normal({B, L, H, D}), w = c.rng().normal({B, H, M, D + 1});
    const Array q(in.q), k(in.k), v(in.v), start(in.state), du(u), dend(w);
    Array dq(in.q.shape()), dk(in.k.shape()), dv(in.v.shape()), dstate = dend;
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < H; ++h) {
        // cotangents of [num, den] of each token
        Array d(Shape{L, D + 1});
        for (int64_t l = 0; l < L; ++l)
          for (int64_t i = 0; i < D; ++i) {
            d.at({l, i}) = du.at({b, l, h, i}) / r.den.at({b, h, l});
            d.at({l, D}) -= du.at({b, l, h, i}) * r.out.at({b, l, h, i}) / r.den.at({b, h, l});
          }
        for (int64_t l = 0; l < L; ++l)
          for (int64_t m = 0; m < M; ++m)
            for (int64_t i = 0; i <= D; ++i) {
              const double gq = feature_of(q.at({b, l, h, m}), f);
              double state = start.at({b, h, m, i});
              for (int64_t j = 0; j <= l; ++j) {
                const double gk = feature_of(k.at({b, j, h, m}), f);
                state += gk * value_of(v, b, j, h, i);
                dk.at({b, j, h, m}) += d.at({l, i}) * gq * value_of(v, b, j, h, i);
                if (i < D) dv.at({b, j, h, i}) += d.at({l, i}) * gq * gk;
              }
              dq.at({b, l, h, m}) += d.at({l, i}) * state;
              dstate.at({b, h, m, i}) += d.at({l, i}) * gq;
            }
        for (int64_t j = 0; j < L; ++j)
          for (int64_t m = 0; m < M; ++m)
            for (int64_t i = 0; i <= D; ++i) {
              dk.at({b, j, h, m}) += dend.at({b, h, m, i}) * value_of(v, b, j, h, i);
              if (i < D) dv.at({b, j, h, i}) += dend.at({b, h, m, i}) * feature_of(k.at({b, j, h, m}), f);
            }
      }
    for (size_t i = 0; i < dq.values.size(); ++i) {
      dq.values[i] *= feature_slope(q.values[i], f);
      dk.values[i] *= feature_slope(k.values[i], f);
    }
    const Tensors g = gradients_of(
        [&](const Tensors& t) {
          const auto [out, state] = linear_attention(t[0], t[1], t[2], t[3], {.feature = f});
          return Tensors{out, state};
        },
        {in.q, in.k, in.v, in.state}, {u, w});
    c.expect(concat("dq, feature ", int(f)), g[0], dq);
    c.expect(concat("dk, feature ", int(f)), g[1], dk);
    c.expect(concat("dv, feature ", int(f)), g[2], dv);
    c.expect(concat("dstate, feature ", int(f)), g[3], dstate);
  }
}

void linear_attention_sum_of(Comparison& c) {
  for (const Feature f : features) {
    const Case in(c);
    const Array sum = forward(in, f, false).state;
    c.expect(concat("feature ", int(f)), linear_attention_sum(in.k, in.v, {.feature = f}), sum);
    Array start(in.state);
    for (size_t i = 0; i < start.values.size(); ++i) start.values[i] -= sum.values[i];
    c.expect(concat("start, feature ", int(f)), linear_attention_start(in.state, in.k, in.v, {.feature = f}), start);
  }
}

[[maybe_unused]] const bool added = add_references({
    {"linear_attention", linear_attention_of},
    {"linear_attention_backward", linear_attention_backward_of},
    {"linear_attention_sum", linear_attention_sum_of},
});

}  // namespace
}  // namespace spool::test
