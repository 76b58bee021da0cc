#include <spool/nn/detail/llama_files.h>
#include <spool/tensor/ambient.h>
#include <spool/tensor/copy.h>
#include <spool/tensor/detail/staged_directory.h>
#include <spool/tensor/error.h>

#include <array>
#include <bit>
#include <cerrno>
#include <fstream>
#include <limits>

namespace spool::nn {
namespace {

static_assert(std::endian::native == std::endian::little, "llama2.c's files: numbers are read as they lie in memory, which must be little-endian");

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name), in_(name, std::ios::binary) {
    if (!in_) spool::detail::fail_system("read", name, errno ? errno : EIO);
  }
  void bytes(void* to, int64_t count) {
    if (!in_.read(static_cast<char*>(to), count)) fail<IoError>(name_, ": cannot be read to its end");
  }
  void skip(int64_t count) { in_.seekg(count, std::ios::cur); }
  /// The next elements, in the shape and order of `to`.
  void tensor(const Tensor& to) {
    const Tensor stored = empty(to.shape());
    bytes(stored.raw(), stored.nbytes());
    copy(to, stored);
  }
  /// A weight for interleaved pairs.
  void pairs(const Tensor& to, int64_t heads) {
    const Tensor stored = empty(to.shape());
    bytes(stored.raw(), stored.nbytes());
    const Tensor ordered = detail::rotate_half_order(stored, heads);
    copy(to.view_as(ordered.shape(), contiguous_strides(ordered.shape()), 0), ordered);
  }

 private:
  const std::string& name_;
  std::ifstream in_;
};

/// Sums and products of sizes; too large for 63 bits stays too large.
struct Count {
  int64_t value = 0;
  friend Count operator*(Count a, Count b) { return {__builtin_mul_overflow(a.value, b.value, &a.value) ? too_large : a.value}; }
  friend Count operator+(Count a, Count b) { return {__builtin_add_overflow(a.value, b.value, &a.value) ? too_large : a.value}; }
  static constexpr int64_t too_large = std::numeric_limits<int64_t>::max();
};

int64_t file_bytes(const LlamaConfig& c) {
  const Count dim{c.hidden_size}, hidden{c.intermediate_size}, layers{c.num_hidden_layers}, vocab{c.vocab_size}, positions{c.max_position_embeddings};
  const Count key_values{c.key_value_heads() * c.head_size()}, head{c.head_size()};
  const Count attention = dim * dim + dim * dim + key_values * dim + key_values * dim, feed_forward = dim * hidden + dim * hidden + dim * hidden;
  const Count floats = vocab * dim + layers * (dim + attention + dim + feed_forward) + dim + positions * head + (c.tie_word_embeddings ? Count{0} : vocab * dim);
  return (floats * Count{4} + Count{28}).value;
}

LlamaConfig read_header(const std::string& name, Reader& in) {
  std::error_code error;
  const auto size = std::filesystem::file_size(name, error);
  if (error) spool::detail::fail_system("read", name, error.value());
  std::array<int32_t, 7> h{};
  if (size < sizeof h) fail<IoError>(name, ": ", int64_t(size), " bytes are too few for llama2.c's header of ", sizeof h);
  in.bytes(h.data(), sizeof h);
  constexpr int32_t magic = 0x616b3432;
  if (h[0] == magic) fail<IoError>(name, ": is a later version of llama2.c's format, which is not supported; export it with version 0, or to safetensors");
  constexpr std::array<const char*, 7> names{"dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"};
  for (size_t i = 0; i < h.size(); ++i) {
    const bool negative = names[i] == std::string_view("vocab_size") && h[i] < 0 && h[i] != std::numeric_limits<int32_t>::min();
    if (h[i] <= 0 && !negative) fail<IoError>(name, ": ", names[i], " is ", h[i], "; not a .bin file of llama2.c");
  }
  if (h[0] % h[3] != 0 || h[3] % h[4] != 0 || h[0] / h[3] % 2 != 0)
    fail<IoError>(name, ": dim ", h[0], ", n_heads ", h[3], " and n_kv_heads ", h[4], " do not divide; not a .bin file of llama2.c");
  LlamaConfig c{.vocab_size = std::abs(int64_t(h[5])), .hidden_size = h[0], .intermediate_size = h[1], .num_hidden_layers = h[2], .num_attention_heads = h[3],
                .num_key_value_heads = h[4], .max_position_embeddings = h[6], .rms_norm_eps = 1e-5, .rope_theta = 10000, .tie_word_embeddings = h[5] > 0};
  if (const int64_t expected = file_bytes(c); uintmax_t(expected) != size)
    fail<IoError>(name, ": has ", int64_t(size), " bytes, but its header asks for ", expected == Count::too_large ? std::string("more than can be") : std::to_string(expected));
  return c;
}

}  // namespace

std::unique_ptr<Llama> detail::load_llama2c(const std::string& name, const LlamaFileOptions& options) {
  Reader in(name);
  const LlamaConfig config = read_header(name, in);
  auto out = std::make_unique<Llama>(root({.dtype = options.dtype.value_or(Dtype::f32), .device = options.device, .initialise = false}), config);
  if (options.device.meta) return out;
  const With op(&Ambient::op, "load");
  const auto each = [&](const auto& read) {
    for (const Llama::Block& block : out->model.layers) read(block);
  };
  in.tensor(out->model.embed_tokens.weight);
  each([&](const auto& b) { in.tensor(b.input_layernorm.weight); });
  each([&](const auto& b) { in.pairs(b.self_attn.q_proj.weight, config.num_attention_heads); });
  each([&](const auto& b) { in.pairs(b.self_attn.k_proj.weight, config.key_value_heads()); });
  each([&](const auto& b) { in.tensor(b.self_attn.v_proj.weight); });
  each([&](const auto& b) { in.tensor(b.self_attn.o_proj.weight); });
  each([&](const auto& b) { in.tensor(b.post_attention_layernorm.weight); });
  each([&](const auto& b) { in.tensor(b.mlp.gate_proj.weight); });
  each([&](const auto& b) { in.tensor(b.mlp.down_proj.weight); });
  each([&](const auto& b) { in.tensor(b.mlp.up_proj.weight); });
  in.tensor(out->model.norm.weight);
  in.skip(config.max_position_embeddings * config.head_size() * 4);
  if (out->lm_head) in.tensor(out->lm_head->weight);
  return out;
}

}  // namespace spool::nn
