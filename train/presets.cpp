#include "train/presets.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <array>
#include <vector>

#include "train/models.h"
#include "train/nearest.h"

namespace spool::train {
namespace {

// Configurations I, II and III of "Sub-Linear Memory: How to Make Performers SLiM" as its reference code runs them: batch 1, Adam with
// its defaults, no warm-up, no clipping, no dropout, seed 42. Slices it compares: I 128 and 64, II 512 and 256, III 2048 and 1366.
constexpr std::string_view copy = R"(
name = "copy"
[model]
vocab = 256
d_model = 256
layers = 1
heads = 4
d_ff = 1024
feature = "sqr"
norm = "pre"
[data]
task = "copy"
seq = 512
batch = 1
[train]
steps = 15000
seed = 42
eval_every = 1000
save_every = 5000
[optim]
name = "adam"
lr = 1e-2
schedule = "step"
step_at = 10000
step_factor = 0.1
)";

constexpr std::string_view ptb = R"(
name = "ptb"
[model]
vocab = 256
d_model = 512
layers = 3
heads = 8
d_ff = 2048
feature = "sqr"
norm = "branch"
[data]
task = "text"
path = "data/ptb"
seq = 1024
batch = 1
[train]
steps = 30000
seed = 42
eval_every = 1000
save_every = 1000
[optim]
name = "adam"
lr = 1e-4
schedule = "constant"
)";

constexpr std::string_view enwik8 = R"(
name = "enwik8"
[model]
vocab = 256
d_model = 1024
layers = 3
heads = 16
d_ff = 4096
feature = "sqr"
norm = "branch"
[data]
task = "text"
seq = 4096
batch = 1
[train]
steps = 100000
seed = 42
eval_every = 1000
save_every = 1000
[optim]
name = "adam"
lr = 2e-4
schedule = "constant"
)";

// Ours, for two CPU cores. A position embeds its byte and the three before it: the attention's few features, which the whole sequence
// shares, then need not be spent on finding the neighbours (without it 1,000 steps end at 4.0 instead of 2.8 bits per byte).
constexpr std::string_view enwik8_small = R"(
name = "enwik8-small"
[model]
vocab = 256
d_model = 256
layers = 3
heads = 4
d_ff = 1024
feature = "sqr"
norm = "pre"
ngram = 4
[data]
task = "text"
seq = 1024
batch = 1
order = "shuffled"
[train]
steps = 5000
seed = 42
log_every = 20
eval_every = 1000
eval_windows = 0
save_every = 500
[optim]
name = "adamw"
lr = 2e-3
beta2 = 0.99
weight_decay = 0.01
clip = 1.0
schedule = "cosine"
warmup = 100
min_lr = 1e-5
)";

// Softmax attention on the bytes of enwik8, for two CPU cores: a LLaMA, and a GPT-2 of the same size to compare with. The LLaMA's 2,000 steps
// see 2 MB, take 13 minutes of processor time, and end at 2.62 bits per byte of the validation part (2.93 after 1,000).
constexpr std::string_view llama_tiny = R"(
name = "llama-tiny"
[model]
type = "llama"
vocab_size = 256
hidden_size = 256
num_hidden_layers = 4
num_attention_heads = 8
num_key_value_heads = 4
max_position_embeddings = 1024
[data]
task = "text"
seq = 257
batch = 4
order = "shuffled"
[train]
steps = 2000
seed = 42
log_every = 20
eval_every = 500
eval_windows = 0
save_every = 500
[optim]
name = "adamw"
lr = 2e-3
beta2 = 0.99
weight_decay = 0.01
clip = 1.0
schedule = "cosine"
warmup = 100
min_lr = 1e-4
)";

constexpr std::string_view gpt_tiny = R"(
name = "gpt-tiny"
[model]
type = "gpt"
vocab_size = 256
n_embd = 256
n_layer = 4
n_head = 8
n_positions = 1024
[data]
task = "text"
seq = 257
batch = 4
order = "shuffled"
[train]
steps = 2000
seed = 42
log_every = 20
eval_every = 500
eval_windows = 0
save_every = 500
[optim]
name = "adamw"
lr = 2e-3
beta2 = 0.99
weight_decay = 0.01
clip = 1.0
schedule = "cosine"
warmup = 100
min_lr = 1e-4
)";

constexpr std::array<Preset, 6> all{{
    {"copy", "the copying task, 1 layer, L = 512 (the paper's configuration I)", copy},
    {"ptb", "Penn Treebank bytes, 3 layers, L = 1024 (the paper's configuration II)", ptb},
    {"enwik8", "enwik8 bytes, 3 layers, L = 4096 (the paper's configuration III)", enwik8},
    {"enwik8-small", "enwik8 bytes for two CPU cores, 3 layers, L = 1024", enwik8_small},
    {"llama-tiny", "a LLaMA on enwik8 bytes for two CPU cores, 4 layers, L = 257", llama_tiny},
    {"gpt-tiny", "a GPT-2 of that size, to compare with", gpt_tiny},
}};

}  // namespace

std::span<const Preset> presets() { return all; }

const Preset* find_preset(std::string_view name) {
  const auto found = std::ranges::find(all, name, &Preset::name);
  return found == all.end() ? nullptr : &*found;
}

const Preset& preset(std::string_view name) {
  if (const Preset* found = find_preset(name)) return *found;
  if (find_known_model(name)) fail<ConfigError>(fmt::format("{0} is a model to plan and no preset to train; write spool plan {0}, or start from its weights with --hf DIR", name));
  std::vector<std::string_view> names;
  for (const Preset& p : all) names.push_back(p.name);
  const auto near = nearest(name, names);
  fail<ConfigError>(fmt::format("unknown preset '{}'; {}the presets are {}", name, near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                                fmt::join(names, ", ")));
}

}  // namespace spool::train
