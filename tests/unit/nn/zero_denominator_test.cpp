// Denominators at and near zero, for every feature map: finite outputs and gradients. Slim acceptance check 17.
#include "state_support.h"

#include <spool/ops/favor.h>

namespace spool::test {
namespace {

using nn::Performer;
using nn::PerformerConfig;
using nn::token_batch;

constexpr const char* feature_names[] = {"sqr", "relu", "elu+1", "abs", "favor+", "favor+_2"};

void expect_finite(const Tensor& t, const std::string& what) {
  for (const double value : t.to_vector<double>()) ASSERT_TRUE(std::isfinite(value)) << what << ": " << value;
}

Feature fused(const std::string& name) {
  if (name == "sqr") return Feature::sqr;
  if (name == "relu") return Feature::relu;
  if (name == "elu+1") return Feature::elu1;
  if (name == "abs") return Feature::abs;
  return Feature::identity;
}

/// Outputs, final state and all gradients of one attention.
struct Outcome {
  Tensor out, state;
  Tensors gradients;
};
Outcome attend(const std::string& name, const Tensor& q, const Tensor& k, const Tensor& v, bool state_gradient) {
  for (const Tensor& t : {q, k, v}) t.requires_grad(true);
  const int64_t blocks = name == "favor+" ? 1 : name == "favor+_2" ? 2 : 0;
  Tape tape;
  Tensor fq = q, fk = k;
  if (blocks) {
    const Tensor omega = favor_omega(k.size(2), k.size(3), blocks, RandomKey(9), k.dtype());
    fq = favor_features(q, omega);
    fk = favor_features(k, omega);
  }
  const auto [out, state] = linear_attention(fq, fk, v, {}, {.feature = fused(name)});
  Outcome result{out.detach(), state.detach(), {}};
  const Tensor w = state_gradient ? ones(state.shape(), state.dtype()) : Tensor();
  result.gradients = tape.gradient(state_gradient ? Tensors{out, state} : Tensors{out}, {q, k, v}, state_gradient ? Tensors{ones(out.shape(), out.dtype()), w} : Tensors{ones(out.shape(), out.dtype())});
  return result;
}

TEST(ZeroDenominator, OutputsAndGradientsStayFinite) {
  struct Case {
    const char* label;
    double query, key;  // scales; 0 makes the rows 0
    bool negative;      // queries ≤ 0
  };
  const Case cases[] = {{"plain", 1, 1, false},        {"queries ≤ 0", 1, 1, true},  {"all-zero keys", 1, 0, false}, {"all-zero queries", 0, 1, false},
                        {"features × 1e-20", 1e-20, 1e-20, false}, {"features × 1e4", 1e4, 1e4, false}, {"small queries, large keys", 1e-20, 1e4, false}, {"large queries, small keys", 1e4, 1e-20, false}};
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::string name : feature_names) {
      for (const Case& c : cases) {
        for (const int64_t length : {1, 45}) {
          Rng rng(11);
          Tensor q = rng.normal({2, length, 2, 6}, c.query), k = rng.normal({2, length, 2, 6}, c.key), v = rng.normal({2, length, 2, 3});
          if (c.negative) q = abs(q) * -1.0;
          const std::string what = name + ", " + c.label + ", " + std::string(dtype_name(dtype)) + ", length " + std::to_string(length);
          const Outcome result = attend(name, cast(q, dtype), cast(k, dtype), cast(v, dtype), true);
          expect_finite(result.out, what + ", out");
          expect_finite(result.state, what + ", state");
          for (size_t i = 0; i < 3; ++i) expect_finite(result.gradients[i], what + ", gradient " + std::to_string(i));
        }
      }
    }
  }
}

TEST(ZeroDenominator, ATokenWithoutKeysGivesZeroAndPassesNothingBack) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    Rng rng(12);
    Tensor q = rng.normal({1, 8, 1, 4}), k = rng.normal({1, 8, 1, 4}), v = rng.normal({1, 8, 1, 3});
    for (int64_t i = 0; i < 4; ++i) q.data<double>()[2 * 4 + i] = -std::fabs(q.data<double>()[2 * 4 + i]);
    const Outcome result = attend("relu", cast(q, dtype), cast(k, dtype), cast(v, dtype), false);
    for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(result.out.to_vector<double>()[size_t(2 * 3 + j)], 0);
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(result.gradients[0].to_vector<double>()[size_t(2 * 4 + i)], 0);
  }
}

TEST(ZeroDenominator, TheFirstTokenReturnsItsOwnValue) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::string name : {"sqr", "elu+1", "abs", "favor+"}) {
      Rng rng(13);
      const Tensor q = rng.normal({2, 5, 2, 6}), k = rng.normal({2, 5, 2, 6}), v = rng.normal({2, 5, 2, 3});
      const auto out = attend(name, cast(q, dtype), cast(k, dtype), cast(v, dtype), false).out.to_vector<double>();
      const auto values = v.to_vector<double>();
      for (int64_t row = 0; row < 2; ++row)
        for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(out[size_t(row * 30 + i)], values[size_t(row * 30 + i)], 1e-6) << name;
    }
  }
}

TEST(ZeroDenominator, WholeModelsStayFinite) {
  struct Case {
    const char* label;
    double query, key, bias;  // scales of the two weights; what is added to both biases
  };
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const char* feature : feature_names) {
      for (const Case& c : {Case{"queries ≤ 0", 1, 1, -50}, {"all-zero keys", 1, 0, 0}, {"scaled by 1e-20", 1e-20, 1e-20, 0}, {"scaled by 1e4", 1e4, 1e4, 0}}) {
        Performer model(nn::root({.seed = 5, .dtype = dtype}), {.d_model = 16, .layers = 2, .heads = 2, .d_ff = 16, .feature = feature});
        for (const auto& [name, parameter] : model.named_parameters()) {
          const bool query = name.find("attention.query.") != std::string::npos, key = name.find("attention.key.") != std::string::npos;
          if (!query && !key) continue;
          const bool bias = name.ends_with("bias");
          visit_float("test", dtype, [&]<class T>() {
            for (int64_t i = 0; i < parameter.numel(); ++i) {
              if constexpr (std::is_floating_point_v<T>) parameter.data<T>()[i] = T(parameter.data<T>()[i] * (query ? c.query : c.key) + (bias ? c.bias : 0));
            }
          });
        }
        const auto batch = token_batch(random_tokens(2, 23, 6));
        for (const int64_t chunk : {0, 5}) {
          const Gradient gradient = gradient_of(model, batch, chunk);
          const std::string what = std::string(feature) + ", " + c.label + ", " + std::string(dtype_name(dtype)) + ", C = " + std::to_string(chunk);
          ASSERT_TRUE(std::isfinite(gradient.loss)) << what;
          for (const auto& tensor : gradient.tensors)
            for (const double value : tensor) ASSERT_TRUE(std::isfinite(value)) << what;
        }
      }
    }
  }
}

}  // namespace
}  // namespace spool::test
