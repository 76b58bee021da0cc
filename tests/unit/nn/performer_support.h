#pragma once
// What the Performer's tests share: small configurations, batches, and whole gradients as one vector.
#include <spool/nn/performer.h>
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../../support.h"

namespace spool::test {

/// The configuration of the acceptance checks: three layers, two heads of 64 features.
inline nn::PerformerConfig check_config(std::string feature = "sqr") {
  return {.d_model = 128, .layers = 3, .heads = 2, .d_ff = 512, .feature = std::move(feature)};
}

inline Tensor random_tokens(int64_t batch, int64_t length, uint64_t seed, int64_t vocab = 256) {
  return Rng(seed).integers({batch, length}, 0, vocab, Dtype::u8);
}

struct Gradient {
  double loss = 0;
  std::vector<std::vector<double>> tensors;
};

/// Loss and gradients; chunk 0 means all positions on one tape.
inline Gradient gradient_of(nn::Performer& model, const nn::TokenBatch& batch, int64_t chunk = 0, StatePolicy policy = StatePolicy::subtract64) {
  model.zero_grad();
  Tape tape;
  const Tensor loss = chunk ? model.chunked_loss(batch, chunk, policy) : model.loss(batch);
  tape.backward(loss);
  Gradient out{loss.item(), {}};
  for (const auto& [name, parameter] : model.named_parameters()) {
    EXPECT_TRUE(parameter.grad().defined()) << name << " got no gradient";
    out.tensors.push_back(parameter.grad().defined() ? parameter.grad().to_vector<double>() : std::vector<double>());
  }
  return out;
}

/// ‖a − b‖₂ / ‖b‖₂ over all parameters, and the largest over single tensors (tensors whose norm is tiny against the whole are left out).
struct Relative {
  double whole = 0, worst_tensor = 0;
};
inline Relative relative(const Gradient& a, const Gradient& b) {
  double difference = 0, norm = 0;
  std::vector<std::pair<double, double>> each;
  for (size_t t = 0; t < b.tensors.size(); ++t) {
    double d = 0, n = 0;
    for (size_t i = 0; i < b.tensors[t].size(); ++i) {
      const double delta = a.tensors[t][i] - b.tensors[t][i];
      d += delta * delta;
      n += b.tensors[t][i] * b.tensors[t][i];
    }
    difference += d;
    norm += n;
    each.emplace_back(d, n);
  }
  Relative out{std::sqrt(difference / norm), 0};
  for (const auto& [d, n] : each) if (n > 1e-12 * norm) out.worst_tensor = std::max(out.worst_tensor, std::sqrt(d / n));
  return out;
}

}  // namespace spool::test
