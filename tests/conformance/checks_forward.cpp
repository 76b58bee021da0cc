#include "checks.h"
#include "support.h"

#include <spool/tensor/error.h>

#include <cmath>
#include <set>

namespace spool::test {

std::string check_samples(const OpInfo& op) {
  const std::vector<Sample> samples = samples_of(op);
  if (samples.empty()) return "no samples";
  bool zero = false;
  for (const Sample& sample : samples) {
    if (sample.label.empty()) return "a sample without a label";
    if (!attrs_of(op, sample)) return concat(describe(sample), ": no attributes, and the op has no default ones");
    Metas in;
    for (const Tensor& t : sample.inputs) {
      in.push_back(meta_of(t));
      zero = zero || (t.defined() && t.numel() == 0);
      if (t.defined() && is_float(t.dtype()) && t.dtype() != Dtype::f64) return concat(describe(sample), ": float inputs of samples are f64");
    }
    const Cost cost = op.cost(in, attrs_of(op, sample));
    if (!(cost.flops >= 0 && cost.bytes >= 0 && std::isfinite(cost.flops) && std::isfinite(cost.bytes)))
      return concat(describe(sample), ": cost of ", cost.flops, " operations and ", cost.bytes, " bytes");
    if (op.scratch && op.scratch(in, attrs_of(op, sample)) < 0) return concat(describe(sample), ": negative scratch");
  }
  return zero ? "" : "no sample has an input of zero size";
}

std::string check_shape_rule(const OpInfo& op) {
  for (const Sample& sample : samples_of(op)) {
    const Tensors outputs = run(op, sample);
    Metas in;
    Tensors planned;
    for (const Tensor& t : sample.inputs) {
      in.push_back(meta_of(t));
      planned.push_back(t.defined() ? empty(t.shape(), t.dtype(), meta(t.device())) : t);
    }
    if (op.infer && !op.view) {
      const Inferred inferred = op.infer(in, attrs_of(op, sample));
      if (inferred.outputs.size() != outputs.size()) return concat(describe(sample), ": infer gives ", inferred.outputs.size(), " outputs, the run ", outputs.size());
      for (size_t i = 0; i < outputs.size(); ++i)
        if (inferred.outputs[i] != meta_of(outputs[i])) return concat(describe(sample), ": infer gives ", inferred.outputs[i], ", the run ", meta_of(outputs[i]));
    }
    const Tensors on_meta = run(op, sample, planned);
    for (size_t i = 0; i < outputs.size(); ++i) {
      Meta expected = meta_of(outputs[i]);
      expected.device = meta();
      if (meta_of(on_meta[i]) != expected) return concat(describe(sample), ": on meta ", meta_of(on_meta[i]), ", in the run ", meta_of(outputs[i]));
      if (on_meta[i].strides() != outputs[i].strides()) return concat(describe(sample), ": strides on meta ", on_meta[i].strides(), ", in the run ", outputs[i].strides());
    }
  }
  return "";
}

std::string check_layouts(const OpInfo& op) {
  for (const Sample& sample : samples_of(op)) {
    const uint32_t mask = differentiable(op) ? float_inputs(sample.inputs) : 0;
    const Gradients plain = run_backward(op, sample, sample.inputs, mask);
    const Tensors cotangents = cotangents_for(plain.outputs);
    for (const Layout layout : layouts) {
      const Gradients other = run_backward(op, sample, laid_out(sample.inputs, layout), mask, laid_out(cotangents, layout));
      if (const auto text = bit_difference(other.outputs, plain.outputs); !text.empty()) return concat(describe(sample), ", ", layout_name(layout), " inputs: output ", text);
      if (const auto text = bit_difference(other.gradients, plain.gradients); !text.empty()) return concat(describe(sample), ", ", layout_name(layout), " inputs: gradient ", text);
    }
    const Tensors spread_inputs = spread(sample.inputs), spread_cotangents = spread(cotangents);
    const Gradients dense = run_backward(op, sample, laid_out(spread_inputs, Layout::offset), mask, laid_out(spread_cotangents, Layout::offset));
    const Gradients single = run_backward(op, sample, spread_inputs, mask, spread_cotangents);
    if (const auto text = bit_difference(single.outputs, dense.outputs); !text.empty()) return concat(describe(sample), ", inputs of one element with strides 0: output ", text);
    if (const auto text = bit_difference(single.gradients, dense.gradients); !text.empty()) return concat(describe(sample), ", inputs of one element with strides 0: gradient ", text);
  }
  return "";
}

std::string check_zero_sizes(const OpInfo& op) {
  const With poisoned(&Ambient::allocator, poisoning_allocator());  // what nobody writes is NaN, not what happened to be there
  for (const Sample& sample : samples_of(op)) {
    std::set<int64_t> sizes;
    for (const Tensor& t : sample.inputs)
      if (t.defined()) sizes.insert(t.shape().begin(), t.shape().end());
    std::vector<Tensors> variants;
    for (const int64_t size : sizes) variants.push_back(resized(sample.inputs, size, 0));
    variants.push_back(scalars(sample.inputs));
    for (const Tensors& inputs : variants) {
      const uint32_t mask = differentiable(op) ? float_inputs(inputs) : 0;
      try {
        const Gradients result = run_backward(op, sample, inputs, mask);
        for (size_t i = 0; i < inputs.size(); ++i) {
          const Tensor& g = result.gradients[i];
          if (g.defined() && g.shape() != inputs[i].shape()) return concat(describe(sample, inputs), ": gradient of shape ", g.shape());
          if (!g.defined()) continue;
          for (const double value : g.to_vector<double>())
            if (std::isnan(value)) return concat(describe(sample, inputs), ": gradient of input ", i, " is NaN");
        }
      } catch (const Error&) {  // a refusal is an answer
      }
    }
  }
  return "";
}

std::string check_bad_samples(const OpInfo& op) {
  for (const BadSample& bad : op.bad()) {
    const void* attrs = bad.attrs ? bad.attrs.get() : op.default_attrs.get();
    if (!attrs) return concat("bad sample '", bad.label, "': no attributes");
    if (bad.expected.empty()) return concat("bad sample '", bad.label, "' expects no text");
    const int64_t live = ambient().ledger->live();
    const std::string name = ambient().op;
    std::string said;
    try {
      dispatch(op, bad.inputs, attrs);
      return concat("bad sample '", bad.label, "' did not throw");
    } catch (const Error& error) {
      said = error.what();
    }
    if (said.find(bad.expected) == std::string::npos) return concat("bad sample '", bad.label, "' said \"", said, "\", expected \"", bad.expected, "\"");
    if (ambient().ledger->live() != live) return concat("bad sample '", bad.label, "' left ", ambient().ledger->live() - live, " bytes behind");
    if (name != ambient().op) return concat("bad sample '", bad.label, "' left the ambient op ", ambient().op);
  }
  return "";
}

namespace {

/// Kernels compute 16-bit types in f32 and round the result once: half a unit in the last place, 2⁻¹¹ of it in f16 and 2⁻⁹ in bf16, is the
/// forward error; twice that is allowed. Gradient rules are chains of up to four ops or so, each of which rounds. In f32 every operation
/// rounds by 2⁻²⁴, and sums of the samples' length gather some tens of these.
struct Precision {
  Dtype dtype;
  double forward, backward;
};

/// Each element against its own size and that of the whole, so that cancellation is allowed for.
std::string far(const Tensor& low, const Tensor& high, double tolerance, bool narrow) {
  if (!low.defined() || !high.defined()) return low.defined() == high.defined() ? "" : "one is undefined";
  const auto a = low.to_vector<double>(), b = high.to_vector<double>();
  if (a.size() != b.size()) return concat(a.size(), " and ", b.size(), " elements");
  double scale = 1;
  for (const double value : b)
    if (std::isfinite(value)) scale = std::max(scale, std::min(std::fabs(value), 100.0));
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::isinf(a[i]) && (std::isinf(b[i]) || (narrow && std::fabs(b[i]) > 6e4) || std::fabs(b[i]) > 3e38) && (a[i] > 0) == (b[i] > 0)) continue;
    if (!(std::fabs(a[i] - b[i]) <= tolerance * (std::fabs(b[i]) + scale))) return concat("element ", i, ": ", a[i], ", in f64 ", b[i]);
  }
  return "";
}

}  // namespace

std::string check_types(const OpInfo& op) {
  constexpr Precision precisions[] = {{Dtype::f32, 4e-6, 2e-5}, {Dtype::f16, 0x1p-10, 0x1p-8}, {Dtype::bf16, 0x1p-8, 0x1p-6}};
  for (const auto [dtype, forward, backward] : precisions) {
    for (const Sample& sample : samples_of(op)) {
      if (sample.floats_only && dtype != Dtype::f32) continue;
      if (!float_inputs(sample.inputs)) continue;
      const Tensors low = converted(sample.inputs, dtype), high = converted(low, Dtype::f64);
      const uint32_t mask = differentiable(op) && sample.check_gradient ? float_inputs(low) : 0;
      Gradients narrow;
      try {
        const NoGrad quiet;
        run(op, sample, low);
      } catch (const DtypeError&) {  // says that it does not take this type with these attributes
        continue;
      }
      narrow = run_backward(op, sample, low, mask);
      // the same cotangents, rounded once
      const Tensors cotangents = cotangents_for(narrow.outputs);
      const Gradients wide = run_backward(op, sample, high, mask, converted(cotangents, Dtype::f64));
      for (size_t i = 0; i < narrow.outputs.size(); ++i) {
        const Tensor& y = narrow.outputs[i];
        if (const auto text = far(y, wide.outputs[i], is_float(y.dtype()) ? forward : 0, dtype == Dtype::f16); !text.empty())
          return concat(describe(sample), " in ", dtype_name(dtype), ": output ", i, " ", text);
      }
      for (size_t i = 0; i < low.size(); ++i)
        if (const auto text = far(narrow.gradients[i], wide.gradients[i], backward, dtype == Dtype::f16); !text.empty())
          return concat(describe(sample), " in ", dtype_name(dtype), ": gradient ", i, " ", text);
    }
  }
  return "";
}

}  // namespace spool::test
