// Tests of the test: ops with one fault each, registered in this program only. The check that is for the fault must find it, and the sound
// twin must pass everything.
#include "checks.h"

#include <spool/autograd/saved.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/parallel.h>

#include <gtest/gtest.h>

namespace spool::test {
namespace {

enum class Fault { none, extra_save, missing_save, wrong_sign, allocates, heap, depends_on_threads, writes_beyond, scratch_beyond, unwritten, wrong_shape, assigns,
                   writes_input, scales_cotangent, ignores_strides, not_repeatable };

/// y = x·w elementwise.
template <Fault fault>
struct Planted {
  static constexpr const char* names[] = {"planted_sound", "planted_extra_save", "planted_missing_save", "planted_wrong_sign", "planted_allocates", "planted_heap",
                                          "planted_depends_on_threads", "planted_writes_beyond", "planted_scratch_beyond", "planted_unwritten", "planted_wrong_shape",
                                          "planted_assigns", "planted_writes_input", "planted_scales_cotangent", "planted_ignores_strides",
                                          "planted_not_repeatable"};
  static constexpr const char* name = names[size_t(fault)];
  struct Attrs {};
  static Inferred infer(const Metas& in, const Attrs&) {
    same_float(name, in);
    if (in[0].shape != in[1].shape) fail<ShapeError>(name, ": shapes ", in[0].shape, " and ", in[1].shape, " differ");
    Meta out = in[0];
    if (fault == Fault::wrong_shape && in[0].device.meta) out.shape = {numel(out.shape)};
    return {{out}, {}};
  }
  static int64_t scratch(const Metas&, const Attrs&) { return 64; }
  static void cpu(const Kernel& k, const Attrs&) {
    visit_float(name, k.out().dtype(), [&]<class T>() {
      const T *x = static_cast<const T*>(k.in(0).raw()), *w = static_cast<const T*>(k.in(1).raw());
      T* y = static_cast<T*>(k.out().raw());
      const int64_t n = k.out().numel();
      const int64_t written = fault == Fault::unwritten ? n - 1 : n;
      for (int64_t i = 0; i < written; ++i) y[i] = static_cast<T>(accumulate_t<T>(x[i]) * accumulate_t<T>(w[i]));
      if (fault == Fault::writes_beyond && n > 0) y[n] = T(1.f);
      if (fault == Fault::scratch_beyond) k.scratch.data()[64] = std::byte(1);
      if (fault == Fault::depends_on_threads && n > 0) y[0] = static_cast<T>(accumulate_t<T>(y[0]) * accumulate_t<T>(float(num_threads())));
    });
    if (fault == Fault::not_repeatable) fill(k.out(), ++calls_);
    if (fault == Fault::writes_input) fill(k.in(0), 0);
    if (fault == Fault::allocates) contiguous_copy(k.in(0));
    if (fault == Fault::heap) std::vector<double>(5000).swap(heap_);
  }
  static constexpr bool strided = fault == Fault::writes_input || fault == Fault::ignores_strides;  // others are handed copies
  static Saves saves(Need need) {
    const Saves right = Saves().input(0, need(1)).input(1, need(0));
    if (fault == Fault::extra_save) return right.output(0);
    if (fault == Fault::missing_save) return Saves().input(1, need(0));
    return right;
  }
  static Tensors vjp(Saved& s, const Attrs&) {
    Tensors out(2);
    if (s.needs(0)) out[0] = mul(s.grad(), s.input(1));
    if (s.needs(1)) out[1] = mul(s.grad(), s.input(0));
    if (fault == Fault::scales_cotangent) fill(s.grad(), 2);
    if (fault == Fault::wrong_sign && out[1].defined()) out[1] = neg(out[1]);
    if (fault == Fault::assigns && s.needs(0) && s.target(0).defined()) {
      const Tensor target = s.target(0);
      copy(target, out[0]);
      out[0] = target;
    }
    return out;
  }
  static Cost cost(const Metas& in, const Attrs&) { return {double(numel(in[0].shape)), 3.0 * double(in[0].nbytes())}; }
  static std::vector<Sample> samples(Rng& rng) { return {{"matrix", {rng.normal({3, 5}), rng.normal({3, 5})}, {}}, {"zero size", {rng.normal({0, 5}), rng.normal({0, 5})}, {}}}; }
  static std::vector<BadSample> bad() { return {{"shapes", {zeros({2}), zeros({3})}, {}, "[2] and [3] differ"}}; }
  static inline std::vector<double> heap_;
  static inline int calls_ = 0;
};

template <Fault... faults>
bool plant() {
  return (register_op(op_info<Planted<faults>>()) && ...);
}
[[maybe_unused]] const bool planted = plant<Fault::none, Fault::extra_save, Fault::missing_save, Fault::wrong_sign, Fault::allocates, Fault::heap, Fault::depends_on_threads,
                                            Fault::writes_beyond, Fault::scratch_beyond, Fault::unwritten, Fault::wrong_shape, Fault::assigns, Fault::writes_input,
                                            Fault::scales_cotangent, Fault::ignores_strides, Fault::not_repeatable>();

template <Fault fault>
std::string caught_by(Check check) {
  return outcome(check, op_info<Planted<fault>>());
}
void expect_text(const std::string& said, const char* expected) { EXPECT_NE(said.find(expected), std::string::npos) << "said: \"" << said << "\""; }

TEST(PlantedFaults, TheSoundTwinPasses) {
  for (const auto& [name, check] : all_checks()) EXPECT_EQ(caught_by<Fault::none>(check), "") << name;
}
TEST(PlantedFaults, ExtraSave) { expect_text(caught_by<Fault::extra_save>(check_saves), "declares inputs"); }
TEST(PlantedFaults, MissingSave) {
  expect_text(caught_by<Fault::missing_save>(check_saves), "which `saves` does not declare");
  expect_text(caught_by<Fault::missing_save>(check_gradient), "which `saves` does not declare");
}
TEST(PlantedFaults, WrongSign) { expect_text(caught_by<Fault::wrong_sign>(check_gradient), "error "); }
TEST(PlantedFaults, AllocatesInItsKernel) {
  expect_text(caught_by<Fault::allocates>(check_no_allocation), "made 1 tensors");
  expect_text(caught_by<Fault::allocates>(check_plan), "planned");
}
TEST(PlantedFaults, TakesHeapInItsKernel) { expect_text(caught_by<Fault::heap>(check_no_allocation), "blocks of the heap"); }
TEST(PlantedFaults, DependsOnTheNumberOfThreads) { expect_text(caught_by<Fault::depends_on_threads>(check_threads), "with 2 threads"); }
TEST(PlantedFaults, WritesBeyondItsOutput) {
  expect_text(caught_by<Fault::writes_beyond>(check_memory), "past its end");
}
TEST(PlantedFaults, WritesBeyondItsScratch) {
  expect_text(caught_by<Fault::scratch_beyond>(check_memory), "past its end");
}
TEST(PlantedFaults, LeavesAnElementUnwritten) { expect_text(caught_by<Fault::unwritten>(check_memory), "nobody wrote"); }
TEST(PlantedFaults, WritesToAnInput) { expect_text(caught_by<Fault::writes_input>(check_untouched), "wrote to an input"); }
TEST(PlantedFaults, WritesToACotangent) { expect_text(caught_by<Fault::scales_cotangent>(check_untouched), "wrote to a cotangent"); }
TEST(PlantedFaults, IgnoresStrides) { expect_text(caught_by<Fault::ignores_strides>(check_layouts), "transposed inputs: output"); }
TEST(PlantedFaults, GivesAnotherResultTheSecondTime) {
  expect_text(caught_by<Fault::not_repeatable>(check_threads), "with 1 threads");
  expect_text(caught_by<Fault::not_repeatable>(check_recompute), "output");
}
TEST(PlantedFaults, InfersAnotherShapeOnMeta) { expect_text(caught_by<Fault::wrong_shape>(check_shape_rule), "on meta"); }
TEST(PlantedFaults, AssignsToAGradientThatIsThere) { expect_text(caught_by<Fault::assigns>(check_accumulation), "expected"); }

}  // namespace
}  // namespace spool::test
