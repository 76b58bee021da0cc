#pragma once
// The blocks of a decoder in the scopes that a policy asks for. Private to the models.
#include <spool/autograd/checkpoint.h>
#include <spool/nn/language_model.h>
#include <spool/tensor/error.h>

#include <algorithm>

namespace spool::nn::detail {

/// x through all of `blocks`; `run(i, x)` runs block i, with a scope around its attention part where options.recompute says so.
template <class Blocks, class F>
Tensor run_blocks(const LossOptions& options, const Blocks& blocks, Tensor x, const F& run) {
  const Recompute& r = options.recompute;
  const int64_t count = blocks.size();
  if (r.first > count) fail<ConfigError>("recompute: ", to_string(r), ": the model has ", count, " blocks");
  if (r.group > count) fail<ConfigError>("recompute: ", to_string(r), ": the model has ", count, " blocks");
  const auto scope = [&blocks](const char* name, int64_t i, const std::function<Tensor(const Tensor&)>& f, const Tensor& input) {
    const With path(&Ambient::path, intern_path(blocks[i].path()));
    return checkpoint(name, f, input);
  };
  const auto one = [run](int64_t i) { return [run, i](const Tensor& input) { return run(i, input); }; };
  for (int64_t i = 0; i < count;) {
    if (!r.block_at(i)) {
      x = run(i, x);
      ++i;
      continue;
    }
    const int64_t end = std::min(i + r.group, count);
    if (r.group == 1 && !r.nested) {
      x = scope("block", i, one(i), x);
    } else {
      const auto group = [&blocks, one, scope, nested = r.nested, i, end](const Tensor& input) {
        Tensor y = input;
        for (int64_t j = i; j < end; ++j) y = nested ? scope("block", j, one(j), y) : one(j)(y);
        return y;
      };
      x = scope("group", i, group, x);
    }
    i = end;
  }
  return x;
}

}  // namespace spool::nn::detail
