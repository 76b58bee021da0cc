#pragma once
// What the properties share: the number of cases, random shapes and tensors, and looking elements up by their indices.
//
// RC_PARAMS in the environment overrides the defaults: "seed=…" for other cases, "max_success=…" for more, "reproduce=…" for one that failed.
#include <spool/spool.h>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "../each_index.h"

namespace spool::property {

constexpr const char* default_params = "seed=5 max_success=2500";

/// In [low, high], all alike: rapidcheck's own ranges start small, which would leave out what is chosen by the high ones.
inline int64_t integer(int64_t low, int64_t high) { return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(low, high + 1)); }
inline bool coin() { return integer(0, 1) == 1; }

/// Sizes of 0 … 5, with 0 rare, so that most tensors have elements.
Shape shape(int dims);
/// Normal elements.
Tensor normal(const Shape& shape, Dtype dtype = Dtype::f64);
/// The same shape and random elements, but laid out at random: axes in any order in memory, a step and an offset, or expanded along an axis.
Tensor strided(const Shape& shape, Dtype dtype = Dtype::f64);

using test::each_index;
/// Row-major place of the element that broadcasting takes for indices `at` of the result.
size_t broadcast_place(const Shape& shape, const Shape& at);

}  // namespace spool::property
