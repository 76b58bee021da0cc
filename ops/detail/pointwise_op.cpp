#include <spool/ops/detail/pointwise_op.h>
#include <spool/ops/expand.h>

namespace spool::detail {

void check_domain(std::string_view op, Domain domain, Dtype dtype) {
  if (domain == Domain::floats && !is_float(dtype)) fail_not_float(op, dtype);
  if (domain == Domain::numbers && dtype == Dtype::boolean) fail<DtypeError>(op, ": needs numbers, got bool; convert with cast()");
  if (domain == Domain::booleans && dtype != Dtype::boolean)
    fail<DtypeError>(op, ": needs bool, got ", dtype_name(dtype), "; compare first, for example not_equal(x, 0)");
}

void check_pair(std::string_view op, Domain domain, const Metas& in) {
  if (in[0].dtype != in[1].dtype) {
    fail<DtypeError>(op, ": inputs are ", dtype_name(in[0].dtype), " and ", dtype_name(in[1].dtype), "; convert one with cast()");
  }
  check_domain(op, domain, in[0].dtype);
  if (in[0].shape != in[1].shape) fail<ShapeError>(op, ": shapes ", in[0].shape, " and ", in[1].shape, " differ; expand() one");
}

std::pair<Tensor, Tensor> broadcast(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.shape() == b.shape()) return {a, b};
  const Shape shape = broadcast_shapes(op, a.shape(), b.shape());
  return {expand(a, shape), expand(b, shape)};
}

Cost pointwise_cost(const Metas& in, double flops_per_element) {
  double bytes = double(in[0].nbytes());
  for (const Meta& m : in) bytes += double(m.nbytes());
  return {flops_per_element * double(numel(in[0].shape)), bytes};
}

std::vector<Sample> unary_samples(Rng& rng, double low, double high, const AttrsPtr& attrs) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Sample> all{{"matrix", {rng.uniform({3, 5}, low, high)}, attrs},
                          {"ragged", {rng.uniform({2, 3, 37}, low, high)}, attrs},
                          {"0-d", {rng.uniform({}, low, high)}, attrs},
                          {"zero size", {rng.uniform({0, 3}, low, high)}, attrs}};
  all.push_back({.label = "extremes",
                 .inputs = {from({0.0, -0.0, 1e-30, -1e-30, 1.0, -1.0, 20.0, -20.0, 80.0, -80.0, inf, -inf, nan}, {}, Dtype::f64)},
                 .attrs = attrs,
                 .check_gradient = false,
                 .floats_only = true});
  return all;
}

std::vector<Sample> binary_samples(Rng& rng, double low, double high) {
  const auto draw = [&](const Shape& shape) { return rng.uniform(shape, low, high); };
  return {{"matrix", {draw({3, 5}), draw({3, 5})}, {}},
          {"ragged", {draw({2, 3, 37}), draw({2, 3, 37})}, {}},
          {"0-d", {draw({}), draw({})}, {}},
          {"zero size", {draw({4, 0}), draw({4, 0})}, {}}};
}

std::vector<Sample> test_samples(Rng& rng, Domain domain, bool binary) {
  const auto draw = [&](const Shape& shape) { return domain == Domain::booleans ? rng.booleans(shape) : rng.normal(shape); };
  std::vector<Sample> all;
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 37}, Shape{}, Shape{0, 3}}) {
    Tensors inputs{draw(shape)};
    if (binary) inputs.push_back(draw(shape));
    all.push_back({to_string(shape), std::move(inputs), {}});
  }
  if (domain == Domain::booleans) return all;
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Tensors inputs{from({0, -0.0, 1, 1, inf, -inf, nan, nan}, {}, Dtype::f64)};
  if (binary) inputs.push_back(from({-0.0, 0, 1, 2, inf, inf, nan, 0}, {}, Dtype::f64));
  all.push_back({"equal and extreme values", std::move(inputs), {}});
  return all;
}

std::vector<BadSample> test_bad(std::string_view op, Domain domain, bool binary) {
  std::vector<BadSample> all;
  const Dtype good = domain == Domain::booleans ? Dtype::boolean : Dtype::f32;
  if (binary) {
    all.push_back({"shapes", {zeros({2}, good), zeros({3}, good)}, {}, concat(op, ": shapes [2] and [3] differ")});
    all.push_back({"types", {zeros({2}), zeros({2}, Dtype::f64)}, {}, concat(op, ": inputs are f32 and f64; convert one with cast()")});
  } else if (domain == Domain::booleans) {
    all.push_back({"floats", {zeros({2})}, {}, concat(op, ": needs bool, got f32")});
  } else if (domain == Domain::floats) {
    all.push_back({"integers", {zeros({2}, Dtype::i64)}, {}, concat(op, ": needs a float type, got i64")});
  }
  return all;
}

}  // namespace spool::detail
