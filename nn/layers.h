#pragma once
// The plain layers: Linear, Embedding, LayerNorm, RmsNorm, Dropout; and blockwise evaluation.
#include <spool/nn/module.h>
#include <spool/ops/linear.h>
#include <spool/ops/norm.h>

#include <functional>
#include <optional>

namespace spool::nn {

/// y = x·Wᵀ + b, optionally followed by an activation in the same pass. weight [out, in], bias [out], as in PyTorch. Initial values are
/// uniform in ±1/√in.
struct Linear : Layer<Linear> {
  struct Config {
    int64_t in, out;
    bool bias = true;
  };
  Linear(Slot at, Config config);
  Linear(Slot at, Config config, Init init);  ///< With other initial weights; the bias starts at 0.
  Parameter weight;
  std::optional<Parameter> bias;
  Tensor forward(const Tensor& x, Activation activation = Activation::none) const;  ///< [..., in] -> [..., out]
};

/// Rows of a table [count, dim] by index. Initial values are N(0, 1).
struct Embedding : Layer<Embedding> {
  struct Config {
    int64_t count, dim;
  };
  Embedding(Slot at, Config config, Init init = Init::normal(1));
  Parameter weight;
  Tensor forward(const Tensor& ids) const;  ///< ids [...] -> [..., dim]
};

/// Normalises the last axis to mean 0 and variance 1, then scales and shifts. weight, bias [dim].
struct LayerNorm : Layer<LayerNorm> {
  struct Config {
    int64_t dim;
    double eps = 1e-5;
  };
  LayerNorm(Slot at, Config config);
  Config config;
  Parameter weight, bias;
  Tensor forward(const Tensor& x) const;
};

/// Scales the last axis to mean square 1, then by weight [dim]; eps inside the root.
struct RmsNorm : Layer<RmsNorm> {
  struct Config {
    int64_t dim;
    double eps = 1e-5;
  };
  RmsNorm(Slot at, Config config);
  Config config;
  Parameter weight;
  Tensor forward(const Tensor& x) const;
  AddedNorm added(const Tensor& x, const Tensor& delta) const;  ///< x + delta and its norm, in one pass.
};

/// f(x) for an f that works on each position of x [batch, length, …] alone, `chunk` positions at a time and recomputed in backward, so that
/// what f needs inside exists for one chunk only (the feed-forward part of "Blockwise Parallel Transformer", Liu and Abbeel 2023).
/// `chunk` 0, or at least the length, is f(x) itself, kept and not recomputed.
Tensor blockwise(const Tensor& x, int64_t chunk, const std::function<Tensor(const Tensor&)>& f);

/// Zeroes elements with probability p and scales the rest by 1/(1 − p) while training. Which ones is a function of the ambient random
/// stream, this module's path and the element's global position (batch, position + row, column), so slices and recomputation agree.
struct Dropout : Layer<Dropout> {
  Dropout(Slot at, double p);
  double p;
  Tensor forward(const Tensor& x, int64_t position = 0) const;  ///< [..., length, dim]
};

}  // namespace spool::nn
