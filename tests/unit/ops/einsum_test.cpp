// Einstein sums against loops over all indices: values, gradients, errors, and what they allocate.
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <map>

namespace spool {
namespace {

struct Case {
  const char* equation;
  const char* letters;  ///< The same with every axis named: "..." written out, capitals for what it stands for.
  std::vector<Shape> shapes;
};

const std::vector<Case> cases = {
    {"ij,jk->ik", "ij,jk->ik", {{3, 4}, {4, 5}}},
    {"ij,jk", "ij,jk->ik", {{3, 4}, {4, 5}}},
    {"kj,ji", "kj,ji->ik", {{3, 4}, {4, 5}}},  // implicit outputs are sorted
    {"ba", "ba->ab", {{3, 4}}},
    {"bhqd,bhkd->bhqk", "bhqd,bhkd->bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
    {"bqhd,bkhd->bhqk", "bqhd,bkhd->bhqk", {{2, 4, 3, 5}, {2, 6, 3, 5}}},
    {"btd,hde->bhte", "btd,hde->bhte", {{2, 3, 4}, {2, 4, 5}}},
    {"bhtd,hde->bte", "bhtd,hde->bte", {{2, 3, 4, 5}, {3, 5, 2}}},
    {"i,i->", "i,i->", {{5}, {5}}},
    {"i,j->ij", "i,j->ij", {{5}, {3}}},
    {"i,j->ji", "i,j->ji", {{5}, {3}}},
    {"ij->", "ij->", {{3, 4}}},
    {"ij->j", "ij->j", {{3, 4}}},
    {"ijk->ki", "ijk->ki", {{3, 4, 2}}},
    {"ii->i", "ii->i", {{4, 4}}},
    {"ii", "ii->", {{4, 4}}},
    {"iji->ji", "iji->ji", {{3, 4, 3}}},
    {"iii->i", "iii->i", {{3, 3, 3}}},
    {"iijj->ij", "iijj->ij", {{3, 3, 2, 2}}},
    {"ii,ij->j", "ii,ij->j", {{3, 3}, {3, 4}}},
    {"ij,ij->ij", "ij,ij->ij", {{3, 4}, {3, 4}}},
    {"ij,j->i", "ij,j->i", {{3, 4}, {4}}},
    {"ij,kl->", "ij,kl->", {{3, 4}, {2, 5}}},
    {"ij,jk->k", "ij,jk->k", {{3, 4}, {4, 5}}},
    {"ij,jk,kl->il", "ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}}},
    {"bn,anm,bm->ba", "bn,anm,bm->ba", {{2, 3}, {5, 3, 4}, {2, 4}}},
    {"i,ij,j,j->", "i,ij,j,j->", {{3}, {3, 4}, {4}, {4}}},
    {"...ij,...jk->...ik", "ABij,ABjk->ABik", {{2, 3, 4, 5}, {2, 3, 5, 2}}},
    {"...ij,jk->...ik", "ABij,jk->ABik", {{2, 3, 4, 5}, {5, 2}}},
    {"i...j,j->i...", "iABj,j->iAB", {{2, 3, 4, 5}, {5}}},
    {"...i,...i->...", "ABi,ABi->AB", {{2, 3, 5}, {2, 3, 5}}},
    {"...i", "ABi->ABi", {{2, 3, 4}}},
    {"b...,b...->...b", "bAB,bAB->ABb", {{2, 3, 4}, {2, 3, 4}}},
    {"...i->i", "ABi->i", {{2, 3, 4}}},
    {" i j , j k -> k i ", "ij,jk->ki", {{3, 4}, {4, 5}}},
    {"ij,jk->ik", "ij,jk->ik", {{3, 0}, {0, 5}}},
    {"ij,jk->ik", "ij,jk->ik", {{0, 4}, {4, 5}}},
    {",->", ",->", {{}, {}}},
};

/// Σ over all indices, from the written-out equation.
std::vector<double> naive(const std::string& letters, const Tensors& operands) {
  const size_t arrow = letters.find("->");
  std::vector<std::string> terms{""};
  for (size_t i = 0; i < arrow; ++i) {
    if (letters[i] == ',') terms.emplace_back();
    else terms.back() += letters[i];
  }
  std::string order = letters.substr(arrow + 2);
  const size_t kept = order.size();
  std::map<char, int64_t> size;
  for (size_t k = 0; k < terms.size(); ++k)
    for (size_t a = 0; a < terms[k].size(); ++a) {
      size[terms[k][a]] = operands[k].shape()[int(a)];
      if (order.find(terms[k][a]) == std::string::npos) order += terms[k][a];
    }
  std::vector<std::vector<double>> values;
  for (const Tensor& t : operands) values.push_back(t.to_vector<double>());
  int64_t total = 1, outputs = 1;
  for (size_t i = 0; i < order.size(); ++i) {
    total *= size[order[i]];
    if (i < kept) outputs *= size[order[i]];
  }
  std::vector<double> out(size_t(outputs), 0.0);
  for (int64_t flat = 0; flat < total; ++flat) {
    std::map<char, int64_t> at;
    int64_t rest = flat;
    for (size_t i = order.size(); i-- > 0;) {
      at[order[i]] = rest % size[order[i]];
      rest /= size[order[i]];
    }
    double product = 1;
    for (size_t k = 0; k < terms.size(); ++k) {
      int64_t place = 0;
      for (const char letter : terms[k]) place = place * size[letter] + at[letter];
      product *= values[k][size_t(place)];
    }
    out[size_t(flat / (total / outputs))] += product;
  }
  return out;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

/// The same elements with the axes in memory in the opposite order.
Tensor turned(const Tensor& t) {
  Dims back;
  for (int i = t.dims(); i-- > 0;) back.push_back(i);
  return permute(contiguous_copy(permute(t, back)), back);
}

TEST(Einsum, EqualsLoopsOverAllIndices) {
  for (const Case& c : cases) {
    Rng rng(3);
    for (const bool turn : {false, true}) {
      Tensors operands;
      for (const Shape& shape : c.shapes) operands.push_back((turn ? turned(rng.normal(shape)) : rng.normal(shape)).requires_grad(true));
      Tape tape;
      const Tensor y = einsum(c.equation, operands);
      const auto expected = naive(c.letters, operands), got = y.to_vector<double>();
      ASSERT_EQ(got.size(), expected.size()) << c.equation;
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-12) << c.equation << " element " << i;
      // The function is linear in each operand: gradient·v is what it gives for v in that operand's place.
      const Tensor u = rng.normal(y.shape());
      const Tensors gradients = tape.gradient({y}, operands, {u});
      for (size_t k = 0; k < operands.size(); ++k) {
        Tensors moved = operands;
        moved[k] = rng.normal(operands[k].shape());
        ASSERT_EQ(gradients[k].shape(), operands[k].shape()) << c.equation;
        ASSERT_NEAR(dot(gradients[k].to_vector<double>(), moved[k].to_vector<double>()), dot(u.to_vector<double>(), naive(c.letters, moved)), 1e-11) << c.equation << " operand " << k;
      }
    }
  }
}

TEST(Einsum, EllipsesBroadcast) {
  Rng rng(5);
  const Tensor a = rng.normal({3, 1, 4, 5}), b = rng.normal({2, 5, 6}), c = rng.normal({1, 5});
  const Tensor y = einsum("...ij,...jk->...ik", {a, b});
  EXPECT_EQ(y.shape(), (Shape{3, 2, 4, 6}));
  EXPECT_EQ(y.to_vector<double>(), matmul(a, b).to_vector<double>());
  const Tensor d = rng.normal({2, 3, 4}), e = rng.normal({1, 3}), moved = einsum("...j,...->j...", {d, e});
  EXPECT_EQ(moved.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(moved.to_vector<double>(), permute(d * unsqueeze(e, -1), {2, 0, 1}).to_vector<double>());
  const Tensor squares = einsum("...i,...i", {c, c});
  EXPECT_EQ(squares.shape(), Shape{1});
  EXPECT_NEAR(squares.item(), sum(square(c)).item(), 1e-14);
  EXPECT_EQ(einsum("...i->i", {d}).to_vector<double>(), sum(d, {0, 1}).to_vector<double>());  // axes of "..." that the output does not name
}

TEST(Einsum, SecondOrder) {
  const Tensor x = from({{1, 2}, {3, 4}}, Dtype::f64).requires_grad(true);
  Tape tape;
  const Tensor g = tape.gradient({einsum("ij,jk,ki->", {x, x, x})}, {x}, {}, {.create_graph = true})[0];  // 3 (x²)ᵀ
  EXPECT_EQ(g.to_vector<double>(), (std::vector<double>{21, 45, 30, 66}));
  const Tensor second = tape.gradient({sum(g)}, {x})[0];  // 3 (sum of row j + sum of column i)
  EXPECT_EQ(second.to_vector<double>(), (std::vector<double>{21, 33, 27, 39}));
}

TEST(Einsum, ReadsOperandsWhereTheyLie) {
  const auto allocated = [](const char* equation, const Tensors& operands) {
    const auto ledger = std::make_shared<Ledger>();
    const With mine(&Ambient::ledger, ledger);
    const NoGrad quiet;
    const Tensor y = einsum(equation, operands);
    return ledger->peak() - y.nbytes();
  };
  const Tensor q = zeros({2, 40, 4, 8}), k = zeros({2, 50, 4, 8});
  EXPECT_LT(allocated("bqhd,bkhd->bhqk", {q, k}), 1024);  // heads inside, transposed
  EXPECT_LT(allocated("btd,de->bte", {zeros({4, 64, 32}), zeros({32, 48})}), 1024);
  EXPECT_LT(allocated("bthd,hde->bte", {zeros({4, 64, 4, 8}), zeros({4, 8, 48})}), 1024);  // h and d are neighbours in both
  EXPECT_LT(allocated("ij->ji", {zeros({64, 64})}), 64 * 64 * 4);
  const Tensor square = zeros({8, 8});
  EXPECT_EQ(einsum("ii->i", {square}).storage().get(), square.storage().get());
  EXPECT_EQ(einsum("ij->ji", {q.view_as({8, 8}, {8, 1}, 0)}).storage().get(), q.storage().get());
}

TEST(Einsum, ErrorsNameWhatDoesNotFit) {
  const auto text = [](const char* equation, const Tensors& operands) -> std::string {
    try {
      einsum(equation, operands);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  EXPECT_EQ(text("ij,jk->ik", {a, b}), "einsum: 'j' is 3 in operand 0 [2, 3] and 4 in operand 1 [4, 5]");
  EXPECT_EQ(text("ii->i", {a}), "einsum: 'i' is 2 in operand 0 [2, 3] and 3 in operand 0 [2, 3]");
  EXPECT_EQ(text("...j,...k->...", {a, b}), "einsum: an axis of '...' is 2 in operand 0 [2, 3] and 4 in operand 1 [4, 5]");
  EXPECT_EQ(text("ij->ik", {a}), "einsum: output 'k' of 'ij->ik' is in no operand");
  EXPECT_EQ(text("ij->ii", {a}), "einsum: 'i' is twice in the output of 'ij->ii'");
  EXPECT_EQ(text("ij,jk->ik", {a}), "einsum: 'ij,jk->ik' names 2 operands, got 1");
  EXPECT_EQ(text("ijk->i", {a}), "einsum: operand 0 [2, 3] has 2 axes, 'ijk->i' names 3");
  EXPECT_EQ(text("i->i", {a}), "einsum: operand 0 [2, 3] has 2 axes, 'i->i' names 1");
  EXPECT_EQ(text("i1->i", {a}), "einsum: '1' in 'i1->i' is not a letter; axes are a–z and A–Z, '...' stands for the rest");
  EXPECT_EQ(text("...i...->i", {a}), "einsum: '...i...' in '...i...->i' has two ellipses");
  EXPECT_EQ(text("abcde,fghij->abcdefghij", {zeros({1, 1, 1, 1, 1}), zeros({1, 1, 1, 1, 1})}), "einsum: a product of 10 axes; tensors have at most 8");
  EXPECT_EQ(text("ij,jk->ik", {a, zeros({3, 2}, Dtype::f64)}).substr(0, 7), "einsum:");
  EXPECT_EQ(text("", {}), "einsum: no operands");
}

}  // namespace
}  // namespace spool
