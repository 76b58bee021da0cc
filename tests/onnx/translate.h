#pragma once
// How a node of each type is said in Spool, and which cases are left out, with the reason.
#include "vector.h"

#include <functional>
#include <span>

namespace spool::onnx_test {

/// Computes a case's outputs, in the order of the node's. Those that Spool does not compute stay undefined and are not compared.
using Translation = std::function<Tensors(const Vector&)>;
std::map<std::string, Translation>& translations();
bool add_translations(std::initializer_list<std::pair<const char*, Translation>> entries);
inline Translation one(Tensor (*f)(const Tensor&)) {
  return [f](const Vector& v) { return Tensors{f(v.in())}; };
}
inline Translation two(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](const Vector& v) { return Tensors{f(v.in(0), v.in(1))}; };
}
inline int axis_of(const Vector& v, int64_t otherwise) { return int(v.attributes.integer("axis", otherwise)); }

/// Cases left out: by type of node, or by name with `*` for any text.
struct Exclusion {
  const char* pattern;
  const char* reason;
};
std::span<const Exclusion> excluded_types();
std::span<const Exclusion> excluded_cases();
bool matches(std::string_view pattern, std::string_view name);

/// Relative tolerance: 6e-7 in f32, five units in the last place (the vectors were rounded too, one of them after a cancellation), 1e-13 in f64, 2 units in the last place in 16 bits; 0 for integers.
double tolerance_of(Dtype dtype);

}  // namespace spool::onnx_test
