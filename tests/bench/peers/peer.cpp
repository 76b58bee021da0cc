// Our side of tests/bench/peers/compare: builds what the arguments say, leaves weights and tokens for the other side, then does as it is told
// line by line.
//
//   spool_peer performer|llama|attention DIR [key=value]...
//
//   step       one training step (forward, backward, Adam) in the planned arena: prints seconds and loss
//   decode N   N tokens, one at a time, after the first 128 of the sequence: prints seconds and the sum of the last logits
//   memory     prints the bytes that steps needed at their peak beside parameters, gradients and optimizer state not counted out
#include <spool/autograd/arena.h>
#include <spool/spool.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>

namespace spool {
namespace {

using Settings = std::map<std::string, int64_t>;

int64_t get(const Settings& s, const std::string& key, int64_t otherwise) { return s.contains(key) ? s.at(key) : otherwise; }

/// What both sides can be asked to do.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual double step() = 0;  ///< Returns the loss.
  virtual double decode(int64_t) { fail<Error>("this has no decoding"); }
  virtual int64_t peak() const = 0;
};

class Model : public Subject {
 public:
  Model(const std::string& kind, const Settings& s, const std::filesystem::path& directory) : settings_(s) {
    const Tensor tokens = Rng(2).integers({get(s, "batch", 1), get(s, "length", 1024) + 1}, 0, get(s, "vocab", 256), Dtype::i64);
    const With on(&Ambient::ledger, ledger_);
    model_ = make(kind, cpu);
    save_safetensors((directory / "weights.safetensors").string(), model_->named_parameters());
    save_safetensors((directory / "tokens.safetensors").string(), {{"tokens", tokens}});
    batch_ = nn::token_batch(tokens);
    adam_ = std::make_unique<Adam>(model_->named_parameters(), AdamOptions{.lr = 1e-4});
    adam_->prepare();
    place_step(kind, tokens);
    ledger_->reset_peak();
  }
  double step() override {
    const With on(&Ambient::ledger, ledger_);
    const ArenaStep in(arena_);
    return run(*model_, batch_, *adam_);
  }
  double decode(int64_t count) override {
    const int64_t before = std::min<int64_t>(128, batch_.tokens.size(1) - 1);
    const auto state = model_->begin(1, before + count + 1);
    Tensor logits = model_->decode(*state, slice(slice(batch_.tokens, 0, 0, 1), 1, 0, before));
    const auto began = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < count; ++i) logits = model_->decode(*state, slice(slice(batch_.tokens, 0, 0, 1), 1, i % before, i % before + 1));
    decoding_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return sum(logits).item();
  }
  double decoding() const { return decoding_; }
  int64_t peak() const override { return ledger_->peak(); }

 private:
  std::unique_ptr<nn::LanguageModel> make(const std::string& kind, Device device) const {
    const nn::Slot root = nn::root({.seed = 1, .device = device});
    const Settings& s = settings_;
    if (kind == "performer")
      return std::make_unique<nn::Performer>(root, nn::PerformerConfig{.vocab = get(s, "vocab", 256), .d_model = get(s, "d_model", 512), .layers = get(s, "layers", 3), .heads = get(s, "heads", 8), .d_ff = get(s, "d_ff", 2048)});
    return std::make_unique<nn::Llama>(root, nn::LlamaConfig{.vocab_size = get(s, "vocab", 256), .hidden_size = get(s, "width", 512), .intermediate_size = get(s, "d_ff", 1376), .num_hidden_layers = get(s, "layers", 4),
                                                            .num_attention_heads = get(s, "heads", 8), .num_key_value_heads = get(s, "kv", 8), .max_position_embeddings = get(s, "length", 1024) + 256, .tie_word_embeddings = false});
  }
  double run(const nn::LanguageModel& model, const nn::TokenBatch& batch, Optimizer& optimizer) const {
    Tensor loss;
    {
      Tape tape;
      nn::LossOptions options;
      if (const int64_t chunk = get(settings_, "chunk", 0)) options.chunk = chunk;
      loss = model.training_loss(batch, options);
      tape.backward(loss);
      loss = loss.detach();
    }
    optimizer.step();
    optimizer.zero_grad();
    return loss.device().meta ? 0 : loss.item();
  }
  void place_step(const std::string& kind, const Tensor& tokens) {
    const auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    const auto model = make(kind, meta());
    Adam adam(model->named_parameters(), {.lr = 1e-4});
    adam.prepare();
    nn::TokenBatch batch = nn::token_batch(empty(tokens.shape(), tokens.dtype(), meta()));
    batch.scored = batch_.scored;
    run(*model, batch, adam);
    arena_ = std::make_shared<Arena>(record_plan(ledger, [&] { run(*model, batch, adam); }));
  }

  Settings settings_;
  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  std::unique_ptr<nn::LanguageModel> model_;
  nn::TokenBatch batch_;
  std::unique_ptr<Adam> adam_;
  std::shared_ptr<Arena> arena_;
  double decoding_ = 0;
};

/// Causal attention alone, forward and backward; the "loss" is the sum of the gradient of the queries, which stands for agreement.
class AttentionAlone : public Subject {
 public:
  AttentionAlone(const Settings& s, const std::filesystem::path& directory) {
    const With on(&Ambient::ledger, ledger_);
    Rng rng(3);
    const Shape shape{1, get(s, "length", 1024), get(s, "heads", 8), get(s, "dim", 64)};
    for (Tensor* t : {&q_, &k_, &v_, &dout_}) *t = cast(rng.normal(shape), Dtype::f32).detach();
    save_safetensors((directory / "weights.safetensors").string(), {{"q", q_}, {"k", k_}, {"v", v_}, {"dout", dout_}});
    for (const Tensor& t : {q_, k_, v_}) t.requires_grad(true);
    ledger_->reset_peak();
  }
  double step() override {
    const With on(&Ambient::ledger, ledger_);
    for (const Tensor& t : {q_, k_, v_}) t.set_grad({});
    Tape tape;
    tape.backward(Tensors{attention(q_, k_, v_)}, Tensors{dout_});
    return sum(q_.grad()).item();
  }
  int64_t peak() const override { return ledger_->peak(); }

 private:
  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  Tensor q_, k_, v_, dout_;
};

int serve(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: spool_peer performer|llama|attention DIR [key=value]...\n");
    return 2;
  }
  const std::string kind = argv[1];
  Settings settings;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t at = word.find('=');
    int64_t value = 0;
    if (at == std::string::npos || std::from_chars(word.data() + at + 1, word.data() + word.size(), value).ec != std::errc()) fail<ConfigError>("spool_peer: '", word, "' is not key=number");
    settings[word.substr(0, at)] = value;
  }
  set_num_threads(int(get(settings, "threads", 2)));
  std::unique_ptr<Subject> subject;
  if (kind == "attention") subject = std::make_unique<AttentionAlone>(settings, argv[2]);
  else if (kind == "performer" || kind == "llama") subject = std::make_unique<Model>(kind, settings, argv[2]);
  else fail<ConfigError>("spool_peer: unknown subject '", kind, "'");
  std::cout << "ready" << std::endl;
  std::cout.precision(17);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    int64_t count = 1;
    words >> command >> count;
    const auto began = std::chrono::steady_clock::now();
    if (command == "memory") {
      std::cout << subject->peak() << std::endl;
      continue;
    }
    const double value = command == "decode" ? subject->decode(count) : subject->step();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (const auto* model = dynamic_cast<const Model*>(subject.get()); model && command == "decode") seconds = model->decoding();
    std::cout << seconds << ' ' << value << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace spool

int main(int argc, char** argv) {
  try {
    return spool::serve(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
