#include <spool/nn/language_model.h>
#include <spool/ops/cast.h>
#include <spool/ops/expand.h>
#include <spool/ops/slice.h>
#include <spool/ops/where.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::nn {

TokenBatch token_batch(Tensor tokens) {
  const int64_t scored = tokens.size(0) * std::max<int64_t>(tokens.size(1) - 1, 0);
  return {std::move(tokens), {}, scored};
}

Tensor targets_of(const TokenBatch& batch, int64_t begin, int64_t end) {
  const Tensor targets = slice(batch.tokens, 1, begin + 1, end + 1);
  if (!batch.mask.defined()) return targets;
  const Tensor ignored = expand(full({}, ignored_target, Dtype::i32, targets.device()), targets.shape());
  return where(slice(batch.mask, 1, begin + 1, end + 1), cast(targets, Dtype::i32), ignored);
}

KeyValueCache::KeyValueCache(int64_t layers, const Meta& layer) : capacity(layer.shape[1]) {
  for (int64_t i = 0; i < layers; ++i) {
    keys.push_back(empty(layer));
    values.push_back(empty(layer));
  }
}

void KeyValueCache::append(int64_t layer, Tensor& k, Tensor& v) const {
  const auto add = [this](const Tensor& all, Tensor& now) {
    copy(narrow(all, 1, position, now.size(1)), now);
    now = narrow(all, 1, 0, position + now.size(1));
  };
  add(keys[size_t(layer)], k);
  add(values[size_t(layer)], v);
}

void KeyValueCache::check_room(std::string_view model, int64_t n) const {
  if (position + n > capacity) fail<ShapeError>(model, ": ", n, " more tokens do not fit the cache of ", capacity, ", which holds ", position);
}

}  // namespace spool::nn
