// Results and gradients of single operations against PyTorch's, from the file that make_gradients.py writes.
#include <spool/spool.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

namespace spool {
namespace {

using In = const Tensors&;
struct Results {
  Tensors all;
  Results(Tensor one) : all{std::move(one)} {}                  // NOLINT: either is meant to work
  Results(Tensors several) : all(std::move(several)) {}         // NOLINT
  Results(ValuesAndIndices v) : all{v.values, v.indices} {}     // NOLINT
};
struct Variant {
  std::function<Results(In)> f;
  /// Why what we give is not what PyTorch gives, and then it must not be.
  const char* differs = nullptr;
};

const std::map<std::string, Variant>& variants() {
  static const std::map<std::string, Variant> table{
      // pointwise
      {"exp", {[](In in) { return exp(in[0]); }}},
      {"expm1", {[](In in) { return expm1(in[0]); }}},
      {"sin", {[](In in) { return sin(in[0]); }}},
      {"cos", {[](In in) { return cos(in[0]); }}},
      {"tanh", {[](In in) { return tanh(in[0]); }}},
      {"erf", {[](In in) { return erf(in[0]); }}},
      {"sigmoid", {[](In in) { return sigmoid(in[0]); }}},
      {"log_sigmoid", {[](In in) { return log_sigmoid(in[0]); }}},
      {"softplus", {[](In in) { return softplus(in[0]); }}},
      {"silu", {[](In in) { return silu(in[0]); }}},
      {"gelu_erf", {[](In in) { return gelu(in[0]); }}},
      {"gelu_tanh", {[](In in) { return gelu(in[0], Gelu::tanh); }}},
      {"square", {[](In in) { return square(in[0]); }}},
      {"abs_at_zero", {[](In in) { return abs(in[0]); }}},
      {"relu_at_zero", {[](In in) { return relu(in[0]); }}},
      {"leaky_relu", {[](In in) { return leaky_relu(in[0], 0.2); }}},
      {"elu", {[](In in) { return elu(in[0], 1.5); }}},
      {"reciprocal", {[](In in) { return reciprocal(in[0]); }}},
      {"log", {[](In in) { return log(in[0]); }}},
      {"log1p", {[](In in) { return log1p(in[0]); }}},
      {"sqrt", {[](In in) { return sqrt(in[0]); }}},
      {"rsqrt", {[](In in) { return rsqrt(in[0]); }}},
      {"pow_2.5", {[](In in) { return pow(in[0], 2.5); }}},
      {"pow_3_negative", {[](In in) { return pow(in[0], 3); }}},
      {"pow_zero", {[](In in) { return pow(in[0], 0); }}},
      {"pow", {[](In in) { return pow(in[0], in[1]); }}},
      {"pow_of_zero", {[](In in) { return pow(in[0], in[1]); }}},
      {"clamp", {[](In in) { return clamp(in[0], -1, 0.5); }}},
      {"clamp_at_edges", {[](In in) { return clamp(in[0], -1, 0.5); }, "the slope at low and high is 1 here, 0 there"}},
      {"gelu_erf_f32", {[](In in) { return gelu(in[0]); }}},
      {"gelu_tanh_f32", {[](In in) { return gelu(in[0], Gelu::tanh); }}},
      {"add_broadcast", {[](In in) { return in[0] + in[1]; }}},
      {"sub_broadcast", {[](In in) { return in[0] - in[1]; }}},
      {"mul_broadcast", {[](In in) { return in[0] * in[1]; }}},
      {"div_broadcast", {[](In in) { return in[0] / in[1]; }}},
      {"maximum_ties", {[](In in) { return maximum(in[0], in[1]); }}},
      {"minimum_ties", {[](In in) { return minimum(in[0], in[1]); }}},
      {"where_broadcast", {[](In in) { return where(not_equal(in[0], 0), in[1], in[2]); }}},
      {"masked_fill", {[](In in) { return masked_fill(in[1], not_equal(in[0], 0), -1.5); }}},
      {"swiglu_f32", {[](In in) { return swiglu(in[0], in[1]); }}},
      // reductions
      {"sum_all", {[](In in) { return sum(in[0]); }}},
      {"sum_0_2_keepdim", {[](In in) { return sum(in[0], {0, 2}, true); }}},
      {"mean_1", {[](In in) { return mean(in[0], 1); }}},
      {"mean_all_f32", {[](In in) { return mean(in[0]); }}},
      {"prod_1_zeros", {[](In in) { return prod(in[0], 1); }}},
      {"amax_ties", {[](In in) { return amax(in[0], {0, 2}); }}},
      {"amin_ties", {[](In in) { return amin(in[0]); }}},
      {"max_1", {[](In in) { return max(in[0], 1); }}},
      {"min_last_keepdim", {[](In in) { return min(in[0], -1, true); }}},
      {"var_all", {[](In in) { return var(in[0]); }}},
      {"var_1_biased", {[](In in) { return var(in[0], 1, false, 0); }}},
      {"stddev_0_2", {[](In in) { return stddev(in[0], {0, 2}); }}},
      {"stddev_constant", {[](In in) { return stddev(in[0], 1); }}},
      {"norm_2", {[](In in) { return norm(in[0], 2); }}},
      {"norm_zero", {[](In in) { return norm(in[0]); }}},
      {"logsumexp_1_keepdim", {[](In in) { return logsumexp(in[0], 1, true); }}},
      {"logsumexp_large", {[](In in) { return logsumexp(in[0]); }}},
      {"softmax_1", {[](In in) { return softmax(in[0], 1); }}},
      {"softmax_last_f32", {[](In in) { return softmax(in[0]); }}},
      {"softmax_masked", {[](In in) { return softmax(in[0]); }}},
      {"softmax_all_masked", {[](In in) { return softmax(in[0]); }, "a row of −∞ gives 0 here, NaN there"}},
      {"log_softmax_0", {[](In in) { return log_softmax(in[0], 0); }}},
      {"logsumexp_all_masked", {[](In in) { return logsumexp(in[0]); }, "a row of −∞ has gradient 0 here, NaN there"}},
      // scans
      {"prefix_sum_1", {[](In in) { return prefix_sum(in[0], 1); }}},
      {"prefix_sum_0_f32", {[](In in) { return prefix_sum(in[0], 0); }}},
      {"prefix_sum_reverse", {[](In in) { return prefix_sum(in[0], 1, {.reverse = true}); }}},
      {"prefix_sum_exclusive", {[](In in) { return prefix_sum(in[0], 1, {.exclusive = true}); }}},
      {"prefix_prod_1", {[](In in) { return prefix_prod(in[0], 1); }}},
      {"prefix_prod_zeros", {[](In in) { return prefix_prod(in[0], 1); }}},
      {"prefix_prod_reverse", {[](In in) { return prefix_prod(in[0], -1, {.reverse = true}); }}},
      {"logcumsumexp_1", {[](In in) { return logcumsumexp(in[0], 1); }}},
      {"logcumsumexp_large", {[](In in) { return logcumsumexp(in[0], 0); }}},
      {"logcumsumexp_reverse", {[](In in) { return logcumsumexp(in[0], 0, {.reverse = true}); }}},
      {"prefix_max_1", {[](In in) { return prefix_max(in[0], 1); }}},
      {"prefix_min_last", {[](In in) { return prefix_min(in[0], -1); }}},
      {"prefix_max_ties", {[](In in) { return prefix_max(in[0], 0); }, "of equal elements the first gets the gradient here, the last so far there"}},
      {"linear_recurrence", {[](In in) { return linear_recurrence(in[0], in[1], 1); }}},
      // moves
      {"roll_1", {[](In in) { return roll(in[0], 2, 1); }}},
      {"roll_0_2", {[](In in) { return roll(in[0], {-1, 7}, {0, 2}); }}},
      {"pad_constant", {[](In in) { return pad(in[0], {{0, 0}, {0, 3}, {1, 2}}, {.value = 0.5}); }}},
      {"pad_negative", {[](In in) { return pad(in[0], {{0, 0}, {1, -2}, {-1, 2}}); }}},
      {"pad_edge", {[](In in) { return pad(in[0], -1, {2, 1}, {.mode = PadMode::edge}); }}},
      {"pad_reflect", {[](In in) { return pad(in[0], 2, {3, 4}, {.mode = PadMode::reflect}); }}},
      {"pad_wrap", {[](In in) { return pad(in[0], 2, {5, 2}, {.mode = PadMode::wrap}); }}},
      {"unfold_overlapping", {[](In in) { return unfold(in[0], 1, 3); }}},
      {"unfold_gaps", {[](In in) { return unfold(in[0], 0, 2, 3); }}},
      {"tril_1", {[](In in) { return tril(in[0], 1); }}},
      {"triu_minus_1", {[](In in) { return triu(in[0], -1); }}},
      {"diagonal_1", {[](In in) { return diagonal(in[0], 1, 0, 2); }}},
      {"diagonal_minus_1", {[](In in) { return diagonal(in[0], -1, 1, 2); }}},
      {"diag_embed_2", {[](In in) { return diag_embed(in[0], 2); }}},
      {"flip_0_2", {[](In in) { return flip(in[0], {0, 2}); }}},
      {"tile_1", {[](In in) { return tile(in[0], 3, 1); }}},
      {"repeat_interleave_1", {[](In in) { return repeat_interleave(in[0], 3, 1); }}},
      {"permute", {[](In in) { return permute(in[0], {2, 0, 1}); }}},
      {"expand", {[](In in) { return expand(in[0], {2, 3, 4}); }}},
      {"reshape_of_transposed", {[](In in) { return reshape(transpose(in[0], 0, 2), {6, 10}); }}},
      {"slice_step", {[](In in) { return slice(in[0], 1, 1, 4, 2); }}},
      {"concat_1", {[](In in) { return concat(in, 1); }}},
      {"stack_last", {[](In in) { return stack(in, -1); }}},
      {"split_uneven", {[](In in) { return split(in[0], Dims{1, 3, 1}, 2); }}},
      // indexing
      {"gather_0", {[](In in) { return gather(in[0], 0, in[1]); }}},
      {"gather_last", {[](In in) { return gather(in[0], 2, in[1]); }}},
      {"take_along_1", {[](In in) { return take_along(in[0], in[1], 1); }}},
      {"scatter_add_1", {[](In in) { return scatter_add(in[0], 1, in[1], in[2]); }}},
      {"scatter_add_short_f32", {[](In in) { return scatter_add(in[0], 0, in[1], in[2]); }}},
      {"index_select_1", {[](In in) { return index_select(in[0], 1, in[1]); }}},
      {"index_add_1", {[](In in) { return index_add(in[0], 1, in[1], in[2]); }}},
      {"sort_1", {[](In in) { return sort(in[0], 1); }}},
      {"sort_descending_ties", {[](In in) { return sort(in[0], -1, true); }}},
      {"topk_3", {[](In in) { return topk(in[0], 3, 1); }}},
      {"topk_smallest", {[](In in) { return topk(in[0], 4, -1, false); }}},
      {"embedding_repeats", {[](In in) { return embedding(in[0], in[1]); }}},
      // products, convolutions, norms
      {"matmul", {[](In in) { return matmul(in[0], in[1]); }}},
      {"matmul_f32", {[](In in) { return matmul(in[0], in[1]); }}},
      {"matmul_broadcast", {[](In in) { return matmul(in[0], in[1]); }}},
      {"matmul_vector_left", {[](In in) { return matmul(in[0], in[1]); }}},
      {"matmul_vector_right", {[](In in) { return matmul(in[0], in[1]); }}},
      {"matmul_dot", {[](In in) { return matmul(in[0], in[1]); }}},
      {"matmul_transposed", {[](In in) { return matmul(in[0], in[1], {.transpose_a = true, .transpose_b = true}); }}},
      {"linear_bias", {[](In in) { return linear(in[0], in[1], in[2]); }}},
      {"linear_gelu_f32", {[](In in) { return linear(in[0], in[1], in[2], Activation::gelu_erf); }}},
      {"einsum_heads", {[](In in) { return einsum("bqhd,bkhd->bhqk", in); }}},
      {"einsum_projection", {[](In in) { return einsum("bthd,hde->bte", in); }}},
      {"einsum_diagonal", {[](In in) { return einsum("iij->ij", in); }}},
      {"einsum_trace", {[](In in) { return einsum("ii", in); }}},
      {"einsum_outer", {[](In in) { return einsum("i,j->ji", in); }}},
      {"einsum_chain", {[](In in) { return einsum("ij,jk,kl->il", in); }}},
      {"einsum_bilinear", {[](In in) { return einsum("bn,anm,bm->ba", in); }}},
      {"einsum_ellipsis", {[](In in) { return einsum("...ij,...jk->...ik", in); }}},
      {"einsum_weighted", {[](In in) { return einsum("bi,bj,b->ij", in); }}},
      {"conv1d", {[](In in) { return conv1d(in[0], in[1], in[2]); }}},
      {"conv1d_options", {[](In in) { return conv1d(in[0], in[1], in[2], {.stride = 2, .padding = 3, .dilation = 2}); }}},
      {"conv1d_groups", {[](In in) { return conv1d(in[0], in[1], in[2], {.padding = 1, .groups = 2}); }}},
      {"conv1d_depthwise_causal", {[](In in) { return conv1d(in[0], in[1], in[2], {.dilation = 2, .groups = 3, .causal = true}); }}},
      {"conv1d_depthwise_stride_f32", {[](In in) { return conv1d(in[0], in[1], {}, {.stride = 2, .padding = 1, .groups = 3}); }}},
      {"layer_norm", {[](In in) { return layer_norm(in[0], in[1], in[2]); }}},
      {"layer_norm_plain_f32", {[](In in) { return layer_norm(in[0], {}, {}, 0.01); }}},
      {"rms_norm", {[](In in) { return rms_norm(in[0], in[1]); }}},
      {"rms_norm_f32", {[](In in) { return rms_norm(in[0], in[1]); }}},
      {"group_norm", {[](In in) { return group_norm(in[0], 3, in[1], in[2]); }}},
      {"group_norm_images_f32", {[](In in) { return group_norm(in[0], 2, in[1], in[2], 0.01); }}},
      // losses
      {"cross_entropy_mean", {[](In in) { return cross_entropy(in[0], in[1]); }}},
      {"cross_entropy_sum_smoothed", {[](In in) { return cross_entropy(in[0], in[1], {.reduction = Reduction::sum, .label_smoothing = 0.1}); }}},
      {"cross_entropy_none", {[](In in) { return cross_entropy(in[0], in[1], {.reduction = Reduction::none}); }}},
      {"cross_entropy_ignoring", {[](In in) { return cross_entropy(in[0], in[1]); }}},
      {"cross_entropy_ignoring_smoothed_f32", {[](In in) { return cross_entropy(in[0], in[1], {.label_smoothing = 0.2}); }}},
      {"cross_entropy_all_ignored", {[](In in) { return cross_entropy(in[0], in[1]); }, "the mean over no targets is 0 here, NaN there"}},
      {"nll_loss_ignoring", {[](In in) { return nll_loss(log_softmax(in[0]), in[1]); }}},
      {"nll_loss_none", {[](In in) { return nll_loss(in[0], in[1], {.reduction = Reduction::none}); }}},
      {"linear_cross_entropy", {[](In in) { return linear_cross_entropy(in[0], in[1], in[2], {}, 3); }}},
      {"mse_loss", {[](In in) { return mse_loss(in[0], in[1]); }}},
      {"l1_loss_none", {[](In in) { return l1_loss(in[0], in[1], Reduction::none); }}},
      {"huber_loss", {[](In in) { return huber_loss(in[0], in[1], 0.7); }}},
      {"smooth_l1_loss_sum", {[](In in) { return smooth_l1_loss(in[0], in[1], 0.7, Reduction::sum); }}},
      {"binary_cross_entropy_with_logits", {[](In in) { return binary_cross_entropy_with_logits(in[0], in[1]); }}},
      {"kl_div", {[](In in) { return kl_div(in[0], in[1]); }}},
      // attention
      {"attention", {[](In in) { return attention(in[0], in[1], in[2], {.causal = false}); }}},
      {"attention_causal_f32", {[](In in) { return attention(in[0], in[1], in[2]); }}},
      {"attention_causal_offset", {[](In in) { return attention(in[0], in[1], in[2], {.q_offset = 2}); }}},
      {"attention_window", {[](In in) { return attention(in[0], in[1], in[2], {.window = 3, .q_offset = 2}); }}},
      {"attention_materialised", {[](In in) { return attention_materialised(in[0], in[1], in[2], {.q_offset = 2}); }}},
      {"linear_attention", {[](In in) { return linear_attention(in[0], in[1], in[2]).out; }}},
      {"rotary_halves", {[](In in) { return rotary(in[0], in[1], RotaryPairs::rotate_half); }}},
  };
  return table;
}

/// Empty, or the first element that is further off than 10⁻¹² in f64, 10⁻⁶ in f32, of the larger of 1 and itself.
std::string difference(const Tensor& got, const Tensor& expected) {
  if (!got.defined()) return "undefined";
  if (got.shape() != expected.shape() || got.dtype() != expected.dtype()) return concat(meta_of(got), ", expected ", meta_of(expected));
  const auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  const double tolerance = got.dtype() == Dtype::f64 ? 1e-12 : got.dtype() == Dtype::f32 ? 1e-6 : 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || std::fabs(a[i] - b[i]) <= tolerance * std::max(1.0, std::fabs(b[i])))) return concat("element ", int64_t(i), " is ", a[i], ", expected ", b[i]);
  return "";
}

class Golden {
 public:
  Golden() : file_(std::string(SPOOL_SOURCE_DIR) + "/tests/golden/gradients.safetensors") {
    std::istringstream lines(file_.metadata().at("variants"));
    for (std::string line; std::getline(lines, line);) expressions[line.substr(0, line.find('\t'))] = line.substr(line.find('\t') + 1);
  }
  /// NAME/KIND.0, NAME/KIND.1, …; undefined where there is none, up to `count`.
  Tensors all(const std::string& name, const char* kind, size_t count) const {
    Tensors out(count);
    for (size_t i = 0; i < count; ++i)
      if (const std::string key = concat(name, "/", kind, ".", int64_t(i)); file_.contains(key)) out[i] = file_.read(key);
    return out;
  }
  size_t count(const std::string& name, const char* kind) const {
    size_t n = 0;
    while (file_.contains(concat(name, "/", kind, ".", int64_t(n)))) ++n;
    return n;
  }
  std::map<std::string, std::string> expressions;

 private:
  SafetensorsFile file_;
};

/// What is wrong with a variant, or nothing.
std::string compare(const Golden& golden, const std::string& name, const Variant& variant) {
  const Tensors inputs = golden.all(name, "in", golden.count(name, "in")), outputs = golden.all(name, "out", golden.count(name, "out"));
  if (inputs.empty() || outputs.empty()) return "nothing to compare with";
  for (const Tensor& t : inputs)
    if (is_float(t.dtype())) t.requires_grad(true);
  Tape tape;
  const Tensors got = variant.f(inputs).all;
  if (got.size() != outputs.size()) return concat(int64_t(got.size()), " results, expected ", int64_t(outputs.size()));
  for (size_t i = 0; i < got.size(); ++i)
    if (const std::string text = difference(got[i], outputs[i]); !text.empty()) return concat("result ", int64_t(i), ": ", text);
  const Tensors cotangents = golden.all(name, "cotangent", outputs.size());
  Tensors starts, seeds;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!cotangents[i].defined()) continue;
    starts.push_back(got[i]);
    seeds.push_back(cotangents[i]);
  }
  const Tensors gradients = tape.gradient(starts, inputs, seeds), expected = golden.all(name, "gradient", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (expected[i].defined())
      if (const std::string text = difference(gradients[i], expected[i]); !text.empty()) return concat("gradient ", int64_t(i), ": ", text);
  return "";
}

TEST(GoldenGradients, EqualPyTorchs) {
  const Golden golden;
  int64_t same = 0, others = 0;
  for (const auto& [name, variant] : variants()) {
    if (!golden.expressions.count(name)) {
      ADD_FAILURE() << name << " is not in the file; run tests/golden/make_gradients.py";
      continue;
    }
    const std::string text = compare(golden, name, variant);
    if (variant.differs) {
      EXPECT_NE(text, "") << name << " agrees with " << golden.expressions.at(name) << " although it should not: " << variant.differs;
      others += !text.empty();
    } else {
      EXPECT_EQ(text, "") << name << ", " << golden.expressions.at(name);
      same += text.empty();
    }
  }
  for (const auto& [name, expression] : golden.expressions) EXPECT_TRUE(variants().count(name)) << name << ", " << expression << ", is in the file, but nothing here computes it";
  std::cout << same << " variants agree with PyTorch, " << others << " differ by choice\n";
}

}  // namespace
}  // namespace spool
