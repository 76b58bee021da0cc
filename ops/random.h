#pragma once
// Tensors of random numbers and of indicators. An element is a pure function of the key and of its row-major position, so the same key
// gives the same tensor on any number of threads. These are values, not differentiable ops; on meta they have a shape only.
#include <spool/tensor/random.h>
#include <spool/tensor/tensor.h>

namespace spool {

/// Uniform in [low, high). 16-bit types round what f32 gives, which can reach `high`. Float types (DtypeError).
Tensor uniform(const Shape& shape, RandomKey key, double low = 0, double high = 1, Dtype dtype = Dtype::f32, Device device = cpu);
/// Normal with this mean and standard deviation (Box–Muller in f64). Float types (DtypeError).
Tensor normal(const Shape& shape, RandomKey key, double mean = 0, double deviation = 1, Dtype dtype = Dtype::f32, Device device = cpu);

/// One axis more: 1 at the index, 0 elsewhere. Indices u8, i32 or i64; one outside of [0, classes) throws IndexError naming index, position
/// and range. No gradient.
Tensor one_hot(const Tensor& indices, int64_t classes, Dtype dtype = Dtype::f32);

}  // namespace spool
