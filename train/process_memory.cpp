#include "train/process_memory.h"

#include <fstream>
#include <string>

namespace spool::train {

int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (int64_t kib = 0; word == "VmHWM:" && status >> kib) return kib * 1024;
  return 0;
}

bool reset_peak_resident() { return bool(std::ofstream("/proc/self/clear_refs") << "5" << std::flush); }

}  // namespace spool::train
