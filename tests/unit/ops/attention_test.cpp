// Blockwise attention against the textbook form with the whole score matrix, in f64: values, gradients, masks, memory.
#include <cmath>
#include <limits>

#include "tests/support.h"

namespace spool::test {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();

struct Given {
  Tensor q, k, v, dout, dlse;
};
struct Result {
  Tensor out, lse, dq, dk, dv;
};

Given given(int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t key_heads, int64_t dim, int64_t value_dim, uint64_t seed = 1) {
  Rng rng(seed);
  return {rng.normal({batch, queries, heads, dim}), rng.normal({batch, keys, key_heads, dim}), rng.normal({batch, keys, key_heads, value_dim}), rng.normal({batch, queries, heads, value_dim}),
          rng.normal({batch, heads, queries})};
}

using Form = AttentionResult (*)(const Tensor&, const Tensor&, const Tensor&, const AttentionOptions&);

Result run(const Given& x, const AttentionOptions& o, Form form, Dtype dtype, bool with_dlse = true) {
  const auto leaf = [&](const Tensor& t) { return cast(t, dtype).detach().requires_grad(true); };
  const Tensor q = leaf(x.q), k = leaf(x.k), v = leaf(x.v);
  Tape tape;
  const AttentionResult r = form(q, k, v, o);
  const Dtype statistics = dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  if (with_dlse) tape.backward({r.out, r.lse}, {cast(x.dout, dtype), cast(x.dlse, statistics)});
  else tape.backward(Tensors{r.out}, Tensors{cast(x.dout, dtype)});
  return {r.out.detach(), r.lse.detach(), q.grad(), k.grad(), v.grad()};
}

/// The textbook form one query head at a time, so that only one score matrix exists.
Result reference(const Given& x, const AttentionOptions& o, bool with_dlse = true) {
  const int64_t group = x.q.size(2) / x.k.size(2);
  Result all{zeros(x.dout.shape(), Dtype::f64), zeros(x.dlse.shape(), Dtype::f64), zeros(x.q.shape(), Dtype::f64), zeros(x.k.shape(), Dtype::f64), zeros(x.v.shape(), Dtype::f64)};
  for (int64_t h = 0; h < x.q.size(2); ++h) {
    const auto head = [](const Tensor& t, int axis, int64_t i) { return narrow(t, axis, i, 1); };
    const Given one{head(x.q, 2, h), head(x.k, 2, h / group), head(x.v, 2, h / group), head(x.dout, 2, h), head(x.dlse, 1, h)};
    const Result r = run(one, o, attention_reference, Dtype::f64, with_dlse);
    copy(head(all.out, 2, h), r.out);
    copy(head(all.lse, 1, h), r.lse);
    copy(head(all.dq, 2, h), r.dq);
    accumulate(head(all.dk, 2, h / group), r.dk);
    accumulate(head(all.dv, 2, h / group), r.dv);
  }
  return all;
}

double difference(const Tensor& got, const Tensor& expected) {
  const auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  double error = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // infinities
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  for (const double x : b) size += std::isfinite(x) ? x * x : 0;
  return error == 0 ? 0 : std::sqrt(error / size);
}

void expect_close(const Result& got, const Result& expected, double limit, const std::string& what) {
  EXPECT_LE(difference(got.out, expected.out), limit) << "out, " << what;
  EXPECT_LE(difference(got.lse, expected.lse), limit) << "lse, " << what;
  EXPECT_LE(difference(got.dq, expected.dq), limit) << "dq, " << what;
  EXPECT_LE(difference(got.dk, expected.dk), limit) << "dk, " << what;
  EXPECT_LE(difference(got.dv, expected.dv), limit) << "dv, " << what;
}

/// Every head size, pair of head counts and tile size at one length, in f32 and f64.
void compare_at(int64_t length, std::initializer_list<int64_t> dims) {
  constexpr std::pair<int64_t, int64_t> tiles[] = {{0, 0}, {32, 64}, {7, 100}};
  for (const int64_t dim : dims) {
    for (const auto& [heads, key_heads] : {std::pair<int64_t, int64_t>{8, 8}, {8, 2}, {8, 1}, {6, 3}}) {
      const Given x = given(1, length, length, heads, key_heads, dim, dim);
      const Result expected = reference(x, {});
      for (const auto& [query_tile, key_tile] : tiles) {
        const AttentionOptions o{.query_tile = query_tile, .key_tile = key_tile};
        const std::string what = std::to_string(length) + " tokens, heads " + std::to_string(heads) + "/" + std::to_string(key_heads) + ", dim " + std::to_string(dim) + ", tile " + std::to_string(query_tile);
        expect_close(run(x, o, attention_with_lse, Dtype::f32), expected, 3e-6, what + ", f32");
        expect_close(run(x, o, attention_with_lse, Dtype::f64), expected, 1e-13, what + ", f64");
      }
    }
  }
}

TEST(Attention, EqualsTheMaterialisedForm) {
  compare_at(1, {16, 64, 100, 128});
  compare_at(17, {16, 64, 100, 128});
  compare_at(130, {16, 100});
}

TEST(Attention, EqualsTheMaterialisedFormAtLengthNightly) {
  compare_at(1000, {16, 64, 100, 128});
  compare_at(2999, {16, 64, 100, 128});
}

TEST(Attention, MasksOffsetsAndUnequalLengths) {
  const AttentionOptions cases[] = {
      {.causal = false}, {.window = 5}, {.window = 1}, {.window = 200}, {.causal = false, .window = 9}, {.q_offset = 40}, {.q_offset = 30, .k_offset = 7}, {.window = 20, .q_offset = 60},
      {.k_offset = 25}, {.scale = 0.3}, {.causal = false, .window = 3, .q_offset = 100},
  };
  int i = 0;
  for (AttentionOptions o : cases) {
    const Given x = given(2, 53, 77, 6, 3, 12, 20, uint64_t(i));
    const Result expected = reference(x, o);
    for (const auto& [query_tile, key_tile] : {std::pair<int64_t, int64_t>{0, 0}, {8, 5}, {16, 33}}) {
      o.query_tile = query_tile;
      o.key_tile = key_tile;
      expect_close(run(x, o, attention_with_lse, Dtype::f64), expected, 1e-13, "case " + std::to_string(i) + ", tile " + std::to_string(query_tile));
      expect_close(run(x, o, attention_with_lse, Dtype::f32), expected, 3e-6, "case " + std::to_string(i) + ", f32");
    }
    ++i;
  }
}

// The worked example of four queries, with and without the mask.
TEST(Attention, AWorkedExample) {
  const Tensor q = from({1, 0, 0, 1, 1, 1, -1, 2}, Shape{1, 4, 1, 2}, Dtype::f64), k = from({1, 0, 0, 1, 1, -1, .5, .5}, Shape{1, 4, 1, 2}, Dtype::f64), v = from({1, 2, 3, 4, 5, 6, 7, 8}, Shape{1, 4, 1, 2}, Dtype::f64);
  const Tensor g = from({1, -1, 2, 0, 0, 1, -1, 3}, Shape{1, 4, 1, 2}, Dtype::f64);
  const Result r = run({q, k, v, g, zeros({1, 1, 4}, Dtype::f64)}, {}, attention_with_lse, Dtype::f64);
  const auto expect = [](const Tensor& got, const std::vector<double>& expected) {
    const auto values = got.to_vector<double>();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-7) << i;
  };
  expect(r.out, {1, 2, 2.3395230987, 3.3395230987, 2.5933274439, 3.5933274439, 3.8048511566, 4.8048511566});
  expect(r.lse, {.7071067812, 1.1079403077, 1.6206211391, 1.8165027049});
  expect(r.dq, {0, 0, -.6255944, .6255944, -.1153442, -.2212257, .2380859, -.2710288});
  expect(r.dk, {-.1339081, -1.7135201, .8765789, -.781531, .3036269, .4024557, -1.0462977, 2.0925954});
  expect(r.dv, {1.5803072, -.3583788, .6707358, 2.4074741, -.0194906, .2562476, -.2315523, .694657});
  const auto full = attention(q, k, v, {.causal = false}).to_vector<double>();
  EXPECT_NEAR(full[0], 3.8790384736, 1e-9);
  EXPECT_NEAR(full[1], 4.8790384736, 1e-9);
}

TEST(Attention, QueriesThatSeeNothingGiveAndTakeNothing) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    Given x = given(1, 9, 6, 4, 2, 5, 5);
    const AttentionOptions o{.k_offset = 4};  // queries 0 … 3 stand before every key
    fill(narrow(x.dout, 1, 0, 4), 1e30);      // nothing of it may reach anything
    const Result r = run(x, o, attention_with_lse, dtype);
    const Result rest = run({narrow(x.q, 1, 4, 5), x.k, x.v, narrow(x.dout, 1, 4, 5), narrow(x.dlse, 2, 4, 5)}, {}, attention_with_lse, dtype);
    for (const double value : narrow(r.out, 1, 0, 4).to_vector<double>()) EXPECT_EQ(value, 0);
    for (const double value : narrow(r.dq, 1, 0, 4).to_vector<double>()) EXPECT_EQ(value, 0);
    for (const double value : narrow(r.lse, 2, 0, 4).to_vector<double>()) EXPECT_EQ(value, nothing);
    EXPECT_LE(difference(r.dk, rest.dk), 1e-6);
    EXPECT_LE(difference(r.dv, rest.dv), 1e-6);
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Given x = given(1, 40, 40, 2, 1, 8, 8);
  x.q = x.q * 100.0;
  x.k = x.k * 100.0;  // scores up to 1e5
  const Result r = run(x, {}, attention_with_lse, Dtype::f32);
  for (const Tensor* t : {&r.out, &r.lse, &r.dq, &r.dk, &r.dv})
    for (const double value : t->to_vector<double>()) ASSERT_TRUE(std::isfinite(value));
  EXPECT_LE(difference(r.out, reference(x, {}).out), 1e-2);
}

TEST(Attention, TheSameBitsForAnyNumberOfThreadsAndAnyStrides) {
  const int before = num_threads();
  const Given x = given(2, 150, 150, 6, 3, 20, 24);
  set_num_threads(1);
  const Result one = run(x, {.query_tile = 32, .key_tile = 32}, attention_with_lse, Dtype::f32);
  set_num_threads(3);
  const Result three = run(x, {.query_tile = 32, .key_tile = 32}, attention_with_lse, Dtype::f32);
  const auto turned = [](const Tensor& t) { return permute(contiguous_copy(permute(t, {3, 1, 0, 2})), {2, 1, 3, 0}); };  // the same values, other strides
  const Result strided = run({turned(x.q), turned(x.k), turned(x.v), turned(x.dout), x.dlse}, {.query_tile = 32, .key_tile = 32}, attention_with_lse, Dtype::f32);
  set_num_threads(before);
  for (const Result* other : {&three, &strided}) {
    EXPECT_EQ(one.out.to_vector<float>(), other->out.to_vector<float>());
    EXPECT_EQ(one.lse.to_vector<float>(), other->lse.to_vector<float>());
    EXPECT_EQ(one.dq.to_vector<float>(), other->dq.to_vector<float>());
    EXPECT_EQ(one.dk.to_vector<float>(), other->dk.to_vector<float>());
    EXPECT_EQ(one.dv.to_vector<float>(), other->dv.to_vector<float>());
  }
}

TEST(Attention, SixteenBitsStoreWhatSinglePrecisionComputes) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    Given x = given(1, 70, 70, 4, 2, 16, 16);
    for (Tensor* t : {&x.q, &x.k, &x.v, &x.dout}) *t = cast(cast(*t, dtype), Dtype::f64);
    const Result got = run(x, {}, attention_with_lse, dtype), expected = reference(x, {});
    const double step = dtype == Dtype::bf16 ? 4e-3 : 5e-4;  // half a unit in the last place of results, and of out in D
    EXPECT_LE(difference(got.out, expected.out), step);
    EXPECT_LE(difference(got.lse, expected.lse), 1e-6);
    EXPECT_LE(difference(got.dq, expected.dq), 2 * step);
    EXPECT_LE(difference(got.dk, expected.dk), 2 * step);
    EXPECT_LE(difference(got.dv, expected.dv), 2 * step);
  }
}

/// Peak bytes of attention forward and backward of one sequence, inputs and their gradients included.
int64_t peak_of(int64_t length, int64_t heads, int64_t key_heads, int64_t dim, Device device) {
  const auto ledger = std::make_shared<Ledger>();
  const With on(&Ambient::ledger, ledger);
  const auto leaf = [&](int64_t n) { return empty({1, length, n, dim}, Dtype::f32, device).requires_grad(true); };
  const Tensor q = leaf(heads), k = leaf(key_heads), v = leaf(key_heads), g = leaf(heads).detach();
  for (const Tensor* t : {&q, &k, &v, &g}) fill(t->detach(), 0.01);  // does nothing on meta
  Tape tape;
  const Tensor out = attention(q, k, v);
  tape.backward(Tensors{out}, Tensors{g});
  return ledger->peak();
}

// What is alive at the peak, in backward: q, k, v and their gradients, out and its cotangent, lse, and the tiles of each thread. With 8
// key heads no second sum of dk and dv is needed.
TEST(Attention, PeakMemoryIsLinearInTheLengthAndKnownToTheByte) {
  const int64_t heads = 8, key_heads = 8, dim = 64, tile = 96;
  const int64_t rows = (tile + 31) / 32 * 32;
  const int64_t tiles = num_threads() * 4 * (dim * rows + rows * dim + 2 * tile * dim + tile * rows + 5 * rows + rows * dim + dim * rows + tile * rows + rows * dim + tile * dim);
  std::vector<int64_t> peaks;
  for (const int64_t length : {2048, 4096, 8192}) {
    const int64_t q = 4 * length * heads * dim, k = 4 * length * key_heads * dim;
    const int64_t expected = 4 * q + 4 * k + 4 * heads * length + tiles;
    peaks.push_back(peak_of(length, heads, key_heads, dim, meta()));
    EXPECT_EQ(peaks.back(), expected) << length << " tokens";
    if (length == 2048) {
      EXPECT_EQ(peak_of(length, heads, key_heads, dim, cpu), expected);
    }
  }
  EXPECT_NEAR(double(peaks[1]) / double(peaks[0]), 2, 0.04);
  EXPECT_NEAR(double(peaks[2]) / double(peaks[1]), 2, 0.04);
}

}  // namespace
}  // namespace spool::test
