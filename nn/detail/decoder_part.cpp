#include <spool/nn/detail/decoder_part.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::nn::detail {

bool remakes(const StepSizes& sizes, std::string_view op, std::initializer_list<std::string_view> known) {
  const std::vector<std::string>& names = sizes.loss.recompute_ops;
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end()) fail<ConfigError>("estimate: recompute_ops: there is no closed form with ", name, "; plan the step");
  return std::find(names.begin(), names.end(), op) != names.end();
}

void require_plain(const StepSizes& sizes) {
  const LossOptions& loss = sizes.loss;
  if (loss.recompute != Recompute::none || !loss.recompute_ops.empty() || loss.chunk || loss.loss_chunk || loss.feed_forward_chunk)
    fail<ConfigError>("module_estimates: modules are told apart where nothing is recomputed and nothing runs in pieces");
}

DecoderPart::DecoderPart(const StepSizes& sizes, const DecoderWidths& w, Schedule& schedule, int64_t positions)
    : z(sizes), widths(w), s(schedule), length(positions), e(int64_t(dtype_size(sizes.dtype))), S(sizes.dtype == Dtype::f64 ? 8 : 4), T(sizes.batch * positions), h(w.hidden), V(w.vocabulary), X(T * h * e),
      R(w.statistics * T * S), copy(sizes.batch > 1 ? T * (sizes.byte_tokens ? 1 : 4) : 0) {}

int64_t DecoderPart::linear_scratch(int64_t rows, int64_t in, int64_t out) const {
  return declared_scratch("linear", {meta({rows, in}), meta({out, in}), Meta{.defined = false}});
}

void DecoderPart::linear_backward(std::string_view name, int64_t rows, int64_t in, int64_t out, bool bias, bool added, int64_t beside) {
  const int64_t reshaped = length > 1 ? beside : 0;  // one position of each sequence is a matrix as it lies
  const int64_t dw = added ? 0 : out * in * e, db = added || !bias ? 0 : out * e;
  s.op(name, dw, product_scratch(out, rows, in, z.dtype), reshaped);
  if (bias) s.op(name, db, 0, beside);
  s.op(name, rows * in * e, product_scratch(rows, out, in, z.dtype), reshaped);
  s.work(4.0 * double(rows) * double(in) * double(out));
  s.gradient(dw + db);
}

void DecoderPart::norm_backward(std::string_view name, bool bias, int64_t beside) {
  s.op(name, X + (gathered ? 0 : 2 * h * e), declared_scratch("norm_backward", {meta({T, h}), meta({T, h})}), beside);
  if (!bias && !gathered) s.drop(h * e);
  if (!gathered) s.gradient(bias ? 2 * h * e : h * e);
}

void DecoderPart::added_norm_backward(std::string_view name) {
  s.op(name, X + 2 * h * e, declared_scratch("norm_backward", {meta({T, h}), meta({T, h})}));
  s.drop(gathered ? 2 * h * e : h * e);
  if (!gathered) s.gradient(h * e);
}

}  // namespace spool::nn::detail
