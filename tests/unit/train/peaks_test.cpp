// Peaks of everything that is known by name, in tests/golden/peaks.tsv: a change of one byte fails, and shows where it comes from. The same
// plans are placed within one percent of the largest live set.
#include <spool/autograd/arena.h>

#include <fstream>
#include <sstream>

#include "../../support.h"
#include "support.h"
#include "train/models.h"
#include "train/presets.h"
#include "train/step.h"

namespace spool::train::testing {
namespace {

struct Case {
  std::string name;
  std::vector<std::string> settings;
};

/// Every preset and known model, as it is and with each choice of memory against work that fits it.
std::vector<Case> cases() {
  std::vector<Case> out;
  const auto add = [&](std::string_view name, std::initializer_list<std::vector<std::string>> choices) {
    for (const auto& settings : choices) out.push_back({std::string(name), settings});
  };
  for (const Preset& p : presets()) {
    const bool slices = resolve({.preset = std::string(p.name), .file = {}, .hf = {}, .settings = {}}).model.type == ModelType::performer;
    if (slices) add(p.name, {{}, {"train.chunk=64"}, {"train.chunk=512", "train.state=store"}});
    else add(p.name, {{}, {"train.recompute=attention"}, {"train.recompute=block"}, {"train.recompute=block", "train.loss_chunk=64", "train.feed_forward_chunk=64"}, {"train.accumulate=2"}});
  }
  for (const KnownModel& m : known_models()) add(m.name, {{}, {"train.recompute=attention"}, {"train.recompute=block"}, {"train.recompute=block", "train.loss_chunk=1024"}, {"data.seq=2049", "data.batch=4", "train.dtype=f32"}});
  add("ring-7b", {{"data.seq=262145", "train.recompute=block", "train.loss_chunk=1024", "train.feed_forward_chunk=4096"}});
  return out;
}

RunConfig config_of(const Case& c) {
  Layers layers{.preset = c.name, .file = {}, .hf = {}, .settings = {}, .plan = true};
  for (const std::string& text : c.settings) layers.settings.push_back(parse_override(text));
  return resolve(layers);
}

std::string heading() {
  std::string out = "name\tsettings\tpeak";
  for (int k = 0; k < category_count; ++k) out += concat("\t", category_name(Category(k)));
  return out;
}
std::string line(const Case& c, const Plan& plan) {
  std::string out = c.name + "\t";
  for (const std::string& setting : c.settings) out += concat(&setting == c.settings.data() ? "" : " ", setting);
  out += concat("\t", plan.peak);
  for (const int64_t bytes : plan.at_peak.bytes) out += concat("\t", bytes);
  return out;
}

/// "was … now …" by category.
std::string table(const std::string& was, const std::string& now) {
  const auto cells = [](const std::string& text) {
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string cell; std::getline(in, cell, '\t');) out.push_back(cell);
    out.resize(3 + category_count);
    return out;
  };
  const auto names = cells(heading()), a = cells(was), b = cells(now);
  std::string out;
  for (size_t i = 2; i < names.size(); ++i) out += concat(names[i], ": was ", a[i], ", now ", b[i], a[i] == b[i] ? "\n" : ", differs\n");
  return out;
}

TEST(GoldenPeaks, AreWhatIsPlanned) {
  SKIP_IN_SLOW_BUILD();  // plans are the same in every build
  const fs::path file = fs::path(SPOOL_SOURCE_DIR) / "tests/golden/peaks.tsv";
  std::string text = heading() + "\n";
  std::vector<std::string> golden;
  std::ifstream in(file);
  for (std::string l; std::getline(in, l);) golden.push_back(l);
  size_t row = 1;
  for (const Case& c : cases()) {
    const RunConfig config = config_of(c);
    const Plan plan = plan_run(config).step;
    const std::string now = line(c, plan), was = row < golden.size() ? golden[row] : "";
    ++row;
    text += now + "\n";
    EXPECT_TRUE(now == was) << now.substr(0, now.find('\t', c.name.size() + 1)) << " in tests/golden/peaks.tsv\n" << table(was, now);
    EXPECT_EQ(closed_form(config, config.train.chunked_at(0)).value_or(nn::Estimate{.peak = {.at = "", .bytes = plan.peak}}).peak.bytes, plan.peak) << c.name;
    const ArenaLayout layout = arena_layout(step_buffers(plan));
    EXPECT_LE(double(layout.size), 1.01 * double(layout.bound)) << now;
    EXPECT_EQ(layout.lasting, 0) << "nothing outlives a step of " << c.name;
  }
  EXPECT_EQ(row, golden.size()) << "lines of tests/golden/peaks.tsv";
  const char* write = std::getenv("SPOOL_WRITE_PEAKS");
  if (write && *write) std::ofstream(file, std::ios::binary) << text;
  else if (HasFailure()) ADD_FAILURE() << "if the change is meant, run this test with SPOOL_WRITE_PEAKS=1 and look at what git says of the file";
}

}  // namespace
}  // namespace spool::train::testing
