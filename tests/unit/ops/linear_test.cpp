// What linear promises beyond its values: no second-order gradient that is silently wrong; and strided inputs of linear attention's backward.
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <string>

namespace spool::test {
namespace {

Tensors second_order(Activation activation) {
  Rng rng(1);
  const Tensor x = rng.normal({3, 4}).requires_grad(true), w = rng.normal({2, 4}).requires_grad(true);
  Tape tape;
  const Tensor y = sum(square(linear(x, w, {}, activation)));
  const Tensors first = tape.gradient({y}, {x}, {}, {.create_graph = true});
  return tape.gradient({sum(first[0])}, {w});
}

TEST(Linear, SecondOrderThroughAFusedActivationThrows) {
  try {
    second_order(Activation::gelu_erf);
    FAIL() << "accepted";
  } catch (const AutogradError& error) {
    EXPECT_NE(std::string(error.what()).find("no second-order gradient: the activation is fused"), std::string::npos) << error.what();
  }
}

TEST(LinearAttention, BackwardReadsItsInputsWhereTheyLie) {
  Rng rng(2);
  const int64_t b = 2, l = 5, h = 3, m = 4, d = 2;
  const Tensor den = rng.uniform({b, h, l}, 1, 2), scattered = contiguous_copy(transpose(den, 0, 2));
  const Tensors dense{rng.normal({b, l, h, d}), rng.normal({b, h, m, d + 1}), rng.normal({b, l, h, m}), rng.normal({b, l, h, m}),
                      rng.normal({b, l, h, d}), rng.normal({b, h, m, d + 1}), rng.normal({b, l, h, d}), den};
  Tensors strided = dense;
  strided[7] = transpose(scattered, 0, 2);
  ASSERT_FALSE(strided[7].is_contiguous());
  for (const OpInfo* op : registered_ops()) {
    if (op->name != "linear_attention_backward") continue;
    Rng same(3);
    const AttrsPtr attrs = op->samples(same)[0].attrs;
    const Tensors a = dispatch(*op, dense, attrs.get()), c = dispatch(*op, strided, attrs.get());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].to_vector<double>(), c[i].to_vector<double>()) << "output " << i;
    return;
  }
  FAIL() << "the op is not registered";
}

}  // namespace
}  // namespace spool::test
