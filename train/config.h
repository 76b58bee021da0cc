#pragma once
// The configuration of a run: four sections, each an aggregate whose defaults make sense alone. See fields.h for how a section describes
// itself; a new setting is one member and one line.
#include <spool/tensor/dtype.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/config_text.h"
#include "train/fields.h"
#include "train/model.h"

namespace spool::train {

enum class Task { text, copy };
/// The order of training text: as it stands, as in the paper, or a fresh random order of sequences each epoch.
enum class Order { sequential, shuffled };
/// How gradients are made. `automatic` is chunked if a chunk is given, else full; `finetune` is full for the first half of the steps and
/// chunked after.
enum class Mode { automatic, full, chunked, finetune };
enum class OptimizerName { sgd, adam, adamw };
enum class ScheduleName { constant, step, cosine };

template <> struct EnumNames<Task> { static constexpr std::array<std::string_view, 2> names{"text", "copy"}; };
template <> struct EnumNames<Order> { static constexpr std::array<std::string_view, 2> names{"sequential", "shuffled"}; };
template <> struct EnumNames<Mode> { static constexpr std::array<std::string_view, 4> names{"auto", "full", "chunked", "finetune"}; };
template <> struct EnumNames<OptimizerName> { static constexpr std::array<std::string_view, 3> names{"sgd", "adam", "adamw"}; };
template <> struct EnumNames<ScheduleName> { static constexpr std::array<std::string_view, 3> names{"constant", "step", "cosine"}; };
template <> struct EnumNames<StatePolicy> { static constexpr std::array<std::string_view, 3> names{"subtract", "subtract64", "store"}; };
template <> struct EnumNames<nn::AttentionKind> { static constexpr std::array<std::string_view, 2> names{"blockwise", "materialised"}; };
template <> struct TextForm<nn::Recompute> {
  static std::string text(const nn::Recompute& policy) { return to_string(policy); }
  static nn::Recompute parse(std::string_view text) { return nn::parse_recompute(text); }
  static constexpr std::string_view expected = "none, attention, attention:K, block, block:K, group:N or nested:N";
};
/// Only the types that training computes in.
template <> struct EnumNames<Dtype> { static constexpr std::array<std::string_view, 3> names{"f32", "f64", "bf16"}; };

/// [data]
struct DataConfig {
  Task task = Task::text;
  std::string path;       ///< Empty: the usual places, else the project's own text (see dataset.h).
  std::string tokenizer;  ///< Empty: a token is a byte (see tokenizer.h).
  int64_t seq = 512;      ///< L: tokens a sequence; L − 1 of them are targets.
  int64_t batch = 1;      ///< Sequences of a micro-batch; a step has train.accumulate of those.
  Order order = Order::sequential;

  template <class Self, class V> static void visit_fields(Self& self, V&& v) {
    v("task", self.task, "task: text, or the synthetic copying task, which needs no data");
    v("path", self.path, "data path: a file, .gz, .zip or directory of text; empty for data/enwik8");
    v("tokenizer", self.tokenizer, "tokenizer: a file or directory; empty for bytes");
    v("seq", self.seq, "sequence length: tokens a sequence", at_least(2));
    v("batch", self.batch, "batch size: sequences at a time, train.accumulate of which make a step", at_least(1));
    v("order", self.order, "order of training text: sequential, or shuffled anew each epoch");
  }
};

/// [train]
struct TrainConfig {
  int64_t steps = 1000;
  std::optional<int64_t> chunk;  ///< C: positions a slice of Algorithm 1.
  Mode mode = Mode::automatic;
  StatePolicy state = StatePolicy::subtract64;
  nn::Recompute recompute;
  std::vector<std::string> recompute_ops;
  nn::AttentionKind attention = nn::AttentionKind::blockwise;
  int64_t loss_chunk = 0;          ///< Rows of logits at a time.
  int64_t feed_forward_chunk = 0;  ///< Positions of the feed-forward block at a time.
  int64_t accumulate = 1;          ///< A: micro-batches a step. The gradient is that of one batch of A · data.batch.
  Dtype dtype = Dtype::f32;
  int64_t seed = 42;
  int64_t log_every = 100;
  int64_t eval_every = 1000;
  int64_t eval_windows = 64;  ///< 0: all of them.
  int64_t save_every = 1000;
  int64_t keep = 2;

  /// Whether this step's gradient is chunked.
  bool chunked_at(int64_t step) const;
  /// How this step's loss is computed.
  nn::LossOptions loss_options(int64_t step) const;

  template <class Self, class V> static void visit_fields(Self& self, V&& v) {
    v("steps", self.steps, "number of steps: optimizer steps in the whole run", at_least(1));
    v("chunk", self.chunk, "chunk size: positions a slice; none for the full gradient", at_least(1, "leave it out for the full gradient"));
    v("mode", self.mode, "mode: full or chunked gradient, or full for the first half and chunked after");
    v("state", self.state, "state policy: how backward gets a slice's state back");
    v("recompute", self.recompute, "recomputation: what is run again in backward instead of kept: none, attention, block, group:N or nested:N blocks at a time; attention:K, block:K for the first K");
    v("recompute_ops", self.recompute_ops, "ops recomputed: names of ops (rms_norm, swiglu) or modules (mlp) whose results are made again from what backward keeps anyway");
    v("attention", self.attention, "attention: blockwise, or materialised with its matrix of weights kept, for comparison");
    v("loss_chunk", self.loss_chunk, "loss chunk: rows of logits that exist at a time; 0 for all", at_least(0));
    v("feed_forward_chunk", self.feed_forward_chunk, "feed-forward chunk: positions of the feed-forward block at a time; 0 for all", at_least(0));
    v("accumulate", self.accumulate, "accumulation: micro-batches a step, whose gradients add up", at_least(1));
    v("dtype", self.dtype, "dtype: what parameters and activations are stored in; bf16 has f32 master weights");
    v("seed", self.seed, "random seed: of initialisation, dropout and synthetic data", at_least(0));
    v("log_every", self.log_every, "log interval: steps between metrics", at_least(1));
    v("eval_every", self.eval_every, "validation interval: steps between validations; 0 for only at the end", at_least(0));
    v("eval_windows", self.eval_windows, "validation windows: how many sequences; 0 for all", at_least(0));
    v("save_every", self.save_every, "checkpoint interval: steps between checkpoints; 0 for only at the end", at_least(0));
    v("keep", self.keep, "kept checkpoints: how many of the latest stay", at_least(1));
  }
};

/// [optim]
struct OptimConfig {
  OptimizerName name = OptimizerName::adam;
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  std::optional<double> clip;
  ScheduleName schedule = ScheduleName::constant;
  int64_t warmup = 0;
  int64_t step_at = 0;
  double step_factor = 0.1;
  double min_lr = 0;

  template <class Self, class V> static void visit_fields(Self& self, V&& v) {
    v("name", self.name, "optimizer: adam's decay is added to the gradient, adamw's is decoupled");
    v("lr", self.lr, "learning rate: the highest of the schedule", above(0));
    v("beta1", self.beta1, "beta 1: decay of the first moment", from_below(0, 1));
    v("beta2", self.beta2, "beta 2: decay of the second moment", from_below(0, 1));
    v("eps", self.eps, "epsilon: added to the root of the second moment", at_least(0));
    v("weight_decay", self.weight_decay, "weight decay", at_least(0));
    v("momentum", self.momentum, "momentum: of sgd", from_below(0, 1));
    v("clip", self.clip, "gradient clipping: largest global norm; none for no clipping", above(0, "leave it out for no clipping"));
    v("schedule", self.schedule, "schedule: how the learning rate runs after warm-up");
    v("warmup", self.warmup, "warm-up steps: the learning rate rises linearly", at_least(0));
    v("step_at", self.step_at, "step position: schedule step multiplies once after this many steps", at_least(0));
    v("step_factor", self.step_factor, "step factor: what it multiplies by", above(0));
    v("min_lr", self.min_lr, "lowest learning rate: where schedule cosine ends", at_least(0));
  }
};

struct RunConfig {
  std::string name = "custom";  ///< The preset it started from.
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimConfig optim;

  template <class Self, class V> static void visit_fields(Self& self, V&& v) {
    v("name", self.name, "name: of the run, shown in reports");
    v("model", self.model, "the model");
    v("data", self.data, "what it learns from");
    v("train", self.train, "the training loop");
    v("optim", self.optim, "the optimizer and its schedule");
  }
};

/// Checks ranges and what has to fit together. Throws ConfigError that names the key, its value, and where it was set.
/// `fields` are those of `config`.
void validate(const RunConfig& config, const Fields& fields);
inline void validate(const RunConfig& config) { validate(config, fields_of(config)); }

/// A configuration from its layers, each over the one before: defaults, preset, file, single settings. Checked.
/// Setting one key twice on the command line is an error, as it is in a file.
struct Layers {
  std::string preset;           ///< Name, or empty.
  std::filesystem::path file;   ///< TOML, or empty.
  std::filesystem::path hf;     ///< Hugging Face weights: their [model] takes the place of the preset's, and so does their tokenizer.
  std::vector<Override> settings;
  bool plan = false;            ///< For planning: `preset` may name a known model, see models.h.
};
RunConfig resolve(const Layers& layers);

}  // namespace spool::train
