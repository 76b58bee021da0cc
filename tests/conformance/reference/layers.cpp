// Products, normalisation, embedding, cross-entropy and dropout.
#include "reference.h"

#include <spool/tensor/random.h>

namespace spool::test {
namespace {

void matmul_of(Comparison& c) {
  const int64_t m = 5, n = 3, k = 7;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Tensor a = c.rng().normal(ta ? Shape{2, k, m} : Shape{2, m, k}), b = c.rng().normal(tb ? Shape{2, n, k} : Shape{2, k, n});
      const Array x(a), y(b);
      Array to(Shape{2, m, n});
      for (int64_t s = 0; s < 2; ++s)
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j)
            for (int64_t p = 0; p < k; ++p) to.at({s, i, j}) += (ta ? x.at({s, p, i}) : x.at({s, i, p})) * (tb ? y.at({s, j, p}) : y.at({s, p, j}));
      c.expect(concat("transposed ", ta, " ", tb), matmul(a, b, {.transpose_a = ta, .transpose_b = tb}), to);
    }
  }
}

double activate(double x, Activation a) {
  switch (a) {
    case Activation::none: return x;
    case Activation::relu: return x > 0 ? x : 0;
    case Activation::gelu_erf: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::silu: return x / (1 + std::exp(-x));
  }
  return 0;
}
constexpr Activation activations[] = {Activation::none, Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu};

void linear_of(Comparison& c) {
  for (const Activation activation : activations) {
    const Tensor x = c.rng().normal({2, 5, 7}), w = c.rng().normal({3, 7}), b = c.rng().normal({3});
    Array to(Shape{2, 5, 3});
    for (int64_t s = 0; s < 2; ++s)
      for (int64_t i = 0; i < 5; ++i)
        for (int64_t o = 0; o < 3; ++o) {
          double sum = Array(b).at({o});
          for (int64_t p = 0; p < 7; ++p) sum += Array(x).at({s, i, p}) * Array(w).at({o, p});
          to.at({s, i, o}) = activate(sum, activation);
        }
    c.expect(concat("activation ", int(activation)), linear(x, w, b, activation), to);
  }
}

/// The slope of the activation by differences: its own formulas are checked elsewhere.
void activation_backward_of(Comparison& c) {
  for (const Activation activation : activations) {
    const Tensor x = c.rng().uniform({4, 5}, 0.1, 2), w = from({{1, 0, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 0, 1, 0, 0}, {0, 0, 0, 1, 0}, {0, 0, 0, 0, 1}}, Dtype::f64);
    const Tensor u = c.rng().normal({4, 5});
    Array to(x);
    const Numbers weights = u.to_vector<double>();
    for (size_t i = 0; i < to.values.size(); ++i) {
      const double at = to.values[i], h = 1e-3;
      const auto f = [&](double s) { return activate(at + s * h, activation); };
      to.values[i] = weights[i] * (8 * (f(1) - f(-1)) - (f(2) - f(-2))) / (12 * h);
    }
    c.expect(concat("activation ", int(activation)), gradients_of([&](const Tensors& in) { return Tensors{linear(in[0], w, {}, activation)}; }, {x}, {u})[0], to, 1e-9);
  }
}

struct NormInputs {
  Tensor x, weight, bias, u;
};
NormInputs norm_inputs(Comparison& c) { return {c.rng().normal({6, 9}), c.rng().normal({9}), c.rng().normal({9}), c.rng().normal({6, 9})}; }

Array normalised(const Array& x, double eps, bool centred, Numbers* scales = nullptr) {
  Array out = x;
  for (int64_t r = 0; r < x.rows(); ++r) {
    double mean = 0, square = 0;
    for (int64_t i = 0; centred && i < x.columns(); ++i) mean += x.at({r, i}) / double(x.columns());
    for (int64_t i = 0; i < x.columns(); ++i) square += (x.at({r, i}) - mean) * (x.at({r, i}) - mean) / double(x.columns());
    for (int64_t i = 0; i < x.columns(); ++i) out.at({r, i}) = (x.at({r, i}) - mean) / std::sqrt(square + eps);
    if (scales) scales->push_back(1 / std::sqrt(square + eps));
  }
  return out;
}

Reference norm_of(bool centred) {
  return [centred](Comparison& c) {
    const auto [x, weight, bias, u] = norm_inputs(c);
    for (const double eps : {1e-5, 0.5}) {
      const Array plain = normalised(Array(x), eps, centred);
      Array scaled = plain;
      for (int64_t r = 0; r < 6; ++r)
        for (int64_t i = 0; i < 9; ++i) scaled.at({r, i}) = plain.at({r, i}) * Array(weight).at({i}) + (centred ? Array(bias).at({i}) : 0);
      c.expect("plain", centred ? layer_norm(x, {}, {}, eps) : rms_norm(x, {}, eps), plain);
      c.expect("with parameters", centred ? layer_norm(x, weight, bias, eps) : rms_norm(x, weight, eps), scaled);
    }
  };
}

/// dx by the quotient rule over all pairs of elements of a row; dweight and dbias as sums over rows.
void norm_backward_of(Comparison& c) {
  for (const bool centred : {true, false}) {
    const auto [x, weight, bias, u] = norm_inputs(c);
    Numbers scale;
    const Array h = normalised(Array(x), 0.25, centred, &scale);
    Array dx(x.shape()), dw(Shape{9}), db(Shape{9});
    for (int64_t r = 0; r < 6; ++r) {
      for (int64_t j = 0; j < 9; ++j) {
        dw.at({j}) += Array(u).at({r, j}) * h.at({r, j});
        db.at({j}) += Array(u).at({r, j});
        for (int64_t i = 0; i < 9; ++i) {
          const double slope = scale[size_t(r)] * (double(i == j) - (centred ? 1.0 / 9 : 0) - h.at({r, i}) * h.at({r, j}) / 9);  // dh_j/dx_i
          dx.at({r, i}) += Array(u).at({r, j}) * Array(weight).at({j}) * slope;
        }
      }
    }
    const Tensors g = gradients_of([&](const Tensors& in) { return Tensors{centred ? layer_norm(in[0], in[1], in[2], 0.25) : rms_norm(in[0], in[1], 0.25)}; },
                                   centred ? Tensors{x, weight, bias} : Tensors{x, weight}, {u});
    c.expect("dx", g[0], dx);
    c.expect("dweight", g[1], dw);
    if (centred) c.expect("dbias", g[2], db);
  }
}

void embedding_of(Comparison& c) {
  const Tensor table = c.rng().normal({4, 3}), ids = c.rng().integers({2, 5}, 0, 4);
  const auto id = ids.to_vector<int64_t>();
  Array to(Shape{2, 5, 3});
  for (int64_t i = 0; i < 10; ++i)
    for (int64_t j = 0; j < 3; ++j) to.values[size_t(i * 3 + j)] = Array(table).at({id[size_t(i)], j});
  c.expect("value", embedding(table, ids), to, 0);
}
void embedding_backward_of(Comparison& c) {
  const Tensor table = zeros({4, 2}, Dtype::f64), ids = from(std::span<const int64_t>(std::vector<int64_t>{1, 3, 1, 1}));
  const Tensor u = from({{1, 10}, {2, 20}, {3, 30}, {4, 40}}, Dtype::f64);
  c.expect("repeated ids", gradients_of([&](const Tensors& in) { return Tensors{embedding(in[0], ids)}; }, {table}, {u})[0], Numbers{0, 0, 8, 80, 0, 0, 2, 20}, 0);
}

struct Scored {
  Array losses, probabilities;
  double count = 0;
};
Scored scored(const Array& logits, const std::vector<int64_t>& targets, int64_t ignored, double smoothing) {
  Scored out{Array(Shape{logits.rows()}), logits, 0};
  for (int64_t r = 0; r < logits.rows(); ++r) {
    double sum = 0;
    for (int64_t i = 0; i < logits.columns(); ++i) sum += std::exp(logits.at({r, i}));
    for (int64_t i = 0; i < logits.columns(); ++i) out.probabilities.at({r, i}) = std::exp(logits.at({r, i})) / sum;
    if (targets[size_t(r)] == ignored) continue;
    out.count += 1;
    for (int64_t i = 0; i < logits.columns(); ++i)
      out.losses.at({r}) -= ((1 - smoothing) * double(i == targets[size_t(r)]) + smoothing / double(logits.columns())) * std::log(out.probabilities.at({r, i}));
  }
  return out;
}

void cross_entropy_of(Comparison& c) {
  const Tensor logits = c.rng().normal({5, 7});
  const std::vector<int64_t> targets{3, -100, 0, 6, -100};
  const Tensor t = from(std::span<const int64_t>(targets));
  for (const double smoothing : {0.0, 0.2}) {
    const Scored s = scored(Array(logits), targets, -100, smoothing);
    double sum = 0;
    for (const double loss : s.losses.values) sum += loss;
    c.expect("none", cross_entropy(logits, t, {.reduction = Reduction::none, .label_smoothing = smoothing}), s.losses);
    c.expect("sum", cross_entropy(logits, t, {.reduction = Reduction::sum, .label_smoothing = smoothing}), Array(Shape{}, sum));
    c.expect("mean", cross_entropy(logits, t, {.label_smoothing = smoothing}), Array(Shape{}, sum / s.count));
  }
}
void cross_entropy_backward_of(Comparison& c) {
  const Tensor logits = c.rng().normal({5, 7});
  const std::vector<int64_t> targets{3, -100, 0, 6, -100};
  const Tensor t = from(std::span<const int64_t>(targets));
  for (const double smoothing : {0.0, 0.2}) {
    for (const Reduction reduction : {Reduction::none, Reduction::sum, Reduction::mean}) {
      const Scored s = scored(Array(logits), targets, -100, smoothing);
      const Tensor u = c.rng().normal(reduction == Reduction::none ? Shape{5} : Shape{});
      Array to(logits.shape());
      for (int64_t r = 0; r < 5; ++r)
        for (int64_t i = 0; i < 7; ++i) {
          if (targets[size_t(r)] == -100) continue;
          const double weight = u.to_vector<double>()[reduction == Reduction::none ? size_t(r) : 0] / (reduction == Reduction::mean ? s.count : 1);
          to.at({r, i}) = weight * (s.probabilities.at({r, i}) - (1 - smoothing) * double(i == targets[size_t(r)]) - smoothing / 7);
        }
      c.expect(concat("reduction ", int(reduction)),
               gradients_of([&](const Tensors& in) { return Tensors{cross_entropy(in[0], t, {.reduction = reduction, .label_smoothing = smoothing})}; }, {logits}, {u})[0], to);
    }
  }
}

/// Which elements fall is a function of the key and the place: word c mod 4 of Philox at counter (c / 4, row, row >> 32, leading axes).
void dropout_of(Comparison& c) {
  const Tensor x = c.rng().normal({2, 3, 9});
  const RandomKey key(5);
  const double p = 0.3;
  const int64_t position = (int64_t(1) << 33) + 4;
  Array to(x);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t l = 0; l < 3; ++l)
      for (int64_t i = 0; i < 9; ++i) {
        const auto row = uint64_t(position + l);
        const uint32_t word = philox4x32({uint32_t(i / 4), uint32_t(row), uint32_t(row >> 32), uint32_t(b)}, key.words())[size_t(i % 4)];
        to.at({b, l, i}) = double(word) < p * 0x1p32 ? 0 : to.at({b, l, i}) / (1 - p);
      }
  c.expect("value", dropout(x, p, key, {.position = position}), to);
}

[[maybe_unused]] const bool added = add_references({
    {"matmul", matmul_of},
    {"linear", linear_of},
    {"activation_backward", activation_backward_of},
    {"layer_norm", norm_of(true)},
    {"rms_norm", norm_of(false)},
    {"norm_backward", norm_backward_of},
    {"embedding", embedding_of},
    {"embedding_backward", embedding_backward_of},
    {"cross_entropy", cross_entropy_of},
    {"cross_entropy_backward", cross_entropy_backward_of},
    {"dropout", dropout_of},
});

}  // namespace
}  // namespace spool::test
