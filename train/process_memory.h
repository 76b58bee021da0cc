#pragma once
// The memory of this process as the system counts it: pages of everything, libraries and stacks included.
#include <cstdint>

namespace spool::train {

/// Most bytes that were resident at once (VmHWM of /proc/self/status); 0 where the system does not say.
int64_t peak_resident_bytes();
/// Lets the peak start anew from what is resident now. False where the system does not let it.
bool reset_peak_resident();

}  // namespace spool::train
