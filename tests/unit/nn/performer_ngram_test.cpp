// Embeddings of the tokens before a position: they cross the borders of slices and of a stream's pieces.
#include "performer_support.h"

namespace spool::test {
namespace {

using nn::Performer;
using nn::PerformerConfig;
using nn::TokenBatch;
using nn::token_batch;

PerformerConfig config_of(int64_t ngram) { return {.d_model = 24, .layers = 2, .heads = 3, .d_ff = 20, .ngram = ngram}; }

TEST(PerformerNgram, SlicesShorterThanTheNgramGiveTheWholeGradient) {
  for (const int64_t ngram : {2, 5}) {
    Performer model(nn::root({.seed = 5, .dtype = Dtype::f64}), config_of(ngram));
    const TokenBatch batch = token_batch(random_tokens(3, 38, 9));
    const Gradient full = gradient_of(model, batch);
    for (const int64_t chunk : {1, 2, 3, 5, 16, 37}) EXPECT_LE(relative(gradient_of(model, batch, chunk), full).whole, 1e-13) << "n = " << ngram << ", C = " << chunk;
  }
}

TEST(PerformerNgram, AStreamInPiecesGivesTheParallelLogits) {
  const NoGrad quiet;
  Performer model(nn::root({.seed = 1, .dtype = Dtype::f64}), config_of(4));
  const Tensor tokens = random_tokens(2, 31, 3);
  const auto whole = model.forward(tokens).to_vector<double>();
  for (const int64_t piece : {1, 2, 3, 7, 31}) {
    auto stream = model.stream(2, Dtype::f64);
    for (int64_t at = 0; at < 31; at += piece) {
      const int64_t end = std::min<int64_t>(31, at + piece);
      const auto now = model.advance(stream, slice(tokens, 1, at, end)).to_vector<double>();
      for (int64_t row = 0; row < 2; ++row)
        for (int64_t i = 0; i < (end - at) * 256; ++i) ASSERT_NEAR(now[size_t(row * (end - at) * 256 + i)], whole[size_t((row * 31 + at) * 256 + i)], 1e-12) << "pieces of " << piece;
    }
  }
}

TEST(PerformerNgram, TheTokensBeforeArePartOfTheEmbeddingAndLaterOnesAreNot) {
  const NoGrad quiet;
  Performer model(nn::root({.seed = 1, .dtype = Dtype::f64}), config_of(3));
  const Tensor tokens = random_tokens(1, 20, 3), changed = contiguous_copy(tokens);
  changed.data<uint8_t>()[10] ^= 0x55;
  const auto a = model.forward(tokens).to_vector<double>(), b = model.forward(changed).to_vector<double>();
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 10 * 256, b.begin()));
  EXPECT_EQ(Performer(nn::root({.device = meta()}), config_of(1)).parameter_count() + 2 * 256 * 12, model.parameter_count());
}

TEST(PerformerNgram, ThePlanPostsTheEventsOfTheRun) {
  const auto events = [](Device device, int64_t chunk) {
    const auto ledger = std::make_shared<Ledger>();
    const With on(&Ambient::ledger, ledger);
    Performer model(nn::root({.device = device}), config_of(4));
    const TokenBatch batch = token_batch(device.meta ? empty({2, 30}, Dtype::u8, device) : random_tokens(2, 30, 1));
    return record_plan(ledger, [&] {
      Tape tape;
      tape.backward(chunk ? model.chunked_loss(batch, chunk) : model.loss(batch));
    }).events;
  };
  for (const int64_t chunk : {0, 2, 7}) EXPECT_EQ(first_difference(events(meta(), chunk), events(cpu, chunk)), "") << "C = " << chunk;
}

}  // namespace
}  // namespace spool::test
