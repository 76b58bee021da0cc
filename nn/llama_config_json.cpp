// Hugging Face's config.json and generation_config.json. Source: configuration classes and rope utilities of github.com/huggingface/transformers,
// whose defaults for absent keys are used here.
#include <spool/nn/detail/llama_files.h>
#include <spool/tensor/detail/safetensors_header.h>
#include <spool/tensor/detail/safetensors_index.h>
#include <spool/tensor/error.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace spool::nn {
namespace {

using nlohmann::json;
using spool::detail::shown;

constexpr int64_t largest_config = int64_t(16) << 20;

/// An object whose values are asked for by type. Errors are ConfigErrors that begin with the key.
class Fields {
 public:
  explicit Fields(const json& object, std::string prefix = {}) : object_(object), prefix_(std::move(prefix)) {
    if (!object_.is_object()) fail<ConfigError>(prefix_.empty() ? "config.json" : prefix_.substr(0, prefix_.size() - 1), ": must be an object");
  }
  const json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  template <class... Args> [[noreturn]] void refuse(const char* key, const Args&... args) const { fail<ConfigError>(prefix_, key, ": ", args...); }

  int64_t integer(const char* key) const {
    const json* v = find(key);
    if (!v) refuse(key, "is missing");
    if (!v->is_number_integer() || (v->is_number_unsigned() && v->get<uint64_t>() > uint64_t(INT32_MAX)) || v->get<int64_t>() < 0)
      refuse(key, "must be an integer from 0 to ", INT32_MAX, ", got ", shown(v->dump(-1, ' ', true)));
    return v->get<int64_t>();
  }
  int64_t integer(const char* key, int64_t otherwise) const { return find(key) ? integer(key) : otherwise; }
  double number(const char* key) const {
    const json* v = find(key);
    if (!v) refuse(key, "is missing");
    if (!v->is_number()) refuse(key, "must be a number, got ", shown(v->dump(-1, ' ', true)));
    return v->get<double>();
  }
  double number(const char* key, double otherwise) const { return find(key) ? number(key) : otherwise; }
  bool flag(const char* key, bool otherwise) const {
    const json* v = find(key);
    if (v && !v->is_boolean()) refuse(key, "must be true or false, got ", shown(v->dump(-1, ' ', true)));
    return v ? v->get<bool>() : otherwise;
  }
  std::string text(const char* key, const std::string& otherwise) const {
    const json* v = find(key);
    if (v && !v->is_string()) refuse(key, "must be text, got ", shown(v->dump(-1, ' ', true)));
    return v ? v->get<std::string>() : otherwise;
  }

 private:
  const json& object_;
  std::string prefix_;
};

std::string model_type(const Fields& fields) {
  if (const std::string type = fields.text("model_type", ""); !type.empty()) return type;
  const json* architectures = fields.find("architectures");
  if (architectures && architectures->is_array() && architectures->size() == 1 && (*architectures)[0].is_string()) {
    if ((*architectures)[0] == "LlamaForCausalLM") return "llama";
    if ((*architectures)[0] == "MistralForCausalLM") return "mistral";
  }
  fields.refuse("model_type", "is missing");
}

/// The same keys, in rope_scaling (beside which the top level has rope_theta) or in rope_parameters (which has it inside).
void read_rope(const Fields& top, LlamaConfig& config) {
  const char* key = top.find("rope_parameters") ? "rope_parameters" : "rope_scaling";
  config.rope_theta = top.number("rope_theta", 10000);
  if (!top.find(key)) return;
  const Fields rope(*top.find(key), std::string(key) + ".");
  RopeScalingConfig& s = config.rope_scaling;
  config.rope_theta = rope.number("rope_theta", config.rope_theta);
  s.rope_type = rope.text("rope_type", rope.text("type", "default"));
  if (s.rope_type != "default" && s.rope_type != "linear" && s.rope_type != "ntk" && s.rope_type != "dynamic" && s.rope_type != "llama3")
    rope.refuse("rope_type", "the scaling ", shown(s.rope_type), " is not supported; supported are default, linear, ntk, dynamic and llama3");
  if (rope.number("partial_rotary_factor", 1) != 1) rope.refuse("partial_rotary_factor", "only 1 is supported");
  if (s.rope_type == "default") return;
  s.factor = rope.number("factor");
  if (s.rope_type != "llama3") return;  // the others count from max_position_embeddings, whatever else is given
  s.low_freq_factor = rope.number("low_freq_factor");
  s.high_freq_factor = rope.number("high_freq_factor");
  s.original_max_position_embeddings = rope.integer("original_max_position_embeddings");
}

void refuse_unsupported(const Fields& fields, const std::string& type) {
  if (type != "llama" && type != "mistral") fields.refuse("model_type", shown(type), " is not supported; llama and mistral are");
  if (const std::string act = fields.text("hidden_act", "silu"); act != "silu") fields.refuse("hidden_act", shown(act), " is not supported; silu is");
  for (const char* key : {"attention_bias", "mlp_bias"})
    if (fields.flag(key, false)) fields.refuse(key, "biases are not supported");
  if (fields.find("quantization_config")) fields.refuse("quantization_config", "quantized weights are not supported; load the original ones");
  if (fields.number("partial_rotary_factor", 1) != 1) fields.refuse("partial_rotary_factor", "only 1 is supported");
}

Dtype stored_type(const Fields& fields) {
  const std::string name = fields.text("dtype", fields.text("torch_dtype", "float32"));
  return name == "bfloat16" ? Dtype::bf16 : name == "float64" ? Dtype::f64 : Dtype::f32;
}

}  // namespace

detail::LlamaConfigFile detail::parse_llama_config(const std::string& name, std::string_view text) {
  json parsed;
  try {
    const auto shallow = [&](int depth, json::parse_event_t, json&) {
      if (depth > 64) fail<IoError>(name, ": is nested more than 64 deep");
      return true;
    };
    if (text.find('\0') != text.npos) fail<IoError>(name, ": is not valid JSON at byte ", int64_t(text.find('\0')) + 1);
    parsed = json::parse(text.begin(), text.end(), shallow);
  } catch (const json::parse_error& error) {
    fail<IoError>(name, ": is not valid JSON at byte ", int64_t(error.byte));
  } catch (const json::exception&) {
    fail<IoError>(name, ": is not valid JSON: a number is out of range");
  }
  try {
    const Fields fields(parsed);
    const std::string type = model_type(fields);
    refuse_unsupported(fields, type);
    const bool mistral = type == "mistral";
    LlamaConfigFile out;
    LlamaConfig& c = out.config;
    c.vocab_size = fields.integer("vocab_size");
    c.hidden_size = fields.integer("hidden_size");
    c.intermediate_size = fields.integer("intermediate_size");
    if (c.intermediate_size == 0) fields.refuse("intermediate_size", "must be at least 1, got 0");
    c.num_hidden_layers = fields.integer("num_hidden_layers");
    c.num_attention_heads = fields.integer("num_attention_heads");
    c.num_key_value_heads = fields.integer("num_key_value_heads", mistral ? 8 : 0);
    c.head_dim = fields.integer("head_dim", 0);
    c.max_position_embeddings = fields.integer("max_position_embeddings", mistral ? 4096 * 32 : 2048);
    c.rms_norm_eps = fields.number("rms_norm_eps", 1e-6);
    c.tie_word_embeddings = fields.flag("tie_word_embeddings", false);
    c.initializer_range = fields.number("initializer_range", 0.02);
    // Absent from a Mistral file the window is 4096, null it is none.
    if (mistral && fields.flag("use_sliding_window", true)) c.sliding_window = fields.integer("sliding_window", parsed.contains("sliding_window") ? 0 : 4096);
    read_rope(fields, c);
    c.validate();
    out.dtype = stored_type(fields);
    return out;
  } catch (ConfigError& error) {
    error.add_place(name);
    throw;
  }
}

LlamaConfig read_llama_config(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::is_directory(path, error) ? path / "config.json" : path;
  return detail::parse_llama_config(file.string(), spool::detail::read_text_file(file.string(), largest_config)).config;
}

std::string detail::format_llama_config(const LlamaConfig& c, Dtype dtype, const LlamaTokens& tokens) {
  const bool mistral = c.sliding_window > 0;
  double theta = c.rope_theta;
  json scaling;
  const RopeScalingConfig& s = c.rope_scaling;
  const int64_t original = s.original_max_position_embeddings ? s.original_max_position_embeddings : c.max_position_embeddings;
  if (s.rope_type == "ntk") {
    theta *= std::pow(s.factor, double(c.head_size()) / double(c.head_size() - 2));
  } else if (s.rope_type != "default") {
    scaling = {{"rope_type", s.rope_type}, {"factor", s.factor}};
    if (s.rope_type == "llama3")
      scaling.update({{"low_freq_factor", s.low_freq_factor}, {"high_freq_factor", s.high_freq_factor}, {"original_max_position_embeddings", original}});
  }
  const char* type = dtype == Dtype::bf16 ? "bfloat16" : dtype == Dtype::f16 ? "float16" : dtype == Dtype::f64 ? "float64" : "float32";
  nlohmann::ordered_json out{{"architectures", {mistral ? "MistralForCausalLM" : "LlamaForCausalLM"}},
                             {"model_type", mistral ? "mistral" : "llama"},
                             {"vocab_size", c.vocab_size},
                             {"hidden_size", c.hidden_size},
                             {"intermediate_size", c.feed_forward_size()},
                             {"num_hidden_layers", c.num_hidden_layers},
                             {"num_attention_heads", c.num_attention_heads},
                             {"num_key_value_heads", c.key_value_heads()},
                             {"head_dim", c.head_size()},
                             {"hidden_act", "silu"},
                             {"max_position_embeddings", s.rope_type == "dynamic" ? original : c.max_position_embeddings},
                             {"initializer_range", c.initializer_range},
                             {"rms_norm_eps", c.rms_norm_eps},
                             {"tie_word_embeddings", c.tie_word_embeddings},
                             {"rope_theta", theta},
                             {"rope_scaling", scaling},
                             {"attention_bias", false},
                             {"mlp_bias", false},
                             {"torch_dtype", type}};
  if (mistral) out["sliding_window"] = c.sliding_window;
  // Absent they would be 1 and 2.
  out["bos_token_id"] = tokens.begin ? json(*tokens.begin) : json();
  out["eos_token_id"] = tokens.end.empty() ? json() : tokens.end.size() == 1 ? json(tokens.end[0]) : json(tokens.end);
  return out.dump(2) + "\n";
}

std::string detail::format_generation_config(const LlamaTokens& tokens) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (tokens.begin) out["bos_token_id"] = *tokens.begin;
  if (tokens.end.size() == 1) out["eos_token_id"] = tokens.end[0];
  else if (!tokens.end.empty()) out["eos_token_id"] = tokens.end;
  return out.dump(2) + "\n";
}

}  // namespace spool::nn
