#include "train/op_page.h"

#include <spool/autograd/op.h>
#include <spool/autograd/tape.h>
#include <spool/ops/cast.h>
#include <spool/tensor/error.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "train/nearest.h"
#include "train/op_headers.h"

namespace spool::train {
namespace {

using Json = nlohmann::ordered_json;

const void* attrs_of(const OpInfo& op, const AttrsPtr& given) { return given ? given.get() : op.default_attrs.get(); }

std::vector<Sample> samples_of(const OpInfo& op) {
  Rng rng(1);
  return op.samples(rng);
}

/// "input 0 1, output 0": what an op keeps when every float input of its first sample wants a gradient.
std::string saves_text(const OpInfo& op) {
  if (!op.saves) return "";
  const auto samples = samples_of(op);
  if (samples.empty()) return "";
  Need need;
  for (size_t i = 0; i < samples[0].inputs.size(); ++i) {
    const Tensor& t = samples[0].inputs[i];
    if (t.defined() && is_float(t.dtype())) need.mask |= uint32_t(1) << i;
  }
  const Saves saves = op.saves(need, attrs_of(op, samples[0].attrs));
  std::string text;
  const auto list = [&](const char* what, uint32_t mask) {
    if (!mask) return;
    text += std::string(text.empty() ? "" : ", ") + what;
    for (int i = 0; i < 32; ++i)
      if (mask >> i & 1) text += fmt::format(" {}", i);
  };
  list("input", saves.inputs);
  list("output", saves.outputs);
  list("residual", saves.residuals);
  return text.empty() ? "nothing" : text;
}

std::string gradient_text(const OpInfo& op) { return op.no_gradient.empty() ? "keeps " + saves_text(op) : fmt::format("no gradient: {}", op.no_gradient); }

std::string second_order_text(const OpInfo& op) {
  if (!op.no_gradient.empty()) return "";
  std::string_view reason;
  if (op.no_second_order)
    for (const Sample& sample : samples_of(op))
      if (const std::string_view text = op.no_second_order(attrs_of(op, sample.attrs)); !text.empty()) reason = text;
  return reason.empty() ? "differentiable again" : fmt::format("not differentiable again: {}", reason);
}

/// Whether a sample runs with its float inputs in this type.
bool takes(const OpInfo& op, const Sample& sample, Dtype dtype) {
  Tensors inputs;
  for (const Tensor& t : sample.inputs) inputs.push_back(t.defined() && t.dtype() == Dtype::f64 ? cast(t, dtype) : t);
  try {
    const NoGrad quiet;
    dispatch(op, inputs, attrs_of(op, sample.attrs));
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The types that stand for the float inputs of the samples, found by running one.
std::string types_text(const OpInfo& op) {
  const auto samples = samples_of(op);
  const auto floats = std::find_if(samples.begin(), samples.end(), [](const Sample& s) { return std::any_of(s.inputs.begin(), s.inputs.end(), [](const Tensor& t) { return t.defined() && t.dtype() == Dtype::f64; }); });
  if (floats == samples.end()) return "";
  std::string text;
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean})
    if (takes(op, *floats, dtype)) text += (text.empty() ? "" : " ") + std::string(dtype_name(dtype));
  return text;
}

std::string shapes_text(const Tensors& tensors) {
  std::string text;
  for (const Tensor& t : tensors) text += (text.empty() ? "" : ", ") + (t.defined() ? to_string(t.shape()) : std::string("-"));
  return text.empty() ? "-" : text;
}

/// "ragged: [3, 5], [5] → [3, 5]" for each sample.
std::vector<std::string> examples(const OpInfo& op, size_t most) {
  std::vector<std::string> lines;
  for (const Sample& sample : samples_of(op)) {
    if (lines.size() == most) break;
    const NoGrad quiet;
    lines.push_back(fmt::format("{}: {} → {}", sample.label, shapes_text(sample.inputs), shapes_text(dispatch(op, sample.inputs, attrs_of(op, sample.attrs)))));
  }
  return lines;
}
std::vector<std::string> refusals(const OpInfo& op) {
  std::vector<std::string> lines;
  for (const BadSample& bad : op.bad()) {
    const void* attrs = attrs_of(op, bad.attrs);
    try {
      dispatch(op, bad.inputs, attrs);
    } catch (const Error& error) {
      lines.emplace_back(error.what());
    }
  }
  return lines;
}

const OpInfo* find_op(std::string_view name) {
  for (const OpInfo* op : registered_ops())
    if (op->name == name) return op;
  return nullptr;
}

const std::vector<HeaderPage>& pages() {
  static const std::vector<HeaderPage> all = [] {
    std::vector<HeaderPage> parsed;
    for (const HeaderText& header : op_headers()) parsed.push_back(parse_header(header));
    return parsed;
  }();
  return all;
}

bool has_function(std::string_view name) {
  for (const HeaderPage& page : pages())
    for (const HeaderEntry& entry : page.entries)
      if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return true;
  return false;
}

/// The ops behind a function: the one of its name and its form with a number (pow, pow_scalar), or those that it chooses from (gelu:
/// gelu_erf, gelu_tanh).
std::vector<const OpInfo*> ops_behind(const std::string& function) {
  std::vector<const OpInfo*> found;
  const bool own = find_op(function) != nullptr;
  for (const OpInfo* op : registered_ops()) {
    const bool chosen = op->name.starts_with(function + "_") && !op->name.ends_with("_backward") && !has_function(op->name);
    if (op->name == function || (chosen && (!own || op->name == function + "_scalar"))) found.push_back(op);
  }
  return found;
}

/// What the registry adds to a function's comment, line by line.
std::vector<std::string> facts(const OpInfo& op, size_t most_examples) {
  std::vector<std::string> lines = {fmt::format("Gradient: {}", op.no_gradient.empty() ? fmt::format("keeps {}; {}", saves_text(op), second_order_text(op)) : std::string(op.no_gradient))};
  if (const std::string types = types_text(op); !types.empty()) lines.push_back("Types: " + types);
  for (const std::string& example : examples(op, most_examples)) lines.push_back("Shapes: " + example);
  for (const std::string& text : refusals(op)) lines.push_back("Refuses: " + text);
  return lines;
}

std::string wrapped(const std::string& text, size_t width) {
  std::string out, line;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line + "\n";
}

}  // namespace

std::string ops_table() {
  std::string text;
  for (const OpInfo* op : registered_ops()) text += fmt::format("{:<28} {}\n", op->name, gradient_text(*op));
  return text;
}

Json ops_json() {
  Json list = Json::array();
  for (const OpInfo* op : registered_ops())
    list.push_back({{"name", op->name}, {"saves", saves_text(*op)}, {"differentiable", op->no_gradient.empty()}, {"devices", op->cpu || op->view ? Json::array({"cpu"}) : Json::array()}});
  return {{"schema", "spool.ops/1"}, {"ops", list}};
}

std::string op_text(const std::string& name) {
  std::string text;
  std::vector<std::string_view> known;
  for (const HeaderPage& page : pages())
    for (const HeaderEntry& entry : page.entries) {
      known.insert(known.end(), entry.names.begin(), entry.names.end());
      if (std::find(entry.names.begin(), entry.names.end(), name) == entry.names.end()) continue;
      text += fmt::format("{}#include <spool/ops/{}>\n\n{}\n\n{}", text.empty() ? "" : "\n", page.name, entry.code, wrapped(entry.doc, 110));
    }
  const OpInfo* op = find_op(name);
  for (const OpInfo* other : registered_ops()) known.push_back(other->name);
  if (text.empty() && !op) {
    const std::string_view near = nearest(name, known);
    fail<ConfigError>("ops: there is no '", name, "'", near.empty() ? ";" : concat("; did you mean '", near, "'?"), " `spool ops` lists them all");
  }
  if (text.empty()) text = fmt::format("{}: called by other ops, not by users\n", name);
  const auto behind = ops_behind(name);
  if (behind.empty()) return text + "\nMade of other ops.\n";
  for (const OpInfo* each : behind) {
    text += each->name == name ? "\n" : fmt::format("\n{}\n", each->name);
    for (const std::string& line : facts(*each, 99)) text += line + "\n";
  }
  return text;
}

std::string ops_markdown() {
  std::string text = "# The ops\n\nWritten by `spool ops --markdown` from the registry and the headers; a test says when it is stale. Shapes are those of\nthe samples that the conformance tests run, types those that the first of them runs in.\n";
  for (const HeaderPage& page : pages()) {
    text += fmt::format("\n## {}\n\n{}", page.name, wrapped(page.intro, 140));
    for (const HeaderEntry& entry : page.entries) {
      text += fmt::format("\n```cpp\n{}\n```\n", entry.code);
      if (!entry.doc.empty()) text += wrapped(entry.doc, 140);
      for (const std::string& name : entry.names) {
        const auto behind = ops_behind(name);
        for (const OpInfo* op : behind)
          for (const std::string& line : facts(*op, 2)) text += fmt::format("* {}{}\n", entry.names.size() > 1 || op->name != name ? fmt::format("`{}` ", op->name) : "", line);
      }
    }
  }
  text += "\n## Ops that other ops call\n\nThey are planned, costed and tested like the rest.\n\n";
  std::vector<const OpInfo*> shown;
  for (const HeaderPage& page : pages())
    for (const HeaderEntry& entry : page.entries)
      for (const std::string& name : entry.names)
        for (const OpInfo* op : ops_behind(name)) shown.push_back(op);
  for (const OpInfo* op : registered_ops())
    if (std::find(shown.begin(), shown.end(), op) == shown.end()) text += fmt::format("* `{}`: {}\n", op->name, gradient_text(*op));
  return text;
}

}  // namespace spool::train
