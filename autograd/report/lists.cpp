// Exports of one line a fact: buffers as CSV, the live set as folded stacks.
#include <spool/autograd/report_export.h>
#include <spool/tensor/error.h>

#include <map>

namespace spool {

std::string buffers_csv(const Plan& step, std::span<const int64_t> offsets) {
  const std::vector<StepBuffer> buffers = step_buffers(step);
  if (!offsets.empty() && offsets.size() != buffers.size()) fail<PlanError>("buffers_csv: ", offsets.size(), " offsets for ", buffers.size(), " buffers");
  std::string out = offsets.empty() ? "id,lower,upper,size\n" : "id,lower,upper,size,offset\n";
  for (size_t k = 0; k < buffers.size(); ++k) {
    const StepBuffer& b = buffers[k];
    if (b.bytes == 0) continue;
    out += concat(b.id, ",", b.begin, ",", b.end, ",", b.bytes);
    if (!offsets.empty()) out += concat(",", offsets[k]);
    out += "\n";
  }
  return out;
}

namespace {
/// Semicolons part frames, a line break ends a stack.
std::string frame(std::string text) {
  for (char& c : text)
    if (c == ';' || uint8_t(c) < 0x20) c = '_';
  return text;
}
std::string stack_of(const LiveBuffer& b) {
  std::string out = frame(b.module.empty() ? "(no module)" : b.module);
  for (char& c : out)
    if (c == '.') c = ';';
  return out + ";" + (b.op.empty() ? concat("(", category_name(b.category), ")") : frame(b.op));
}
}  // namespace

std::string folded_stacks(const MemoryReport& report) {
  std::map<std::string, int64_t> bytes;
  for (const LiveBuffer& b : report.live)
    if (b.bytes) bytes[stack_of(b)] += b.bytes;
  std::string out;
  for (const auto& [stack, sum] : bytes) out += concat(stack, " ", sum, "\n");
  return out;
}

}  // namespace spool
