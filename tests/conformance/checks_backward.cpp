#include "checks.h"
#include "support.h"

#include <spool/autograd/gradcheck.h>
#include <spool/autograd/node.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <cmath>

namespace spool::test {

std::string check_gradient(const OpInfo& op) {
  if (!differentiable(op)) return "";
  for (const Sample& sample : samples_of(op)) {
    if (!sample.check_gradient) continue;
    const Tensors inputs = leaves(sample.inputs, float_inputs(sample.inputs));
    const GradcheckResult result = gradcheck([&](const Tensors& x) { return run(op, sample, x); }, inputs, {.max_elements = 24});
    if (!(result.error <= 1e-7)) return concat(describe(sample), ": error ", result.error, " at ", result.worst);
  }
  return "";
}

std::string check_second_order(const OpInfo& op) {
  if (!differentiable(op)) return "";
  for (const Sample& sample : samples_of(op)) {
    if (!sample.check_gradient) continue;
    const uint32_t mask = float_inputs(sample.inputs);
    if (!mask) continue;
    const Tensors from = leaves(sample.inputs, mask);
    Tensors u, first, v, second;
    {
      Tape tape;
      Tensors outputs = run(op, sample, from);
      u = cotangents_for(outputs);
      only_floats(outputs, u);
      if (outputs.empty()) continue;
      const std::string_view reason = op.no_second_order ? op.no_second_order(attrs_of(op, sample)) : "";
      if (!reason.empty()) {
        try {
          tape.gradient(outputs, from, u, {.create_graph = true});
          return concat(describe(sample), ": declares no second-order gradient, but gives one");
        } catch (const AutogradError& error) {
          if (std::string(error.what()).find(reason) == std::string::npos) return concat("create_graph said \"", error.what(), "\" and not the reason");
        }
        continue;
      }
      first = tape.gradient(outputs, from, u, {.create_graph = true});
      Tensors seeds;
      for (const Tensor& g : first) v.push_back(g.defined() ? cotangents_for({g}, 23)[0] : Tensor());
      Tensors roots = first;
      seeds = v;
      for (size_t i = roots.size(); i-- > 0;)
        if (!roots[i].defined() || !is_recorded(roots[i])) roots.erase(roots.begin() + int64_t(i)), seeds.erase(seeds.begin() + int64_t(i));
      if (roots.empty()) continue;  // constant gradient
      second = tape.gradient(roots, from, seeds);
    }
    // Differences of Σ v·∇(u·f), the inner gradient taken by the rule itself.
    const auto inner = [&] {
      Tape tape;
      Tensors outputs = run(op, sample, from), seeds = cotangents_for(outputs);
      only_floats(outputs, seeds);
      const Tensors g = tape.gradient(outputs, from, seeds);
      double sum = 0;
      for (size_t i = 0; i < g.size(); ++i) {
        if (!g[i].defined() || !v[i].defined()) continue;
        const auto a = g[i].to_vector<double>(), b = v[i].to_vector<double>();
        for (size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
      }
      return sum;
    };
    Rng rng(5);
    for (size_t i = 0; i < from.size(); ++i) {
      if (!(mask >> i & 1) || from[i].numel() == 0) continue;
      const Tensor x = as_contiguous(from[i]);
      if (x.body() != from[i].body()) continue;  // written to in place below
      const auto rule = second[i].defined() ? second[i].to_vector<double>() : std::vector<double>(size_t(x.numel()));
      double scale = 1;
      for (const double value : rule) scale = std::max(scale, std::fabs(value));
      for (int trial = 0; trial < 6; ++trial) {
        const int64_t k = rng.generator().integer(0, x.numel());
        double& at = x.data<double>()[k];
        const double before = at, h = 1e-3 * std::max(1.0, std::fabs(before));
        const auto value = [&](double shift) {
          at = before + shift * h;
          return inner();
        };
        const double numeric = (8 * (value(1) - value(-1)) - (value(2) - value(-2))) / (12 * h);
        at = before;
        if (!(std::fabs(numeric - rule[size_t(k)]) <= 1e-6 * scale))
          return concat(describe(sample), ": second order, input ", i, " element ", k, ": rule ", rule[size_t(k)], ", differences ", numeric);
      }
    }
  }
  return "";
}

std::string check_need_masks(const OpInfo& op) {
  if (!differentiable(op)) return "";
  for (const Sample& sample : samples_of(op)) {
    const uint32_t all = float_inputs(sample.inputs);
    const Gradients full = run_backward(op, sample, sample.inputs, all);
    for (const uint32_t mask : need_masks(sample.inputs)) {
      const Gradients part = run_backward(op, sample, sample.inputs, mask);
      for (size_t i = 0; i < part.gradients.size(); ++i) {
        const bool wanted = mask >> i & 1;
        if (!wanted && part.gradients[i].defined()) return concat(describe(sample), ", inputs ", mask, " of ", all, " wanted: a gradient for input ", i);
        if (!wanted) continue;
        if (const auto text = bit_difference(part.gradients[i], full.gradients[i]); !text.empty()) return concat(describe(sample), ", inputs ", mask, " of ", all, " wanted: input ", i, ": ", text);
      }
    }
  }
  return "";
}

std::string check_accumulation(const OpInfo& op) {
  if (!differentiable(op)) return "";
  for (const Sample& sample : samples_of(op)) {
    const uint32_t mask = float_inputs(sample.inputs);
    const Gradients once = run_backward(op, sample, sample.inputs, mask);
    const auto doubled = [&](const Tensor& twice, size_t i, const char* how) -> std::string {
      if (!once.gradients[i].defined() && !twice.defined()) return "";
      if (!once.gradients[i].defined() || !twice.defined()) return concat(describe(sample), ", ", how, ": gradient ", i, " is missing");
      auto expected = once.gradients[i].to_vector<double>();
      double scale = 1e-300;
      for (double& value : expected) {
        value *= 2;
        if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
      }
      const auto text = difference(twice.to_vector<double>(), expected, 1e-13, scale);
      return text.empty() ? "" : concat(describe(sample), ", ", how, ": gradient ", i, " ", text);
    };
    {
      const Tensors from = leaves(sample.inputs, mask);
      Tape tape;
      Tensors a = run(op, sample, from), b = run(op, sample, from), u = cotangents_for(a), w = u;
      only_floats(a, u);
      only_floats(b, w);
      a.insert(a.end(), b.begin(), b.end());
      u.insert(u.end(), w.begin(), w.end());
      if (a.empty()) continue;
      const Tensors twice = tape.gradient(a, from, u);
      for (size_t i = 0; i < twice.size(); ++i)
        if (const auto text = doubled(twice[i], i, "f(x) + f(x)"); !text.empty()) return text;
    }
    const Tensors from = leaves(sample.inputs, mask);
    Tape tape;
    Tensors outputs = run(op, sample, from), u = cotangents_for(outputs);
    only_floats(outputs, u);
    tape.backward(outputs, u, {.retain = true});
    tape.backward(outputs, u);
    for (size_t i = 0; i < from.size(); ++i)
      if (mask >> i & 1)
        if (const auto text = doubled(from[i].grad(), i, "backward twice"); !text.empty()) return text;
  }
  return "";
}

std::string check_cotangents(const OpInfo& op) {
  if (!differentiable(op)) return "";
  for (const Sample& sample : samples_of(op)) {
    const uint32_t mask = float_inputs(sample.inputs);
    const Gradients whole = run_backward(op, sample, sample.inputs, mask);
    if (whole.outputs.size() < 2) return "";
    const Tensors u = cotangents_for(whole.outputs);
    std::vector<std::vector<double>> sums(sample.inputs.size());
    for (size_t k = 0; k < u.size(); ++k) {
      Tensors only(u.size());
      only[k] = u[k];
      const Gradients part = run_backward(op, sample, sample.inputs, mask, only);
      for (size_t i = 0; i < sums.size(); ++i) {
        if (!part.gradients[i].defined()) continue;
        const auto g = part.gradients[i].to_vector<double>();
        sums[i].resize(g.size());
        for (size_t e = 0; e < g.size(); ++e) sums[i][e] += g[e];
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!whole.gradients[i].defined()) continue;
      if (const auto text = difference(sums[i], whole.gradients[i].to_vector<double>(), 1e-11); !text.empty())
        return concat(describe(sample), ": the gradients from single outputs do not add up, input ", i, " ", text);
    }
  }
  return "";
}

namespace {
std::string to_text(const Saves& s) { return concat("inputs ", s.inputs, ", outputs ", s.outputs, ", residuals ", s.residuals); }
}  // namespace

std::string check_saves(const OpInfo& op) {
  if (!differentiable(op)) return "";
  struct Observer {
    ~Observer() { Tape::observe_reads({}); }
  } const restore;
  bool seen = false;
  for (const Sample& sample : samples_of(op)) {
    for (const uint32_t mask : need_masks(sample.inputs)) {
      std::string text;
      Tape::observe_reads([&](const OpInfo& which, Saves declared, Saves read) {
        if (&which != &op) return;
        seen = true;
        if (declared == read || !text.empty()) return;
        text = concat(describe(sample), ", inputs ", mask, " wanted (bit masks): declares ", to_text(declared), "; reads ", to_text(read));
      });
      run_backward(op, sample, sample.inputs, mask);
      if (!text.empty()) return text;
    }
  }
  return seen ? "" : "no sample runs the gradient rule";
}

std::string check_overwritten(const OpInfo& op) {
  if (!differentiable(op)) return "";
  for (const Sample& sample : samples_of(op)) {
    const uint32_t mask = float_inputs(sample.inputs);
    for (size_t k = 0;; ++k) {
      Tensors from;
      for (const Tensor& t : sample.inputs) from.push_back(t.defined() ? contiguous_copy(t) : t);
      from = leaves(from, mask);
      Tape tape;
      Tensors outputs = run(op, sample, from), u = cotangents_for(outputs);
      only_floats(outputs, u);
      if (outputs.empty()) break;
      const Node& node = tape.impl().nodes.back();
      if (node.op != &op || k >= node.saved.size()) break;
      const Tensor victim = node.saved[k].tensor;
      if (!victim.defined()) continue;
      fill(victim.view_as(victim.shape(), victim.strides(), victim.offset()), 0);  // through another view
      std::string said;
      try {
        tape.backward(outputs, u);
        return concat(describe(sample), ": saved tensor ", k, " was overwritten, and backward did not notice");
      } catch (const AutogradError& error) {
        said = error.what();
      }
      if (said.find(op.name) != 0 || said.find("was overwritten by") == std::string::npos) return concat(describe(sample), ": overwriting said \"", said, "\"");
    }
  }
  return "";
}

std::string check_no_gradient(const OpInfo& op) {
  if (differentiable(op)) return "";
  for (const Sample& sample : samples_of(op)) {
    const uint32_t mask = float_inputs(sample.inputs);
    if (!mask) continue;
    const Tensors from = leaves(sample.inputs, mask);
    Tape tape;
    Tensors outputs = run(op, sample, from), u = cotangents_for(outputs);
    only_floats(outputs, u);
    if (outputs.empty()) continue;  // bool and integers: nothing to ask a gradient of
    try {
      tape.backward(outputs, u);
      return concat(describe(sample), ": has no gradient, but backward did not throw");
    } catch (const AutogradError& error) {
      if (std::string(error.what()).find(op.no_gradient) == std::string::npos) return concat("backward said \"", error.what(), "\" and not the reason");
    }
  }
  return "";
}

}  // namespace spool::test
