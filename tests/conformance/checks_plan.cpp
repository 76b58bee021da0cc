#include "checks.h"
#include "support.h"

#include <spool/autograd/checkpoint.h>
#include <spool/autograd/plan.h>
#include <spool/autograd/recompute_ops.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

namespace spool::test {
namespace {

/// The same storage size, strides and offset, without bytes; the ledger sees what it sees for the original.
Tensor twin(const Tensor& t, Device device) {
  if (!t.defined()) return t;
  const int64_t room = t.storage()->bytes / int64_t(dtype_size(t.dtype()));
  const Tensor copied = empty({room}, t.dtype(), device).view_as(t.shape(), t.strides(), t.offset());
  if (!device.meta) copy(copied, t);
  return copied;
}

/// What a step with the op posts: forward, backward into fresh gradients, and again into gradients that are there.
std::vector<Event> events(const OpInfo& op, const Sample& sample, const Tensors& inputs, uint32_t mask, Device device) {
  const auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  Tensors from;
  for (size_t i = 0; i < inputs.size(); ++i) {
    from.push_back(twin(inputs[i], device));
    if (mask >> i & 1) from[i].requires_grad(true);
  }
  Tensors seeds;
  {
    const NoGrad quiet;
    for (const Tensor& t : cotangents_for(run(op, sample, inputs))) seeds.push_back(twin(t, device));
  }
  return record_plan(ledger, [&] {
           for (int step = 0; step < 2; ++step) {
             Tape tape;
             Tensors outputs = run(op, sample, from), u = seeds;
             only_floats(outputs, u);
             if (!outputs.empty() && differentiable(op)) tape.backward(outputs, u);
           }
         }).events;
}

}  // namespace

std::string check_recompute(const OpInfo& op) {
  struct Verify {
    Verify() { verify_recompute(true); }
    ~Verify() { verify_recompute(false); }
  } const verify;
  for (const Sample& sample : samples_of(op)) {
    const uint32_t mask = differentiable(op) ? float_inputs(sample.inputs) : 0;
    const Gradients plain = run_backward(op, sample, sample.inputs, mask);
    const Tensors from = leaves(sample.inputs, mask);
    Tape tape;
    const Tensors results = checkpoint("recomputed", [&](const Tensors& x) { return run(op, sample, x); }, from);
    if (const auto text = bit_difference(results, plain.outputs); !text.empty()) return concat(describe(sample), ": output ", text);
    Tensors outputs = results, seeds = cotangents_for(results), gradients(from.size());
    only_floats(outputs, seeds);
    if (!outputs.empty()) gradients = tape.gradient(outputs, from, seeds);
    if (const auto text = bit_difference(gradients, plain.gradients); !text.empty()) return concat(describe(sample), ": gradient ", text);
  }
  return "";
}

std::string check_remake(const OpInfo& op) {
  if (!op.remake) return "";
  bool saves_less = false;
  for (const Sample& sample : samples_of(op)) {
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::bf16, Dtype::f16}) {
      if (sample.floats_only && dtype_size(dtype) < 4) continue;
      const Tensors inputs = converted(sample.inputs, dtype);
      const auto squared = [&](bool again, int64_t& saved) {  // the square keeps what the op gives
        const RecomputeOps policy(again ? std::vector{std::string(op.name)} : std::vector<std::string>());
        const Tensors from = leaves(inputs, float_inputs(inputs));
        Tape tape;
        Tensors squares;
        for (const Tensor& y : run(op, sample, from)) squares.push_back(y * y);
        policy.require_matches();
        saved = tape.saved_bytes();
        return tape.gradient(squares, from, cotangents_for(squares));
      };
      int64_t kept = 0, left = 0;
      const Tensors plain = squared(false, kept), remade = squared(true, left);
      if (const auto text = bit_difference(remade, plain); !text.empty()) return concat(describe(sample, inputs), ": gradient through what was made again ", text);
      saves_less = saves_less || left < kept;
    }
  }
  return saves_less ? "" : "nothing less is kept when its result is to be made again";
}

std::string check_plan(const OpInfo& op) {
  for (const Sample& sample : samples_of(op)) {
    const uint32_t all = float_inputs(sample.inputs);
    for (const Tensors& inputs : variants_of(op, sample, 60'000, Layout::transposed)) {
      std::vector<uint32_t> masks = need_masks(inputs);
      if (masks.empty()) masks.push_back(0);
      // Which gradients are wanted decides what happens, the size by how many bytes: the enlarged inputs are run once.
      if (elements_of(inputs) > elements_of(sample.inputs)) masks = {all};
      for (const uint32_t mask : masks) {
        const auto measured = events(op, sample, inputs, mask, cpu), planned = events(op, sample, inputs, mask, meta());
        if (const auto text = first_difference(planned, measured); !text.empty()) return concat(describe(sample, inputs), ", inputs ", mask, " of ", all, " wanted: ", text);
      }
    }
  }
  return "";
}

}  // namespace spool::test
