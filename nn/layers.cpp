#include <spool/autograd/scan.h>
#include <spool/nn/layers.h>
#include <spool/ops/dropout.h>
#include <spool/ops/embedding.h>
#include <spool/ops/norm.h>
#include <spool/ops/slice.h>
#include <spool/tensor/error.h>

#include <cmath>

namespace spool::nn {

Linear::Linear(Slot at, Config c) : Layer(at), weight{at("weight"), {c.out, c.in}, Init::uniform(1 / std::sqrt(double(c.in)))} {
  if (c.bias) bias.emplace(at("bias"), Shape{c.out}, Init::uniform(1 / std::sqrt(double(c.in))));
}
Linear::Linear(Slot at, Config c, Init init) : Layer(at), weight{at("weight"), {c.out, c.in}, init} {
  if (c.bias) bias.emplace(at("bias"), Shape{c.out}, Init::constant(0));
}
Tensor Linear::forward(const Tensor& x, Activation activation) const { return linear(x, weight, bias ? bias->value : Tensor(), activation); }

Embedding::Embedding(Slot at, Config c, Init init) : Layer(at), weight{at("weight"), {c.count, c.dim}, init} {}
Tensor Embedding::forward(const Tensor& ids) const { return embedding(weight, ids); }

LayerNorm::LayerNorm(Slot at, Config c) : Layer(at), config(c), weight{at("weight"), {c.dim}, Init::constant(1)}, bias{at("bias"), {c.dim}, Init::constant(0)} {}
Tensor LayerNorm::forward(const Tensor& x) const { return layer_norm(x, weight, bias, config.eps); }

RmsNorm::RmsNorm(Slot at, Config c) : Layer(at), config(c), weight{at("weight"), {c.dim}, Init::constant(1)} {}
Tensor RmsNorm::forward(const Tensor& x) const { return rms_norm(x, weight, config.eps); }
AddedNorm RmsNorm::added(const Tensor& x, const Tensor& delta) const {
  const With path(&Ambient::path, interned_path());
  return add_rms_norm(x, delta, weight, config.eps);
}

Tensor blockwise(const Tensor& x, int64_t chunk, const std::function<Tensor(const Tensor&)>& f) {
  if (chunk < 0) fail<ConfigError>("blockwise: chunk must be 0 or above, got ", chunk);
  if (chunk == 0 || chunk >= x.size(1)) return f(x);
  const auto body = [f, x](Carry&, int64_t begin, int64_t end) { return ScanStep{.sums = {}, .pieces = {f(slice(x, 1, begin, end))}}; };
  return scan("blockwise", body, {}, x.size(1), {.chunk = chunk, .state = StatePolicy::store, .axis = 1}).pieces[0];
}

Dropout::Dropout(Slot at, double probability) : Layer(at), p(probability) {
  if (!(p >= 0 && p <= 1)) fail<ConfigError>("dropout: p must be in [0, 1], got ", p);
}
Tensor Dropout::forward(const Tensor& x, int64_t position) const {
  if (!training() || p == 0) return x;
  return dropout(x, p, ambient().random.fold(path()), {.position = position});
}

}  // namespace spool::nn
