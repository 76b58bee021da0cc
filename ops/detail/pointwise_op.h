#pragma once
// Elementwise ops from functors: the functor gives the arithmetic of one element, these templates give the op. Not for users.
//
// A functor of Unary<F>:
//   name                                  the op's name
//   domain                                which element types it takes
//   keeps                                 what its derivative is written in: the input, the output, or nothing
//   value<T>(x, attrs)                    one element; T is float, double or an integer type
//   gradient(g, kept, attrs)              the vjp written in ops: differentiable again; used when the backward pass is recorded itself
//   derivative<T>(kept, attrs)            optional: makes a fused op "<name>_backward" = g · derivative, used when it is not recorded
//   Attrs, sample, check(attrs, dtype)    optional: attributes, the ones for samples, and their validation
//   low, high                             optional: where samples are drawn (default -3 … 3)
#include <spool/autograd/saved.h>
#include <spool/ops/cpu/pointwise.h>
#include <spool/tensor/error.h>

#include <limits>

namespace spool::detail {

enum class Domain : uint8_t { floats, numbers, booleans, anything };
enum class Keeps : uint8_t { nothing, input, output };
struct NoAttrs {};

/// Throws DtypeError when the type is outside of the domain.
void check_domain(std::string_view op, Domain domain, Dtype dtype);
/// Both inputs have one type and one shape (broadcasting happened before). Throws DtypeError or ShapeError naming both.
void check_pair(std::string_view op, Domain domain, const Metas& in);

/// Calls f.operator()<T>() for the types of a domain.
template <Domain D, class F>
void visit_domain(std::string_view op, Dtype dtype, F&& f) {
  if constexpr (D == Domain::floats)
    visit_float(op, dtype, f);
  else if constexpr (D == Domain::booleans)
    f.template operator()<bool>();
  else
    visit(dtype, [&]<class T>() {
      if constexpr (D == Domain::anything || !std::is_same_v<T, bool>) f.template operator()<T>();
    });
}

template <class F>
struct attrs_of {
  using type = NoAttrs;
};
template <class F>
requires requires { typename F::Attrs; }
struct attrs_of<F> {
  using type = typename F::Attrs;
};

std::vector<Sample> unary_samples(Rng& rng, double low, double high, const AttrsPtr& attrs);
std::vector<Sample> binary_samples(Rng& rng, double low, double high);
Cost pointwise_cost(const Metas& in, double flops_per_element);

template <class F>
AttrsPtr sample_attrs() {
  if constexpr (requires { F::sample; })
    return attrs_ptr(F::sample);
  else
    return {};
}
template <class F>
constexpr double low_of() {
  if constexpr (requires { F::low; })
    return F::low;
  else
    return -3;
}
template <class F>
constexpr double high_of() {
  if constexpr (requires { F::high; })
    return F::high;
  else
    return 3;
}
template <class F>
concept HasFusedBackward = requires {
  F::template derivative<double>(0.0, typename attrs_of<F>::type());
};

/// g · derivative(kept).
template <class F>
struct UnaryBackward {
  static constexpr std::array<char, 48> text = [] {
    std::array<char, 48> out{};
    size_t n = 0;
    for (const char* c = F::name; *c; ++c) out[n++] = *c;
    for (const char c : std::string_view("_backward")) out[n++] = c;
    return out;
  }();
  static constexpr const char* name = text.data();
  static constexpr bool strided = true;
  using Attrs = typename attrs_of<F>::type;
  static Inferred infer(const Metas& in, const Attrs&) {
    check_pair(name, Domain::floats, in);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_float(name, k.out().dtype(), [&]<class T>() {
      const auto f = [attrs](compute_of<T> g, compute_of<T> kept) __attribute__((always_inline)) {
        return g * F::template derivative<compute_of<T>>(kept, attrs);
      };
      kernels::map2<T, T, T>(k.out(), k.in(0), k.in(1), f);
    });
  }
  static constexpr auto no_gradient = "a recorded backward pass uses differentiable ops instead of this kernel";
  static Cost cost(const Metas& in, const Attrs&) { return pointwise_cost(in, 8); }
  static std::vector<Sample> samples(Rng& rng) {
    auto all = binary_samples(rng, low_of<F>(), high_of<F>());
    for (Sample& sample : all) sample.attrs = sample_attrs<F>();
    return all;
  }
  static std::vector<BadSample> bad() {
    return {{"shapes", {zeros({2}), zeros({3})}, sample_attrs<F>(), concat(name, ": shapes [2] and [3] differ")}};
  }

 private:
  template <class T>
  using compute_of = spool::kernels::compute_t<T>;
};

template <class F>
struct Unary {
  static constexpr auto name = F::name;
  static constexpr bool strided = true;
  using Attrs = typename attrs_of<F>::type;
  static Inferred infer(const Metas& in, const Attrs& attrs) {
    check_domain(name, F::domain, in[0].dtype);
    if constexpr (requires { F::check(attrs, in[0].dtype); }) F::check(attrs, in[0].dtype);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs& attrs) {
    visit_domain<F::domain>(name, k.out().dtype(), [&]<class T>() {
      using C = spool::kernels::compute_t<T>;
      kernels::map1<T, T>(
          k.out(), k.in(0), [attrs](C x) __attribute__((always_inline)) { return F::template value<C>(x, attrs); });
    });
  }
  static Saves saves(Need) { return Saves().input(0, F::keeps == Keeps::input).output(0, F::keeps == Keeps::output); }
  static Tensors vjp(Saved& s, const Attrs& attrs) {
    Tensor kept;
    if constexpr (F::keeps == Keeps::input) kept = s.input(0);
    if constexpr (F::keeps == Keeps::output) kept = s.output(0);
    const Tensor g = s.grad();
    if constexpr (HasFusedBackward<F>) {
      if (!is_recorded(g) && !is_recorded(kept)) return {apply<UnaryBackward<F>>({g, kept}, attrs)};
    }
    return {F::gradient(g, kept, attrs)};
  }
  static Cost cost(const Metas& in, const Attrs&) { return pointwise_cost(in, 4); }
  static std::vector<Sample> samples(Rng& rng) { return unary_samples(rng, low_of<F>(), high_of<F>(), sample_attrs<F>()); }
  static std::vector<BadSample> bad() {
    if constexpr (requires { F::bad(); })
      return F::bad();
    else if constexpr (F::domain == Domain::floats)
      return {{"integers", {zeros({2}, Dtype::i64)}, sample_attrs<F>(), concat(name, ": needs a float type, got i64")}};
    else if constexpr (F::domain == Domain::numbers)
      return {{"booleans", {zeros({2}, Dtype::boolean)}, sample_attrs<F>(), concat(name, ": needs numbers, got bool")}};
    else
      return {};
  }
};

/// Elementwise of two inputs of one type. F gives name, domain, value<T>(a, b), saves(need), vjp(saved), and samples
/// where pairs drawn at random will not do.
template <class F>
struct Binary {
  static constexpr auto name = F::name;
  static constexpr bool strided = true;
  using Attrs = NoAttrs;
  static Inferred infer(const Metas& in, const Attrs&) {
    check_pair(name, F::domain, in);
    return {{in[0]}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_domain<F::domain>(name, k.out().dtype(), [&]<class T>() {
      using C = spool::kernels::compute_t<T>;
      kernels::map2<T, T, T>(
          k.out(), k.in(0), k.in(1), [](C a, C b) __attribute__((always_inline)) { return F::template value<C>(a, b); });
    });
  }
  static Saves saves(Need need) { return F::saves(need); }
  static Tensors vjp(Saved& s, const Attrs&) { return F::vjp(s); }
  static Cost cost(const Metas& in, const Attrs&) { return pointwise_cost(in, 1); }
  static std::vector<Sample> samples(Rng& rng) {
    if constexpr (requires { F::samples(rng); })
      return F::samples(rng);
    else
      return binary_samples(rng, low_of<F>(), high_of<F>());
  }
  static std::vector<BadSample> bad() {
    return {{"shapes", {zeros({2}), zeros({3})}, {}, concat(name, ": shapes [2] and [3] differ")},
            {"types", {zeros({2}), zeros({2}, Dtype::f64)}, {}, concat(name, ": inputs are f32 and f64; convert one with cast()")}};
  }
};

/// Elementwise of one or two inputs to bool. F gives name, domain and test<T>(a) or test<T>(a, b).
template <class F>
struct Test {
  static constexpr auto name = F::name;
  static constexpr bool strided = true;
  using Attrs = NoAttrs;
  static constexpr bool binary = requires { F::template test<bool>(true, true); };
  static Inferred infer(const Metas& in, const Attrs&) {
    if constexpr (binary)
      check_pair(name, F::domain, in);
    else
      check_domain(name, F::domain, in[0].dtype);
    return {{{in[0].shape, Dtype::boolean, in[0].device}}, {}};
  }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_domain<F::domain>(name, k.in(0).dtype(), [&]<class T>() {
      using C = spool::kernels::compute_t<T>;
      if constexpr (binary) {
        kernels::map2<T, T, bool>(
            k.out(), k.in(0), k.in(1), [](C a, C b) __attribute__((always_inline)) { return F::template test<C>(a, b); });
      } else {
        kernels::map1<T, bool>(
            k.out(), k.in(0), [](C a) __attribute__((always_inline)) { return F::template test<C>(a); });
      }
    });
  }
  static constexpr auto no_gradient = "its result is bool";
  static Cost cost(const Metas& in, const Attrs&) { return pointwise_cost(in, 1); }
  static std::vector<Sample> samples(Rng& rng);
  static std::vector<BadSample> bad();
};

std::vector<Sample> test_samples(Rng& rng, Domain domain, bool binary);
std::vector<BadSample> test_bad(std::string_view op, Domain domain, bool binary);
template <class F>
std::vector<Sample> Test<F>::samples(Rng& rng) {
  return test_samples(rng, F::domain, binary);
}
template <class F>
std::vector<BadSample> Test<F>::bad() {
  return test_bad(name, F::domain, binary);
}

template <class... F>
bool register_unary() {
  const auto one = []<class G>() {
    register_op(op_info<Unary<G>>());
    if constexpr (HasFusedBackward<G>) register_op(op_info<UnaryBackward<G>>());
  };
  (one.template operator()<F>(), ...);
  return true;
}
template <template <class> class Op, class... F>
bool register_each() {
  return (register_op(op_info<Op<F>>()) && ...);
}

/// a and b expanded to their common shape.
std::pair<Tensor, Tensor> broadcast(std::string_view op, const Tensor& a, const Tensor& b);

}  // namespace spool::detail
