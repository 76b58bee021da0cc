#pragma once
// The conformance checks. Each looks at one op from the registry and returns what is wrong with it, or nothing. They are functions, not
// tests, so that planted faults can show that they catch what they are for.
#include <spool/autograd/op.h>

#include <span>
#include <string>

namespace spool::test {

using Check = std::string (*)(const OpInfo&);

// The table itself, and running forward.
std::string check_samples(const OpInfo&);        ///< There are samples, labelled, with attributes and a sane cost; zero sizes among them.
std::string check_shape_rule(const OpInfo&);     ///< infer says what a run gives, on meta too.
std::string check_layouts(const OpInfo&);        ///< Offset, transposed, stepped, reversed and expanded inputs: the same bits, forward and backward.
std::string check_zero_sizes(const OpInfo&);     ///< Any size made 0, or 0-d inputs: works or throws an Error.
std::string check_bad_samples(const OpInfo&);    ///< Throw the expected text and leave nothing behind.
std::string check_types(const OpInfo&);          ///< f32, bf16 and f16 against f64, forward and backward.
std::string check_memory(const OpInfo&);         ///< No write outside of outputs and scratch, no use of what was never written.
std::string check_untouched(const OpInfo&);      ///< Neither pass writes to inputs or cotangents, nor backward to outputs.
std::string check_no_allocation(const OpInfo&);  ///< The kernel takes no memory.
std::string check_threads(const OpInfo&);        ///< 1, 2 and 3 threads, and a second run: the same bits.

// The gradient rule.
std::string check_gradient(const OpInfo&);         ///< Against differences, in f64, random cotangents.
std::string check_second_order(const OpInfo&);     ///< The rule's own gradient against differences, or the reason why there is none.
std::string check_need_masks(const OpInfo&);       ///< Each choice of inputs: the gradients of all, and nothing for the rest.
std::string check_accumulation(const OpInfo&);     ///< f(x) + f(x), and a second backward into .grad(), double the gradient.
std::string check_cotangents(const OpInfo&);       ///< Several outputs: a gradient is the sum of those from each output alone.
std::string check_saves(const OpInfo&);            ///< Declared = read, for each choice of inputs.
std::string check_overwritten(const OpInfo&);      ///< A saved tensor written to after it was saved throws, naming the op.
std::string check_no_gradient(const OpInfo&);      ///< An op without a gradient throws its reason.
std::string check_recompute(const OpInfo&);        ///< Inside a checkpoint: the same bits, forward and backward.
std::string check_remake(const OpInfo&);           ///< Results that are made again in backward instead of kept: the same bits, fewer bytes.
std::string check_plan(const OpInfo&);             ///< A meta run posts the events of the run, forward and backward.

struct NamedCheck {
  const char* name;
  Check check;
};
std::span<const NamedCheck> all_checks();
/// The check's text; an error that it lets through becomes text too.
std::string outcome(Check check, const OpInfo& op);

}  // namespace spool::test
