#pragma once
// What a profile says: where the time of a step goes, and how far each op is from what the machine can do.
#include <spool/tensor/profiler.h>

#include <string>

namespace spool::train {

/// Measures this machine with all of its threads, in about a quarter of a second: a product of 1,024³ and a copy of 64 MiB, best of several.
Roof measure_roof();

/// The ten costliest ops with calls, time, share, rates and the part of their time that they would need at the roof; then what is between
/// them. Of `steps` steps that took `seconds` together.
std::string profile_text(const Profiler& profiler, const Roof& roof, int64_t steps, double seconds);

}  // namespace spool::train
