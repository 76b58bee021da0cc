#pragma once
// Tensors of random numbers and of indicators. An element is a pure function of the key and of its row-major position, so the same key
// gives the same tensor on any number of threads, and nothing needs to be kept to draw it again. These are values, not differentiable ops; on
// meta they have a shape only. Two draws from one key are not independent of each other: fold the key for each (tensor/random.h).
#include <spool/tensor/random.h>
#include <spool/tensor/tensor.h>

namespace spool {

/// Uniform in [low, high). 16-bit types round what f32 gives, which can reach `high`. Float types (DtypeError). ConfigError unless
/// low ≤ high.
Tensor uniform(const Shape& shape, RandomKey key, double low = 0, double high = 1, Dtype dtype = Dtype::f32, Device device = cpu);
/// Normal with this mean and standard deviation (Box–Muller in f64). Float types (DtypeError).
Tensor normal(const Shape& shape, RandomKey key, double mean = 0, double deviation = 1, Dtype dtype = Dtype::f32, Device device = cpu);

/// bool: true with probability p, from 53 random bits, so p = 0 is never and p = 1 always. Other dtypes hold 0 and 1. ConfigError unless
/// 0 ≤ p ≤ 1.
Tensor bernoulli(double p, const Shape& shape, RandomKey key, Dtype dtype = Dtype::boolean, Device device = cpu);
/// The same with a probability for each element, of a float type; the result has its shape.
Tensor bernoulli(const Tensor& p, RandomKey key, Dtype dtype = Dtype::boolean);
/// i64 [n]: 0 … n − 1 in random order, each order equally likely (Fisher and Yates).
Tensor randperm(int64_t n, RandomKey key, Device device = cpu);
/// i64 [..., samples]: positions along the last axis of weights [..., n], drawn with probability weight / Σ weights; rows draw apart from
/// each other. Without replacement the positions of a row differ, and each is drawn from those that are left, in order of drawing
/// (Efraimidis and Spirakis 2006). A weight of 0 is never drawn. Weights are of a float type and need not add up to 1. ConfigError names row
/// and position of a weight that is negative, infinite or NaN, a row without a weight above 0, or with fewer than are to be drawn.
Tensor multinomial(const Tensor& weights, int64_t samples, RandomKey key, bool replacement = true);

/// One axis more: 1 at the index, 0 elsewhere. Indices u8, i32 or i64; one outside of [0, classes) throws IndexError naming index, position
/// and range. No gradient.
Tensor one_hot(const Tensor& indices, int64_t classes, Dtype dtype = Dtype::f32);

}  // namespace spool
