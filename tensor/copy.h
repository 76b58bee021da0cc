#pragma once
// Moving elements: copy, fill and accumulate over any strides. These write in place: they bump the version of the storage.
#include <spool/tensor/tensor.h>

namespace spool {

/// to[...] = from[...], converting between types (float to integer truncates). `from` broadcasts to the shape of `to`. On meta: no bytes move.
void copy(const Tensor& to, const Tensor& from);
/// t[...] = value.
void fill(const Tensor& t, double value);
/// to[...] += from[...], same shape and float type; 16-bit floats add in f32.
void accumulate(const Tensor& to, const Tensor& from);
/// A fresh contiguous tensor with the same elements.
Tensor contiguous_copy(const Tensor& t);
/// `t` itself when it is contiguous, otherwise a contiguous copy. Unknown to the tape: gradients do not pass (ops/reshape.h has the op).
Tensor as_contiguous(const Tensor& t);
/// Records a write to the storage by the ambient op: saved tensors that share it become stale.
void bump_version(const Tensor& t);

}  // namespace spool
