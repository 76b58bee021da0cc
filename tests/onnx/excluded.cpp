// What is left out, and why. An entry that matches no case fails the test.
#include "translate.h"

namespace spool::onnx_test {
namespace {

constexpr const char* no_op = "no such op here: it serves other kinds of models than sequence models";
constexpr const char* dynamic = "the size of its result depends on data, so that a step could not be planned";
constexpr const char* control = "control flow and sequences are the host language's: C++";
constexpr const char* quantised = "integer products and quantisation: Spool trains in floats";
constexpr const char* images = "images are out of scope: only what windows over one axis at a time can say is kept";
constexpr const char* metadata = "asks for a tensor's shape, which is a property and no op";
constexpr const char* recurrent = "a recurrent cell; a loop over slices in scan() says the same";

constexpr Exclusion types[] = {
    {"Acos", no_op}, {"Acosh", no_op}, {"Asin", no_op}, {"Asinh", no_op}, {"Atan", no_op}, {"Atanh", no_op},
    {"BitShift", no_op}, {"BlackmanWindow", no_op}, {"HammingWindow", no_op}, {"HannWindow", no_op}, {"DFT", no_op}, {"STFT", no_op}, {"MelWeightMatrix", no_op},
    {"Det", no_op}, {"StringNormalizer", no_op}, {"TfIdfVectorizer", no_op}, {"NonMaxSuppression", no_op}, {"ReverseSequence", no_op},
    {"Compress", dynamic}, {"NonZero", dynamic}, {"Unique", dynamic},
    {"If", control}, {"Loop", control}, {"Scan", control}, {"SequenceInsert", control}, {"SequenceMap", control}, {"OptionalGetElement", control}, {"OptionalHasElement", control},
    {"ConvInteger", quantised}, {"MatMulInteger", quantised}, {"QLinearConv", quantised}, {"QLinearMatMul", quantised}, {"QuantizeLinear", quantised},
    {"DequantizeLinear", quantised}, {"DynamicQuantizeLinear", quantised},
    {"ConvTranspose", images}, {"GridSample", images}, {"MaxUnpool", images}, {"Resize", images}, {"RoiAlign", images}, {"Upsample", images},
    {"Shape", metadata}, {"Size", metadata}, {"Constant", metadata},
    {"GRU", recurrent}, {"LSTM", recurrent}, {"RNN", recurrent},
    {"Scatter", "overwrites; with repeated indices the result would depend on an order, so there is scatter_add only"},
    {"ScatterND", "overwrites or multiplies at tuples of indices; scatter_add adds along one axis"},
    {"Bernoulli", "its values depend on another generator"},
};

constexpr const char* integers = "division and powers are of floats: of integers they would round";

constexpr Exclusion cases[] = {
    {"adam_multiple", "its outputs were made with an epsilon of 0.01, which the model does not say"},
    {"div_uint8", integers},
    {"mod_broadcast", integers},
    {"mod_int64_fmod", integers},
    {"mod_mixed_sign_int32", integers},
    {"mod_mixed_sign_int64", integers},
    {"mod_uint8", integers},
    {"pow_types_float", integers},
    {"pow_types_int*", integers},
    {"training_dropout", "its mask depends on another generator"},
    {"training_dropout_default", "its mask depends on another generator"},
    {"training_dropout_default_mask", "its mask depends on another generator"},
    {"training_dropout_mask", "its mask depends on another generator"},
    {"scatter_elements_with_axis", "overwrites; there is scatter_add only"},
    {"scatter_elements_without_axis", "overwrites; there is scatter_add only"},
    {"scatter_elements_with_negative_indices", "overwrites; there is scatter_add only"},
    {"averagepool_2d_ceil", images},
    {"averagepool_2d_*same_*", images},
    {"maxpool_2d_ceil", images},
    {"maxpool_2d_dilations", images},
    {"maxpool_2d_*same_*", images},
    {"maxpool_with_argmax_2d_*", images},
    {"conv_with_autopad_same", images},
};

}  // namespace

std::span<const Exclusion> excluded_types() { return types; }
std::span<const Exclusion> excluded_cases() { return cases; }

bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= name.size(); ++at)
    if (matches(rest, name.substr(at))) return true;
  return false;
}

}  // namespace spool::onnx_test
