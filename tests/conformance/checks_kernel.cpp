#include "checks.h"
#include "guarded_allocator.h"
#include "support.h"

#include <spool/tensor/ambient.h>
#include <spool/tensor/error.h>
#include <spool/tensor/parallel.h>

namespace spool::test {
namespace {

/// Inputs as the kernel gets them: contiguous unless the op takes any strides.
struct Call {
  Tensors inputs, outputs, residuals;
  Storage scratch;
  Kernel kernel() const { return {inputs, outputs, residuals, scratch ? std::span(scratch->data, size_t(scratch->bytes)) : std::span<std::byte>()}; }
};

Call prepared(const OpInfo& op, const Sample& sample, const Tensors& inputs) {
  Call call;
  Metas in;
  for (const Tensor& t : inputs) {
    call.inputs.push_back(t.defined() && !op.strided ? as_contiguous(t) : t);
    in.push_back(meta_of(t));
  }
  const Inferred inferred = op.infer(in, attrs_of(op, sample));
  for (const Meta& m : inferred.outputs) call.outputs.push_back(empty(m));
  for (const Meta& m : inferred.residuals) call.residuals.push_back(empty(m));
  if (op.scratch) call.scratch = Storage(new StorageBody(op.scratch(in, attrs_of(op, sample)), cpu));
  return call;
}

/// The storages behind tensors, byte by byte.
using Bytes = std::vector<std::vector<std::byte>>;
Bytes bytes_of(const Tensors& tensors) {
  Bytes all;
  for (const Tensor& t : tensors) {
    all.emplace_back();
    if (t.defined() && t.storage()->bytes) all.back().assign(t.storage()->data, t.storage()->data + t.storage()->bytes);
  }
  return all;
}

struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

}  // namespace

std::string check_memory(const OpInfo& op) {
  for (const Sample& sample : samples_of(op)) {
    const uint32_t mask = differentiable(op) ? float_inputs(sample.inputs) : 0;
    const auto guarded = std::make_shared<GuardedAllocator>();  // from the first call on: finding the variants runs the op
    std::vector<Tensors> variants;
    {
      const With allocator(&Ambient::allocator, guarded);
      variants = variants_of(op, sample, 60'000, Layout::stepped);
    }
    for (const Tensors& inputs : variants) {
      Gradients result;
      {
        const With allocator(&Ambient::allocator, guarded);
        result = run_backward(op, sample, inputs, mask);
        if (const auto text = guarded->fault(); !text.empty()) return concat(describe(sample, inputs), ": ", text);
        if (op.infer && op.cpu && !op.view) {  // with every residual there is
          const Call call = prepared(op, sample, inputs);
          op.cpu(call.kernel(), attrs_of(op, sample));
        }
        if (const auto text = guarded->fault(); !text.empty()) return concat(describe(sample, inputs), ": ", text);
      }
      const Gradients plain = run_backward(op, sample, inputs, mask);
      if (const auto text = bit_difference(result.outputs, plain.outputs); !text.empty())
        return concat(describe(sample, inputs), " reads bytes that nobody wrote: output ", text);
      if (const auto text = bit_difference(result.gradients, plain.gradients); !text.empty())
        return concat(describe(sample, inputs), " reads bytes that nobody wrote: gradient ", text);
    }
  }
  return "";
}

std::string check_untouched(const OpInfo& op) {
  for (const Sample& sample : samples_of(op)) {
    const uint32_t mask = differentiable(op) ? float_inputs(sample.inputs) : 0;
    const Tensors inputs = laid_out(sample.inputs, Layout::stepped);  // bytes between the elements too
    const Bytes inputs_before = bytes_of(inputs);
    const Tensors from = leaves(inputs, mask);
    Tape tape;
    const Tensors results = run(op, sample, from), cotangents = laid_out(cotangents_for(results), Layout::stepped);
    if (bytes_of(inputs) != inputs_before) return concat(describe(sample), ": the kernel wrote to an input");
    const Bytes results_before = bytes_of(results), cotangents_before = bytes_of(cotangents);
    Tensors outputs = results, seeds = cotangents;
    only_floats(outputs, seeds);
    if (outputs.empty()) continue;
    tape.backward(outputs, seeds);
    if (bytes_of(inputs) != inputs_before) return concat(describe(sample), ": backward wrote to an input");
    if (bytes_of(results) != results_before) return concat(describe(sample), ": backward wrote to an output");
    if (bytes_of(cotangents) != cotangents_before) return concat(describe(sample), ": backward wrote to a cotangent");
  }
  return "";
}

std::string check_no_allocation(const OpInfo& op) {
  if (!op.cpu || !op.infer) return "";
  for (const Sample& sample : samples_of(op)) {
    for (const Tensors& inputs : variants_of(op, sample, 60'000)) {
      const auto ledger = std::make_shared<Ledger>();
      const With on(&Ambient::ledger, ledger);
      const Call call = prepared(op, sample, inputs);
      op.cpu(call.kernel(), attrs_of(op, sample));  // what is made once (thread teams, tables) is made now
      const uint64_t before = ledger->allocations();
      const HeapWatch heap;
      op.cpu(call.kernel(), attrs_of(op, sample));
      if (ledger->allocations() != before) return concat(describe(sample, inputs), ": the kernel made ", ledger->allocations() - before, " tensors with bytes");
      if (heap.large_allocations()) return concat(describe(sample, inputs), ": the kernel took ", heap.large_allocations(), " blocks of the heap, the largest of ", heap.largest(), " bytes");
    }
  }
  return "";
}

std::string check_threads(const OpInfo& op) {
  for (const Sample& sample : samples_of(op)) {
    const uint32_t mask = differentiable(op) ? float_inputs(sample.inputs) : 0;
    for (const Tensors& inputs : variants_of(op, sample, 120'000)) {
      Gradients first;
      const bool enlarged = elements_of(inputs) > elements_of(sample.inputs);
      for (const int threads : enlarged ? std::vector<int>{1, 2, 3} : std::vector<int>{1, 1, 2, 3}) {
        const Threads set(threads);
        const Gradients result = run_backward(op, sample, inputs, mask);
        if (first.outputs.empty()) {
          first = result;
          continue;
        }
        if (const auto text = bit_difference(result.outputs, first.outputs); !text.empty()) return concat(describe(sample, inputs), " with ", threads, " threads: output ", text);
        if (const auto text = bit_difference(result.gradients, first.gradients); !text.empty()) return concat(describe(sample, inputs), " with ", threads, " threads: gradient ", text);
      }
    }
  }
  return "";
}

}  // namespace spool::test
