#pragma once
// What the ops share that add to the places that indices name: the sum in f32 for 16-bit floats, and gradients added in place. Not for users.
#include <spool/autograd/saved.h>

namespace spool::detail {

/// Throws DtypeError unless both have one type, which is not bool.
void check_summands(std::string_view op, const Meta& x, const Meta& source);
/// Bytes in which a scatter into x forms its sums: none unless x has a 16-bit type.
int64_t scatter_scratch(const Meta& x);
/// out = x, then out[… index[… i …] …] += source[… i …].
void scatter(const Kernel& k, int axis, const Tensor& index, const Tensor& source);
/// Adds g to the gradient gathered so far, in place, when the rule of an op whose input 0 it fetched from may: returns it, or undefined.
Tensor scatter_into_target(Saved& s, int axis, const Tensor& index, const Tensor& g);
/// An index of one axis spread over `shape`, whose axis it runs along.
Tensor spread_index(const Tensor& index, const Shape& shape, int axis);

}  // namespace spool::detail
