#pragma once
// A scan over linear attention alone, with queries, keys and values given: what tests of the carried state share.
#include "performer_support.h"

#include <map>

namespace spool::test {

struct AttentionInputs {
  Tensor q, k, v;
  int64_t batch() const { return k.size(0); }
  int64_t length() const { return k.size(1); }
  Tensor zero_state(Dtype dtype) const { return zeros({k.size(0), k.size(2), k.size(3), v.size(3) + 1}, dtype); }
};

/// States that slices entered with, by position; the reverse pass comes last and overwrites the forward one.
using EnteredStates = std::map<int64_t, Tensor>;

/// Out [batch, length, heads, d] and the final state, in slices of `chunk`.
inline ScanResult scan_attention(const AttentionInputs& in, const Tensor& initial, ScanOptions options, Feature feature, EnteredStates* entered = nullptr) {
  const auto body = [in, feature, entered](Carry& carry, int64_t begin, int64_t end) {
    const Tensor q = slice(in.q, 1, begin, end), k = slice(in.k, 1, begin, end), v = slice(in.v, 1, begin, end);
    const Tensor start = carry.enter(0, [&](const Tensor& stop) { return linear_attention_start(stop, k, v, {.feature = feature}); });
    if (entered) (*entered)[begin] = start.detach();
    LinearAttentionResult result = linear_attention(q, k, v, start, {.feature = feature});
    carry.leave(0, std::move(result.state));
    return ScanStep{.sums = {}, .pieces = {std::move(result.out)}};
  };
  return scan("attention", body, {initial}, in.length(), options);
}

/// ‖a − b‖₂ / ‖b‖₂.
inline double relative(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}
inline double relative(const Tensor& a, const Tensor& b) { return relative(a.to_vector<double>(), b.to_vector<double>()); }

}  // namespace spool::test
