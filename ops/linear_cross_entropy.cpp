#include <spool/autograd/scan.h>
#include <spool/ops/arithmetic.h>
#include <spool/ops/cast.h>
#include <spool/ops/linear.h>
#include <spool/ops/linear_cross_entropy.h>
#include <spool/ops/pointwise.h>
#include <spool/ops/reduce.h>
#include <spool/ops/scalar.h>
#include <spool/ops/shape.h>
#include <spool/tensor/error.h>

namespace spool {

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets, CrossEntropyOptions options, int64_t rows) {
  if (rows < 0) fail<ConfigError>("linear_cross_entropy: rows must be 0 or above, got ", rows);
  Shape expected = x.shape();
  if (expected.empty()) fail<ShapeError>("linear_cross_entropy: x must be [..., dim], got ", x.shape());
  expected.erase(expected.size() - 1);
  if (targets.shape() != expected) fail<ShapeError>("linear_cross_entropy: targets ", targets.shape(), " do not fit x ", x.shape());
  const int64_t count = targets.numel();
  if (rows == 0 || rows >= count) return cross_entropy(linear(x, weight), targets, options);

  const Tensor flat = reshape(x, {count, x.shape().back()}), ids = reshape(targets, {count});
  const bool whole = options.reduction == Reduction::none;
  CrossEntropyOptions part = options;
  if (!whole) part.reduction = Reduction::sum;
  const auto body = [=](Carry&, int64_t begin, int64_t end) {
    Tensor loss = cross_entropy(linear(slice(flat, 0, begin, end), weight), slice(ids, 0, begin, end), part);
    return whole ? ScanStep{.sums = {}, .pieces = {std::move(loss)}} : ScanStep{.sums = {std::move(loss)}, .pieces = {}};
  };
  const ScanResult result = scan("linear_cross_entropy", body, {}, count, {.chunk = rows, .state = StatePolicy::store, .axis = 0});
  if (whole) return reshape(result.pieces[0], targets.shape());
  if (options.reduction == Reduction::sum) return result.sums[0];
  const Tensor scored = sum(not_equal(cast(ids, Dtype::i64), double(options.ignore_index)));
  const Dtype type = result.sums[0].dtype();
  return result.sums[0] / maximum(cast(scored, type), full({}, 1, type, x.device()));
}

}  // namespace spool
