// Small steps whose instructions tests/instructions/check counts: what `spool_small_steps CASE` does in `measured`, after it has been done
// once. One thread.
#include <spool/spool.h>

#include <cstdio>
#include <functional>
#include <map>

namespace {

using namespace spool;

template <class Model, class Config>
std::function<void()> training(const Config& config, int64_t length, std::optional<int64_t> chunk = {}) {
  const auto model = std::make_shared<Model>(nn::root({.seed = 1}), config);
  const auto adam = std::make_shared<Adam>(model->named_parameters(), AdamOptions{.lr = 1e-3});
  const nn::TokenBatch batch = nn::token_batch(Rng(2).integers({2, length + 1}, 0, 64, Dtype::i64));
  return [=] {
    {
      Tape tape;
      nn::LossOptions options;
      options.chunk = chunk;
      tape.backward(model->training_loss(batch, options));
    }
    adam->step();
    adam->zero_grad();
  };
}

const nn::PerformerConfig performer{.vocab = 64, .d_model = 64, .layers = 2, .heads = 4, .d_ff = 128};
const nn::LlamaConfig llama{.vocab_size = 64, .hidden_size = 64, .intermediate_size = 96, .num_hidden_layers = 2, .num_attention_heads = 4, .num_key_value_heads = 2, .max_position_embeddings = 128};

/// Eight tokens, one at a time.
std::function<void()> decoding() {
  const auto model = std::make_shared<nn::Llama>(nn::root({.seed = 1}), llama);
  const Tensor tokens = Rng(2).integers({1, 8}, 0, 64, Dtype::i64);
  return [=] {
    const auto state = model->begin(1, 8);
    for (int64_t i = 0; i < 8; ++i) model->decode(*state, slice(tokens, 1, i, i + 1));
  };
}

/// A hundred sums of 2 × 2 on a tape, and their gradients: what an op costs beside its arithmetic.
std::function<void()> tiny() {
  const Tensor x = ones({2, 2}).requires_grad(true), y = ones({2, 2});
  return [=] {
    Tape tape;
    Tensor z = x;
    for (int i = 0; i < 100; ++i) z = add(z, y);
    tape.backward(Tensors{z}, Tensors{y});
    x.set_grad({});
  };
}

const std::map<std::string, std::function<std::function<void()>()>> cases{
    {"performer", [] { return training<nn::Performer>(performer, 90); }},
    {"performer-chunked", [] { return training<nn::Performer>(performer, 90, 25); }},
    {"llama", [] { return training<nn::Llama>(llama, 90); }},
    {"llama-decode", decoding},
    {"tiny-ops", tiny},
};

}  // namespace

extern "C" [[gnu::noinline]] void measured(const std::function<void()>& step) {
  step();
  asm volatile("" ::: "memory");  // not a jump out of here
}

int main(int argc, char** argv) {
  const auto found = argc == 2 ? cases.find(argv[1]) : cases.end();
  if (found == cases.end()) {
    std::fprintf(stderr, "usage: spool_small_steps CASE, one of:");
    for (const auto& [name, make] : cases) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  set_num_threads(1);
  const std::function<void()> step = found->second();
  step();
  measured(step);
}
