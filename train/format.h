#pragma once
// Numbers as people read them.
#include <cstdint>
#include <string>
#include <string_view>

namespace spool::train {

std::string format_count(int64_t count);         ///< 1,234,567
/// 1,234,567 B (1.18 MiB): the bytes always, and KiB, MiB, GiB or TiB from 1024 on; never decimal units.
std::string format_bytes(int64_t bytes);
/// Reads "2GiB", "1.5 MiB", "100000": a number with KiB, MiB, GiB, TiB, B or nothing behind it. Throws ConfigError that begins with `option`.
int64_t parse_bytes(std::string_view text, std::string_view option);
std::string format_duration(double seconds);     ///< 450 ms; 3.2 s; 2 min 05 s; 1 h 02 min; 3 d 04 h. Unknown (not finite): "?".
/// 12,345 tokens/s; three digits below 100; "? tokens/s" if the time is not above zero.
std::string format_rate(double count, double seconds, std::string_view unit);

}  // namespace spool::train
