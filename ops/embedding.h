#pragma once
// Rows of a table by index.
#include <spool/tensor/tensor.h>

namespace spool {
/// y[..., :] = table[ids[...], :]. table [count, dim] of a float type; ids u8, i32 or i64. IndexError names an id outside [0, count) and where
/// it stands. Keeps the ids. Backward adds rows in the order of the ids, so repeated ids add up and the bits do not depend on threads;
/// rows that no id names get exactly 0.
Tensor embedding(const Tensor& table, const Tensor& ids);
}  // namespace spool
