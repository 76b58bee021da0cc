// The loss of a language model without its logits: the same numbers, less memory.
#include <cmath>

#include "tests/support.h"

namespace spool::test {
namespace {

struct Result {
  std::vector<double> loss, dx, dweight;
};

Result run(const CrossEntropyOptions& options, int64_t rows, Dtype dtype = Dtype::f64) {
  Rng rng(4);
  const Tensor x = cast(rng.normal({3, 7, 10}), dtype).requires_grad(true), weight = cast(rng.normal({13, 10}), dtype).requires_grad(true);
  Tensor targets = rng.integers({3, 7}, 0, 13, Dtype::i32);
  fill(narrow(targets, 1, 2, 2), double(options.ignore_index));
  Tape tape;
  const Tensor loss = linear_cross_entropy(x, weight, targets, options, rows);
  tape.backward(Tensors{loss}, Tensors{cast(rng.normal(loss.shape()), dtype)});
  return {loss.to_vector<double>(), x.grad().to_vector<double>(), weight.grad().to_vector<double>()};
}

TEST(LinearCrossEntropy, AnyNumberOfRowsGivesTheSame) {
  for (const Reduction reduction : {Reduction::none, Reduction::sum, Reduction::mean}) {
    for (const double smoothing : {0.0, 0.1}) {
      const CrossEntropyOptions options{.reduction = reduction, .ignore_index = -100, .label_smoothing = smoothing};
      const Result whole = run(options, 0);
      for (const int64_t rows : {1, 4, 20, 21, 500}) {
        const Result parts = run(options, rows);
        for (const auto member : {&Result::loss, &Result::dx, &Result::dweight}) {
          ASSERT_EQ((parts.*member).size(), (whole.*member).size());
          for (size_t i = 0; i < (whole.*member).size(); ++i) ASSERT_NEAR((parts.*member)[i], (whole.*member)[i], 1e-12) << "reduction " << int(reduction) << ", rows " << rows;
        }
      }
    }
  }
}

TEST(LinearCrossEntropy, NoMoreLogitsExistThanItsRows) {
  constexpr int64_t count = 512, dim = 16, classes = 1000;
  const auto peak = [](int64_t rows) {
    const auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    const Tensor x = empty({count, dim}, Dtype::f32, meta()).requires_grad(true), weight = empty({classes, dim}, Dtype::f32, meta()).requires_grad(true);
    Tape tape;
    tape.backward(linear_cross_entropy(x, weight, empty({count}, Dtype::i64, meta()), {}, rows));
    return ledger->peak();
  };
  const int64_t logits = count * classes * 4;
  EXPECT_GE(peak(0), 2 * logits);  // they and their gradient
  EXPECT_LE(peak(32), 2 * logits / 16 + 1'000'000);
}

TEST(LinearCrossEntropy, WrongShapesAreNamed) {
  try {
    linear_cross_entropy(zeros({2, 3, 4}), zeros({5, 4}), zeros({6}, Dtype::i64), {}, 2);
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_STREQ(e.what(), "linear_cross_entropy: targets [6] do not fit x [2, 3, 4]");
  }
}

}  // namespace
}  // namespace spool::test
